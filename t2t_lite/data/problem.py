"""Problem: what to learn, where its text comes from and which vocabulary it is written in.

The classes keep T2T's names and members, so that a T2T user's problem ports by changing imports.
This module imports neither TensorFlow nor Keras: naming problems must stay quick.
"""

import abc
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from t2t_lite import registry
from t2t_lite.errors import UsageError, UserError
from t2t_lite.text.bad_input import BadInput
from t2t_lite.text.text_encoder import TextEncoder

if TYPE_CHECKING:
    from t2t_lite.generation.config import DatagenOptions


class DatasetSplit:
    """The parts of a data set; TRAIN is shuffled, EVAL watches training, TEST is reported."""

    TRAIN = "train"
    EVAL = "eval"
    TEST = "test"


# What each split is called in file names.
SPLIT_FILE_NAMES = {
    DatasetSplit.TRAIN: "train",
    DatasetSplit.EVAL: "dev",
    DatasetSplit.TEST: "test",
}

# T2T's seed of data generation.
RANDOM_SEED = 429459


def shard_paths(data_dir: str, name: str, split: str, shards: int) -> list[str]:
    """T2T's file names: `{data_dir}/{name}-{train|dev|test}-00000-of-00100`."""
    stem = f"{name}-{SPLIT_FILE_NAMES[split]}"
    folder = pathlib.Path(data_dir)
    return [str(folder / f"{stem}-{i:05d}-of-{shards:05d}") for i in range(shards)]


def three_splits(train_shards: int) -> list[dict[str, Any]]:
    """A training split over that many files, and a dev and a test split of one file each."""
    shards = {DatasetSplit.TRAIN: train_shards, DatasetSplit.EVAL: 1, DatasetSplit.TEST: 1}
    return [{"split": split, "shards": count} for split, count in shards.items()]


class Output(NamedTuple):
    """A target as it is written and scored."""

    text: str  # one line
    repairs: int = 0  # changes without which what the model wrote is not well-formed


class Problem(abc.ABC):
    """A task with its data, from raw text to TFRecords and back to text.

    Args:
        was_reversed: the `_rev` form: sources and targets exchanged when read.
        was_copy: the `_copy` form: targets are the sources.

    Attributes:
        bad_input: receives what `generate_samples` cannot read.
    """

    # Hooks that subclasses may still define under the name of an earlier version, and today's.
    renamed_hooks: ClassVar[Mapping[str, str]] = {"show": "postprocess"}

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        self._was_reversed = was_reversed
        self._was_copy = was_copy
        self.bad_input = BadInput()
        self._encoders: dict[str, dict[str, TextEncoder]] = {}

    # ---- names

    @property
    def base_name(self) -> str:
        """The registered name, without `_rev` and `_copy`: the name of the data files."""
        return registry.problem_name(type(self))

    @property
    def name(self) -> str:
        """The full name, as on the command line."""
        suffix = ("_rev" if self._was_reversed else "") + ("_copy" if self._was_copy else "")
        return self.base_name + suffix

    @property
    def was_reversed(self) -> bool:
        """Whether sources and targets are exchanged."""
        return self._was_reversed

    @property
    def was_copy(self) -> bool:
        """Whether the targets are the sources."""
        return self._was_copy

    # ---- data

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """The splits and how many files each is spread over."""
        return [
            {"split": DatasetSplit.TRAIN, "shards": 100},
            {"split": DatasetSplit.EVAL, "shards": 1},
        ]

    def filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of a split, whether they exist or not.

        Raises:
            UserError: the problem has no such split.
        """
        for entry in self.dataset_splits:
            if entry["split"] == split:
                return shard_paths(data_dir, self.base_name, split, entry["shards"])
        has = ", ".join(SPLIT_FILE_NAMES[entry["split"]] for entry in self.dataset_splits)
        raise UserError(
            f"problem {self.name!r} has no {SPLIT_FILE_NAMES[split]} split; it has {has}"
        )

    def existing_filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of a split, all of which exist.

        Raises:
            UserError: a file is missing; the message names it and the command that makes it.
        """
        paths = self.filepaths(data_dir, split)
        for path in paths:
            if not pathlib.Path(path).is_file():
                raise UserError(
                    f"no data for {self.name!r}: {path} is missing; make it with "
                    f"t2t-datagen --problem={self.base_name} --data_dir={data_dir}"
                )
        return paths

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the files that a split is read from, those that are there.

        If one changes, the data made from it is refused (`data/fingerprint`). None by default: then
        a change of the text is noticed only when a part of the files is there to be completed.
        """
        return []

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Downloads what of `source_files` is missing, if it can, and returns all of them.

        Raises:
            UserError: a file cannot be downloaded.
        """
        return self.source_files(tmp_dir, dataset_split)

    def generate_data(
        self, data_dir: str, tmp_dir: str, options: "DatagenOptions | None" = None
    ) -> None:
        """Makes the vocabulary and the TFRecord files, for a problem that does so by itself.

        `t2t_lite.generate_data` calls it in a class that overrides it.

        Args:
            data_dir: folder of the results.
            tmp_dir: folder of the raw files; downloads go there.
            options: how to generate; None: the defaults.

        Raises:
            UsageError: always, unless overridden; the message names what to call instead.
        """
        raise UsageError(
            f"{type(self).__name__}.generate_data: call t2t_lite.generate_data(problem, data_dir, "
            "tmp_dir), or run t2t-datagen"
        )

    # ---- text and ids

    @abc.abstractmethod
    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Loads the encoders of `inputs` and `targets` as they stand in the data files."""

    def get_feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns the encoders of `inputs` and `targets` as the model sees them (`_rev`, `_copy`).

        Loaded once for each folder.
        """
        if data_dir not in self._encoders:
            encoders = self.feature_encoders(data_dir)
            if self._was_reversed:
                encoders = {"inputs": encoders["targets"], "targets": encoders["inputs"]}
            if self._was_copy:
                encoders = {"inputs": encoders["inputs"], "targets": encoders["inputs"]}
            self._encoders[data_dir] = encoders
        return self._encoders[data_dir]

    def vocab_files(self) -> list[str]:
        """Names, in the data folder, of the vocabulary files that `feature_encoders` reads."""
        return []

    # ---- decoding and evaluation

    @property
    def decode_hparams(self) -> str:
        """Changes to the defaults of `--decode_hparams`, written as there."""
        return ""

    @property
    def metrics(self) -> Sequence[str]:
        """The metrics of outputs, by registered names, at least one.

        Evaluations compute all of them; by the first, the best checkpoints are chosen.
        """
        return (self.metric,)

    @property
    def metric(self) -> str:
        """The only metric, for a problem that does not override `metrics`."""
        return "bleu"

    def source(self, line: str) -> str:
        """Makes of a line that a user wants decoded what stands in the data in its place."""
        return line.strip()

    @property
    def can_split_sources(self) -> bool:
        """Whether the targets of a source's pieces, one behind the other, are a target of it."""
        return True

    def postprocess(self, source: str, target: str) -> Output:
        """Makes what is written and scored of a target, be it the right one or a model's.

        Args:
            source: the whole text that it belongs to.
            target: its text, one line, as the vocabulary gives it.
        """
        return Output(target)

    def reference(self, source: str, line: str) -> str:
        """Reads a line of `--decode_reference`; returns what `show` makes of the right target.

        Args:
            source: the line of `--decode_from_file` that it belongs to.
            line: the right output, as users keep it.

        Raises:
            DataError: this cannot be a target of the source; the caller names file and line.
        """
        return line
