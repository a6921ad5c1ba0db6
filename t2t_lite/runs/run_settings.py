"""The settings of a run, as a trainer is given them and as flags.json keeps them."""

import dataclasses
import json
import pathlib
import types
import typing
from collections.abc import Mapping
from typing import Any, Self

from t2t_lite import json_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings of a run: those that are read again are fields.

    In a run folder, `data_dir` is absolute, and seed and parts are known; those of an imported
    model mean nothing. A field that is None is not written.

    Attributes:
        problem: its name.
        model: its name.
        hparams_set: the name of the set that the hyperparameters come from.
        output_dir: the run folder, as it was named.
        data_dir: folder of the training data.
        warm_start_from: run folder or checkpoint of the first weights; "": they are drawn.
        random_seed: seed of weights, data order and dropout; None: it has yet to be drawn.
        parts: W, the parts of a batch; None: they have yet to be counted.
        schedule: of the trainer.
        train_steps: the number of updates to reach.
        eval_use_test_set: whether the trainer evaluates on the test split.
        eval_steps: number of batches that an evaluation reads.
        decode_hparams: changes to the search settings of evaluations.
        best_metric: the metric that ranks checkpoints; "": the problem's first one.
        keep_checkpoint_max: number of newest checkpoints to keep.
        keep_best_max: number of best checkpoints to keep as well.
        published_decode_hparams: the search for which a model was imported.
        others: the trainer's other settings by name, which reports alone show.
    """

    problem: str
    model: str
    hparams_set: str
    output_dir: str = ""
    data_dir: str | None = None
    warm_start_from: str = ""
    random_seed: int | None = None
    parts: int | None = None
    schedule: str | None = None
    train_steps: int | None = None
    eval_use_test_set: bool | None = None
    eval_steps: int | None = None
    decode_hparams: str = ""
    best_metric: str = ""
    keep_checkpoint_max: int | None = None
    keep_best_max: int | None = None
    published_decode_hparams: str | None = None
    others: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, flags: Mapping[str, Any]) -> Self:
        """Returns the settings of these flags, by name."""
        own = {name: flags[name] for name in _KINDS if name in flags or name in _REQUIRED}
        others = {name: value for name, value in flags.items() if name not in _KINDS}
        return cls(**own, others=others)

    @classmethod
    def read(cls, path: pathlib.Path) -> Self:
        """Reads flags.json.

        Raises:
            UserError: a field is missing or of another type, or it is not a JSON object.
            OSError: the file cannot be read.
        """
        flags = json_files.read_object(path)
        flags.check(_KINDS)
        return cls.of(flags)

    def flags(self) -> dict[str, Any]:
        """Returns all settings by the names of their flags."""
        own = {name: getattr(self, name) for name in _KINDS}
        return {name: value for name, value in own.items() if value is not None} | dict(self.others)

    def to_json(self) -> str:
        """Returns the contents of flags.json."""
        return json.dumps(self.flags(), indent=1) + "\n"


def _kind(hint: Any) -> type:
    """Returns the type of the values of a field, which may also be None."""
    return next(kind for kind in (*typing.get_args(hint), hint) if kind is not types.NoneType)


# The types of the fields that are read again.
_KINDS = {name: _kind(hint) for name, hint in typing.get_type_hints(RunSettings).items()}
del _KINDS["others"]
_REQUIRED = ("problem", "model", "hparams_set")
