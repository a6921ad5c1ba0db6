"""The files that decoding writes: their names, and what they may not overwrite."""

from collections.abc import Sequence

from t2t_lite import files
from t2t_lite.decoding.batch_journal import WRITTEN_BESIDE
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams


def results_name(prefix: str, run: run_folder.RunFolder, hparams: DecodeHParams) -> str:
    """Returns T2T's name for a results file that the user has not named."""
    return (
        f"{prefix}.{run.model_name}.{run.hparams_set}.{run.problem.name}"
        f".beam{hparams.beam_size}.alpha{hparams.alpha}.decodes"
    )


def refuse_overwriting(
    outputs: Sequence[str], inputs: Sequence[str], trained: Sequence[TrainedModel]
) -> None:
    """Raises UserError if an output is one of the inputs, or belongs to a run folder.

    Args:
        outputs: the files to write.
        inputs: the files that are read; empty ones are not given.
        trained: the models.
    """
    own = [path for one in trained for path in one.files()]
    for path in outputs:
        files.refuse_overwriting(path, [*filter(None, inputs), *own], WRITTEN_BESIDE)
