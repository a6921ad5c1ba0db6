"""What a step trains for: one objective in each file, and the choice between them by hparams."""

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.training.objectives.objective import Objective
from t2t_lite.training.objectives.plain import Plain
from t2t_lite.training.objectives.rdrop import RDrop
from t2t_lite.training.objectives.simcut import SimCut

# By the hparam that asks for it; "" is for none.
_BY_HPARAM: dict[str, type[Objective]] = {
    "": Plain,
    "rdrop_alpha": RDrop,
    "simcut_alpha": SimCut,
}


def objective_of(hparams: BasicHParams) -> Objective:
    """Returns the objective of some hyperparameters.

    Raises:
        UsageError: they ask for several.
    """
    return _BY_HPARAM[hparams.objective]()
