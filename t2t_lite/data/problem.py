"""Problem: a task, the source of its text, and its vocabulary.

Names are T2T's where the idea is. T2T's own classes run through the adapter in `t2t`. This module
imports neither TensorFlow nor Keras: listing problems must stay quick.
"""

import abc
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from t2t_lite import registry
from t2t_lite.errors import UsageError, UserError
from t2t_lite.text import language_names
from t2t_lite.text.bad_input import BadInput
from t2t_lite.text.source_form import has_text
from t2t_lite.text.text_encoder import NoText, TextEncoder


class DatasetSplit:
    """The parts of a data set: TRAIN is shuffled, EVAL monitors training, TEST is reported.

    Few problems have UNSEEN: it is left out of all three, for final tests.
    """

    TRAIN = "train"
    EVAL = "eval"
    TEST = "test"
    UNSEEN = "unseen"


# The name of each split in file names.
SPLIT_FILE_NAMES = {
    DatasetSplit.TRAIN: "train",
    DatasetSplit.EVAL: "dev",
    DatasetSplit.TEST: "test",
    DatasetSplit.UNSEEN: "unseen",
}

SPLITS = {name: split for split, name in SPLIT_FILE_NAMES.items()}  # by the name in file names

# T2T's names of translation problems begin with the codes of both languages.
_LANGUAGES = re.compile(r"translate_([a-z]{2})([a-z]{2})_")

# T2T's seed of data generation.
RANDOM_SEED = 429459


def shard_paths(data_dir: str, name: str, split: str, shards: int) -> list[str]:
    """Returns T2T's file names: `{data_dir}/{name}-{train|dev|test}-00000-of-00100`.

    Raises:
        UserError: the split is unknown.
    """
    if split not in SPLIT_FILE_NAMES:
        known = ", ".join(map(repr, SPLIT_FILE_NAMES))
        raise UserError(f"{name}: unknown split {split!r}; write one of {known} in dataset_splits")
    stem = f"{name}-{SPLIT_FILE_NAMES[split]}"
    folder = pathlib.Path(data_dir)
    return [str(folder / f"{stem}-{i:05d}-of-{shards:05d}") for i in range(shards)]


def split_to_decode(name: str, eval_use_test_set: bool) -> str:
    """Returns the split that two flags choose together.

    Args:
        name: `--dataset_split`, a key of `SPLITS`; empty: not given.
        eval_use_test_set: the test split where no name is given, instead of dev.

    Raises:
        UsageError: both flags are given.
    """
    if name and eval_use_test_set:
        raise UsageError(
            f"--dataset_split={name} and --eval_use_test_set both choose a split: leave one out"
        )
    if name:
        return SPLITS[name]
    return DatasetSplit.TEST if eval_use_test_set else DatasetSplit.EVAL


def three_splits(train_shards: int) -> list[dict[str, Any]]:
    """Returns a training split of `train_shards` files, and dev and test splits of one each."""
    shards = {DatasetSplit.TRAIN: train_shards, DatasetSplit.EVAL: 1, DatasetSplit.TEST: 1}
    return [{"split": split, "shards": count} for split, count in shards.items()]


class Output(NamedTuple):
    """A target in the form in which it is written and scored."""

    text: str  # one line
    repairs: int = 0  # changes needed to make the model's output well-formed


class Problem(abc.ABC):
    """A task with its data, from raw text to TFRecords and back to text.

    Args:
        was_reversed: whether this is the `_rev` form: sources and targets exchanged when read.
        was_copy: whether this is the `_copy` form: targets are the sources.

    Attributes:
        bad_input: receives what `generate_samples` cannot read.
    """

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        if (was_reversed or was_copy) and not self.has_inputs:
            raise UsageError(
                f"problem {self.base_name!r} has no inputs, so that there is no _rev or _copy of it"
            )
        self._was_reversed = was_reversed
        self._was_copy = was_copy
        self.bad_input = BadInput()
        self._loaded: dict[str, dict[str, TextEncoder]] = {}  # by data folder

    # ---- names

    @property
    def base_name(self) -> str:
        """The registered name, without `_rev` and `_copy`."""
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

    @property
    def has_inputs(self) -> bool:
        """Whether the model reads something before it writes; false for language models."""
        return True

    @property
    def has_labels(self) -> bool:
        """Whether a target is one symbol: the label of its source."""
        return False

    @property
    def has_numbers(self) -> bool:
        """Whether a target is numbers, which its source has: see `text/number_encoder.py`."""
        return False

    @property
    def float_sides(self) -> tuple[str, ...]:
        """The features that are numbers in examples, not ids."""
        return ("targets",) if self.has_numbers else ()

    @property
    def has_text_targets(self) -> bool:
        """Whether a target is text: neither a label nor numbers."""
        return not (self.has_labels or self.has_numbers)

    @property
    def sides(self) -> tuple[str, ...]:
        """The features that examples have."""
        return ("inputs", "targets") if self.has_inputs else ("targets",)

    @property
    def further_features(self) -> Sequence[str]:
        """The lists of integers beside the sides in examples, for `ChangesExamples`."""
        return ()

    @property
    def data_languages(self) -> tuple[str, str]:
        """The languages of `inputs` and `targets` in the data files; "": unknown.

        By default, those of T2T's names: `translate_ende_*` is from English to German.
        """
        named = _LANGUAGES.match(self.base_name)
        if named is None or not all(map(language_names.english_name, named.groups())):
            return "", ""
        return named[1], named[2]

    @property
    def source_language(self) -> str:
        """The language of the sources that the model sees; "": unknown."""
        return self.data_languages[self._was_reversed]

    @property
    def target_language(self) -> str:
        """The language of the targets that the model sees; "": unknown."""
        return self.data_languages[self._was_reversed == self._was_copy]

    @property
    def licence(self) -> str:
        """The licence of the data: SPDX's identifier, or else in words; "": not stated."""
        return ""

    @property
    def members(self) -> "tuple[Problem, ...]":
        """The problems that this one is made of, each with files of its own: itself, in general."""
        return (self,)

    def rates(self, sizes: Sequence[int], temperature: float) -> Sequence[float]:
        """Returns the share of training's examples that each of the `members` has; together 1.

        Args:
            sizes: the number of training examples of each.
            temperature: the hparam `mixture_temperature`.
        """
        return [1.0]

    @property
    def final_rates(self) -> Sequence[float]:
        """What the rates become in `mixture_annealing_steps` (hparam) updates; none: constant."""
        return []

    @property
    def generated_by(self) -> str:
        """The name of the problem for which t2t-datagen generates the files of this one."""
        return self.base_name

    @property
    def space_ids(self) -> tuple[int, int]:
        """T2T's `SpaceID` of the inputs and of the targets, in models imported from T2T."""
        return 0, 0

    # ---- data

    def dataset_filename(self) -> str:
        """Returns the start of the names of the data files: the base name, unless overridden."""
        return self.base_name

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """The splits and the number of files of each."""
        return [
            {"split": DatasetSplit.TRAIN, "shards": 100},
            {"split": DatasetSplit.EVAL, "shards": 1},
        ]

    def has_split(self, split: str, data_dir: str | None = None) -> bool:
        """Whether `dataset_splits` has a split; if it is optional, whether `data_dir` has it, too.

        Args:
            split: of `DatasetSplit`.
            data_dir: folder of the data; None: no optional split is missing.
        """
        if not any(entry["split"] == split for entry in self.dataset_splits):
            return False
        if data_dir is None or not self.optional_files(split):
            return True
        return any(pathlib.Path(path).is_file() for path in self.filepaths(data_dir, split))

    def optional_files(self, split: str) -> Sequence[str]:
        """Returns what a split is made of in `--tmp_dir`, if it is optional; none if it is not."""
        return []

    def filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of a split, whether they exist or not.

        Raises:
            UserError: the problem does not have the split.
        """
        for entry in self.dataset_splits:
            if entry["split"] == split:
                return shard_paths(data_dir, self.dataset_filename(), split, entry["shards"])
        has = ", ".join(SPLIT_FILE_NAMES[entry["split"]] for entry in self.dataset_splits)
        raise UserError(
            f"problem {self.name!r} has no {SPLIT_FILE_NAMES[split]} split; it has {has}"
        )

    def existing_filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of a split after checking that all exist.

        Raises:
            UserError: a file is missing, and the message names it and the command that generates
                it; or the split has no example, except the one that is trained on.
        """
        paths = self.filepaths(data_dir, split)
        for path in paths:
            if not pathlib.Path(path).is_file():
                texts = " and ".join(self.optional_files(split))
                first = f"put {texts} into --tmp_dir, and " if texts else ""
                raise UserError(
                    f"no data for {self.name!r}: {path} is missing; {first}generate it with "
                    f"t2t-datagen --problem={self.generated_by} --data_dir={data_dir}, or, if the "
                    "data has moved, name its folder with --data_dir"
                )
        if paths and split != DatasetSplit.TRAIN and not any(map(os.path.getsize, paths)):
            raise UserError(
                f"{paths[0]}: problem {self.name!r} has no example in its {split} split; let it "
                "yield some, delete its files and generate them again"
            )
        return paths

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns those files a split is read from that exist.

        If one changes, data generated from it is refused (`data/generation/fingerprint`). None by
        default: a change of the text is then noticed only when a partial data set is completed.
        """
        return []

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Downloads the missing `source_files` where possible, and returns all of them.

        Raises:
            UserError: a file cannot be downloaded.
        """
        return self.source_files(tmp_dir, dataset_split)

    def write_files(self, data_dir: str, tmp_dir: str, options: Any) -> None:
        """Writes the vocabulary and the data files of a problem that does it itself.

        Before or after its own work, it may call `data.generation.generator.generate_from_samples`.

        Args:
            data_dir: folder of the results.
            tmp_dir: folder of the raw files and downloads.
            options: how to generate, a `data.generation.config.DatagenOptions`.

        Raises:
            UsageError: the class does not define this method.
        """
        raise UsageError(
            f"problem {self.base_name!r}: {type(self).__qualname__} yields no samples: derive it "
            "from Text2TextProblem, or define write_files(data_dir, tmp_dir, options)"
        )

    # ---- text and ids

    @abc.abstractmethod
    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Loads the encoders of `inputs` and `targets`, as named in the data files."""

    def get_feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns the encoders of `inputs` and `targets` as the model sees them (`_rev`, `_copy`).

        They are loaded once per folder. Without inputs, their encoder is a `NoText`.
        """
        if data_dir not in self._loaded:
            encoders = self.feature_encoders(data_dir)
            if not self.has_inputs:
                encoders = {"inputs": NoText(), "targets": encoders["targets"]}
            if self._was_reversed:
                encoders = {"inputs": encoders["targets"], "targets": encoders["inputs"]}
            if self._was_copy:
                encoders = {"inputs": encoders["inputs"], "targets": encoders["inputs"]}
            self._loaded[data_dir] = encoders
        return self._loaded[data_dir]

    def vocab_files(self) -> list[str]:
        """Returns the names of the files in the data folder that `feature_encoders` reads."""
        return []

    # ---- decoding and evaluation

    @property
    def decode_hparams(self) -> str:
        """Changes to the defaults of `--decode_hparams`, in its syntax."""
        return ""

    @property
    def metrics(self) -> Sequence[str]:
        """The registered names of the metrics of outputs, at least one.

        Evaluations compute all of them; the first one selects the best checkpoints.
        """
        return ("bleu",) if self.has_inputs else ("perplexity",)

    def source(self, line: str) -> str:
        """Converts a raw input line to the form used in training; "" for one without text."""
        return line.strip() if has_text(line) else ""

    @property
    def is_plain_text(self) -> bool:
        """Whether text is changed in no way, except for dropping surrounding white space."""
        kind = type(self)
        return kind.source is Problem.source and kind.postprocess is Problem.postprocess

    @property
    def can_split_sources(self) -> bool:
        """Whether the targets of a source's pieces, joined in order, are a target of the source."""
        return True

    @property
    def translates_lines(self) -> bool:
        """Whether targets say what their sources say, line by line."""
        return self.has_inputs and self.can_split_sources

    def postprocess(self, source: str, target: str) -> Output:
        """Converts a target (reference or model output) to the form that is written and scored.

        Args:
            source: the whole source text.
            target: one line, as decoded by the vocabulary.
        """
        return Output(target)

    def reference(self, source: str, line: str) -> str:
        """Converts a line of `--decode_reference` to the form that `postprocess` returns.

        Args:
            source: the corresponding line of `--decode_from_file`.
            line: the reference, as users store it.

        Raises:
            DataError: the line cannot be a target of the source; the caller adds file and line.
        """
        return line.strip()  # the CR of CRLF, for example
