"""Which models suit which problems."""

from typing import TYPE_CHECKING, NamedTuple

from t2t_lite.data.problem import Problem

if TYPE_CHECKING:
    from t2t_lite.models.seq2seq import Seq2Seq


class Mismatch(NamedTuple):
    """Why a model cannot learn a problem.

    Attributes:
        reason: what a message says of the model.
        suited: the name of a model that can.
    """

    reason: str
    suited: str


def mismatch(model: "type[Seq2Seq]", problem: Problem) -> Mismatch | None:
    """Returns why a model cannot learn a problem; None if it can."""
    name = f"problem {problem.name!r}"
    if model.only_labels and not problem.has_labels:
        suited = "transformer_regressor" if problem.has_numbers else "transformer"
        return Mismatch(f"is a classifier, and {name} has no labels (Text2ClassProblem)", suited)
    if model.only_numbers and not problem.has_numbers:
        suited = "transformer_encoder" if problem.has_labels else "transformer"
        return Mismatch(
            f"gives numbers, and {name} has no numbers as targets (Text2RealProblem)", suited
        )
    if problem.has_numbers and not model.only_numbers:
        return Mismatch(
            f"gives no numbers, which {name} has as targets (Text2RealProblem)",
            "transformer_regressor",
        )
    if model.reads_translations and getattr(problem, "CONCAT_TOKEN", "") is not None:
        return Mismatch(
            f"reads a source and its translation with EOS between them, and {name} has other "
            "texts (quality_tmpdir)",
            "transformer_regressor",
        )
    return None
