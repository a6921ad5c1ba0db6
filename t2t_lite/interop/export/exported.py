"""What every format exports, a run's model, and what stands beside it in the folder."""

import dataclasses
import pathlib
import shutil
from collections.abc import Sequence
from typing import Self

from t2t_lite.interop.export.model_card import model_card
from t2t_lite.models.finite_weights import require_finite_weights
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.version import __version__

README = "README.md"


@dataclasses.dataclass(frozen=True)
class Exported:
    """The model of a checkpoint.

    Attributes:
        run: the run folder that it is from.
        model: with the checkpoint's weights, which are finite.
        step: the updates after which the checkpoint was written.
        checkpoint: the prefix of its files.
    """

    run: RunFolder
    model: Seq2Seq
    step: int
    checkpoint: str

    @classmethod
    def load(cls, run: RunFolder, checkpoint: str | None, dtype: str = "") -> Self:
        """Loads a model.

        Args:
            run: an opened run folder.
            checkpoint: prefix of a checkpoint; None: the newest.
            dtype: the model's; "": as in training.

        Raises:
            UserError: there is no such checkpoint, or a weight is NaN or infinite.
        """
        model, step, prefix = run.load_model(checkpoint, dtype)
        require_finite_weights(model, prefix)
        return cls(run, model, step, prefix)

    @property
    def origin(self) -> str:
        """The paragraph of a README that states what was exported."""
        run = self.run
        return (
            f"Model {run.model_name} ({run.hparams_set}) for the problem {run.problem.name} after "
            f"{self.step:,} steps: checkpoint {pathlib.Path(self.checkpoint).name}, exported by "
            f"t2t_lite {__version__}."
        )

    def write_card(
        self, folder: pathlib.Path, library: str, usage: str, codes: Sequence[str] = ()
    ) -> None:
        """Writes the README.md of an export; arguments after the folder as for `model_card`."""
        card = model_card(self.run, self.checkpoint, self.step, library, usage, codes)
        (folder / README).write_text(card, encoding="utf-8")

    def copy_vocabulary(self, folder: pathlib.Path) -> None:
        """Copies the files of the run's vocabulary."""
        for name in self.run.problem.vocab_files():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.run.folder / name, folder / name)
