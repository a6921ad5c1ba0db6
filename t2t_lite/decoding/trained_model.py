"""A trained model: a checkpoint in its run folder."""

import dataclasses
import glob
import logging
import pathlib
from typing import TYPE_CHECKING, Any, Self

from t2t_lite.kept_work import Fingerprint
from t2t_lite.runs import checkpoint_files, run_folder

if TYPE_CHECKING:
    from t2t_lite.models.seq2seq import Seq2Seq

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """One checkpoint, and the run that wrote it."""

    run: run_folder.RunFolder
    checkpoint: str  # its prefix; "" until the newest readable one is loaded
    fingerprint: Fingerprint | None = None  # of what it is read from, before it was read

    def files(self) -> list[pathlib.Path]:
        """Returns the files of the checkpoint and all files that belong to the run folder."""
        path = pathlib.Path(self.checkpoint)
        return [*self.run.own_files(), *path.parent.glob(glob.escape(path.name) + ".*")]

    def fingerprinted(self) -> Self:
        """Returns this with the fingerprint of what it is about to be read from."""
        newest = checkpoint_files.whole_checkpoints(self.run.folder)[-1:]
        checkpoints = [self.checkpoint] if self.checkpoint else newest
        paths = [*map(_index, checkpoints), *map(str, self.run.vocabulary())]
        return dataclasses.replace(self, fingerprint=Fingerprint(paths))

    def load(self, dtype: str = "") -> tuple["Seq2Seq", "TrainedModel"]:
        """Builds the model and reads its weights; `dtype`: see `RunFolder.load_model`.

        Returns:
            The model; this, with the checkpoint that was read and its fingerprint.

        Raises:
            UserError: the weights cannot be read or do not fit, or were replaced meanwhile.
        """
        if self.fingerprint is None:
            return self.fingerprinted().load(dtype)
        model, step, checkpoint = self.run.load_model(self.checkpoint or None, dtype)
        if _index(checkpoint) not in self.fingerprint:  # the newest was torn, or is newer still
            return dataclasses.replace(self, checkpoint=checkpoint, fingerprint=None).load(dtype)
        self.fingerprint.require_unchanged(_index(checkpoint), *self.run.vocabulary())
        log.info("restored %s after step %d", checkpoint, step)
        return model, dataclasses.replace(self, checkpoint=checkpoint)

    def require_same_vocabulary(self) -> None:
        """Checks that the vocabulary is as it was before the model was read.

        Call it when the encoders have been read. The checkpoint may be gone by then: training
        deletes old ones.

        Raises:
            UserError: it was replaced.
        """
        if self.fingerprint and (paths := self.run.vocabulary()):
            self.fingerprint.require_unchanged(*paths)

    def origin(self) -> dict[str, Any]:
        """Returns everything that determines the model's outputs, for JSON."""
        fingerprint = self.fingerprint or self.fingerprinted().fingerprint
        assert fingerprint is not None
        paths = [_index(self.checkpoint), *map(str, self.run.vocabulary())]
        return {
            "problem": self.run.problem.name,
            "hparams": self.run.hparams.to_dict(),
            "files": [fingerprint.digest(path) for path in paths],
        }


def _index(checkpoint: str) -> str:
    """Returns the file of a checkpoint that has a checksum of every value."""
    return checkpoint + checkpoint_files.CHECKPOINT_INDEX
