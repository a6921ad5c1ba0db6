"""A trained model: a checkpoint in its run folder."""

import dataclasses
import glob
import logging
import pathlib
from typing import TYPE_CHECKING, Any

from t2t_lite import files
from t2t_lite.runs import checkpoint_files, run_folder

if TYPE_CHECKING:
    from t2t_lite.models.seq2seq import Seq2Seq

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """One checkpoint, and the run that wrote it."""

    run: run_folder.RunFolder
    checkpoint: str  # its prefix; "" until the newest readable one is loaded

    def files(self) -> list[pathlib.Path]:
        """Returns the files of the checkpoint and all files that belong to the run folder."""
        path = pathlib.Path(self.checkpoint)
        return [*self.run.own_files(), *path.parent.glob(glob.escape(path.name) + ".*")]

    def load(self, dtype: str = "") -> tuple["Seq2Seq", "TrainedModel"]:
        """Builds the model and reads its weights; `dtype`: see `RunFolder.load_model`.

        Returns:
            The model; this, with the checkpoint that was read.

        Raises:
            UserError: the weights cannot be read or do not fit.
        """
        model, step, checkpoint = self.run.load_model(self.checkpoint or None, dtype)
        log.info("restored %s after step %d", checkpoint, step)
        return model, dataclasses.replace(self, checkpoint=checkpoint)

    def origin(self) -> dict[str, Any]:
        """Returns everything that determines the model's outputs, for JSON."""
        names = [self.run.folder / name for name in self.run.problem.vocab_files()]
        # A checkpoint's index holds a checksum of every value.
        paths = [pathlib.Path(self.checkpoint + checkpoint_files.CHECKPOINT_INDEX), *names]
        return {"hparams": self.run.hparams.to_dict(), "files": [files.digest(p) for p in paths]}
