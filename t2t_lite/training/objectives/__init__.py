"""What a step trains for: one objective in each file, and the choice between them by hparams."""

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training.objectives.objective import Objective
from t2t_lite.training.objectives.plain import Plain
from t2t_lite.training.objectives.rdrop import RDrop
from t2t_lite.training.objectives.simcut import SimCut
from t2t_lite.training.objectives.squared_error import SquaredError

# By the hparam that asks for it; "" is for none.
_BY_HPARAM: dict[str, type[Objective]] = {
    "": Plain,
    "rdrop_alpha": RDrop,
    "simcut_alpha": SimCut,
}


def objective_of(model: Seq2Seq | type[Seq2Seq], hparams: BasicHParams) -> Objective:
    """Returns the objective of a model with some hyperparameters.

    Raises:
        UsageError: they ask for several, or for one that the model cannot be trained for.
    """
    name = hparams.objective
    if not model.only_numbers:
        return _BY_HPARAM[name]()
    if name:
        raise UsageError(
            f"hparam {name}={getattr(hparams, name):g}: {hparams.objectives[name]} compares "
            f"distributions, which a model of numbers does not have: set {name}=0"
        )
    return SquaredError()
