"""What a step trains for: one objective in each file, and the choice between them by hparams."""

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.training.objectives.objective import Objective
from t2t_lite.training.objectives.plain import Plain
from t2t_lite.training.objectives.rdrop import RDrop


def objective_of(hparams: BasicHParams) -> Objective:
    """Returns the objective of some hyperparameters."""
    return RDrop() if hparams.rdrop_alpha else Plain()
