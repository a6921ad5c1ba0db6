"""Text problems of T2T's, those of classification among them, as this package calls them."""

import functools
import itertools
import logging
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Number
from operator import index
from typing import Any, ClassVar

import numpy as np

from t2t_lite import registry
from t2t_lite.data import text_problems
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.errors import DataError, warn_once
from t2t_lite.interop.t2t import generator_utils, text_iterators
from t2t_lite.interop.t2t.adapter import ProblemAdapter, adapted, module_of, overrides
from t2t_lite.interop.t2t.metrics import OF_NUMBERS
from t2t_lite.interop.t2t.modalities import ModalityType
from t2t_lite.interop.t2t.text_encoder import NUM_RESERVED_TOKENS, ClassLabelEncoder
from t2t_lite.metrics.base import OutputMetric
from t2t_lite.text import text_encoder
from t2t_lite.text.number_encoder import NumberEncoder, parsed_numbers
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import EOS_ID, RESERVED_TOKENS, TabEncoder, VocabType
from t2t_lite.text.text_files import iterate_lines

log = logging.getLogger(__name__)


def _users(name: str) -> Any:
    """Returns a property that has the value of the user's, without NumPy's types of numbers."""
    read = operator.attrgetter(f"upstream.{name}")

    def value(adapter: Any) -> Any:
        found = read(adapter)
        return found.item() if isinstance(found, np.generic) else found

    return property(value)


def _as_texts(labels: Any) -> Any:
    """Returns a user's labels, of which T2T writes numbers, too; not labels as they are."""
    if not isinstance(labels, Iterable) or isinstance(labels, str | bytes):
        return labels
    return [str(label) if isinstance(label, Number) else label for label in labels]


class TextAdapter(ProblemAdapter, text_problems.Text2TextProblem):
    """Pairs of text from `generate_samples` or `generate_encoded_samples`."""

    is_generate_per_split: Any = _users("is_generate_per_split")
    dataset_splits: Any = _users("dataset_splits")
    vocab_type: Any = _users("vocab_type")
    approx_vocab_size: Any = _users("approx_vocab_size")
    additional_reserved_tokens: Any = _users("additional_reserved_tokens")
    max_subtoken_length: Any = _users("max_subtoken_length")
    max_samples_for_vocab: Any = _users("max_samples_for_vocab")
    oov_token: Any = _users("oov_token")
    already_shuffled: Any = _users("already_shuffled")
    inputs_prefix: Any = _users("inputs_prefix")
    targets_prefix: Any = _users("targets_prefix")
    vocab_filename: Any = _users("vocab_filename")

    # ---- samples

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Returns the user's samples."""
        text_iterators.receive(self.bad_input)
        samples: Iterable[Sample] = self.upstream.generate_samples(data_dir, tmp_dir, dataset_split)
        return samples

    @property
    def encodes_samples(self) -> bool:
        """Whether `generate_encoded_samples` is the user's, or passes lists of integers on."""
        is_users = overrides(self.upstream, "generate_encoded_samples")
        return is_users or bool(self.further_features)

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterable[Mapping[str, Sequence[int]]]:
        """Returns the user's samples of ids."""
        text_iterators.receive(self.bad_input)
        samples: Iterable[Mapping[str, Sequence[int]]] = self.upstream.generate_encoded_samples(
            data_dir, tmp_dir, dataset_split
        )
        return samples

    def encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[Mapping[str, Any]]:
        """Yields what T2T's own `generate_encoded_samples` does."""
        self.build_vocab(data_dir, tmp_dir)
        encoders = self.feature_encoders(data_dir)
        for sample in self.prefixed(self.text_samples(data_dir, tmp_dir, dataset_split)):
            ids = {
                side: [*encoder.encode(sample[side]), EOS_ID] for side, encoder in encoders.items()
            }
            yield {**sample, **ids}

    def text_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Drops training pairs of which one side is empty."""
        dropped = 0
        for sample in super().text_samples(data_dir, tmp_dir, dataset_split):
            source = not self.has_inputs or self.inputs_prefix + sample["inputs"]
            target = self.targets_prefix + sample["targets"]
            if (source and target) or dataset_split != DatasetSplit.TRAIN:
                yield sample
            else:
                dropped += 1
        if dropped:
            log.warning("%s: dropped %s pairs: one side is empty", self.base_name, f"{dropped:,}")

    # ---- files

    def check(self) -> None:
        """Refuses, too, what this package lacks."""
        self.require_supported()
        super().check()

    @property
    def writes_files(self) -> bool:
        """Whether `generate_data` is another than that of pairs of text."""
        return module_of(self.upstream, "generate_data") != f"{__package__}.text2text_problem"

    def _number_of_files(self, data_dir: str, split: str) -> int:
        """Returns how many files a split has; a user's `generate_data` may choose other numbers."""
        is_users = overrides(self.upstream, "generate_data")
        if is_users and (count := self._existing_files(data_dir, split)):
            return count
        return len(text_problems.Text2TextProblem.filepaths(self, data_dir, split))

    def existing_filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of a split; T2T reads those of another tool, of any number."""
        self._warn_of_ids_of_t2t(data_dir)
        if not any(map(os.path.isfile, self.filepaths(data_dir, split))):
            count = ProblemAdapter._number_of_files(self, data_dir, split)
            paths = self._shards(data_dir, split, count)
            if all(map(os.path.isfile, paths)):
                return self._unpacked(paths)
        return super().existing_filepaths(data_dir, split)

    def _warn_of_ids_of_t2t(self, data_dir: str) -> None:
        """Warns of records that T2T may have made with a list of tokens as it is."""
        fingerprint = os.path.join(data_dir, f"{self.dataset_filename()}.fingerprint.json")
        if self.vocab_type != VocabType.TOKEN or os.path.exists(fingerprint):
            return
        path = os.path.join(data_dir, self.vocab_filename)
        lines = iterate_lines(path) if os.path.isfile(path) else iter(RESERVED_TOKENS)
        first = tuple(line.strip() for line in itertools.islice(lines, len(RESERVED_TOKENS)))
        if first != RESERVED_TOKENS:
            warn_once(
                f"{path} does not begin with {' and '.join(RESERVED_TOKENS)}: the ids of its "
                "tokens are not those of T2T, which are the numbers of their lines: if T2T made "
                f"the files of problem {self.base_name}, delete them and run t2t-datagen"
            )

    # ---- vocabulary

    @property
    def use_vocab_from_other_problem(self) -> Any:
        """The user's, as this package calls it."""
        return adapted(self.upstream.use_vocab_from_other_problem)

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Returns the user's text."""
        return iter(self.upstream.generate_text_for_vocab(data_dir, tmp_dir))

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Lets the user's class write its vocabulary."""
        text_iterators.receive(self.bad_input)
        paths = [os.path.join(data_dir, name) for name in self.vocab_files()]
        if overrides(self.upstream, "get_or_create_vocab") and not all(map(os.path.exists, paths)):
            # It may read what this writes when it is called, which T2T does first.
            self.upstream.generate_samples(data_dir, tmp_dir, DatasetSplit.TRAIN)
        self.upstream.get_or_create_vocab(data_dir, tmp_dir)

    def other_vocab(self, data_dir: str, tmp_dir: str, force_get: bool) -> Any:
        """Returns a vocabulary of a kind that T2T does not have."""
        if not force_get:
            text_problems.Text2TextProblem.build_vocab(self, data_dir, tmp_dir)
        return self.load_vocab(data_dir)


class ClassAdapter(TextAdapter, text_problems.Text2ClassProblem):
    """Classification.

    T2T's examples have the number of a label alone; here, it is an id, and EOS follows it.
    """

    # T2T's loss of several labels is their mean, and thus with one label that of a class.
    modalities: ClassVar[tuple[str, ...]] = (
        *TextAdapter.modalities,
        ModalityType.CLASS_LABEL,
        ModalityType.MULTI_LABEL,
    )
    of_modalities: ClassVar[str] = (
        "a text has one label here (ModalityType.CLASS_LABEL): yield a sample for each label of a "
        "text"
    )

    inputs_prefix: Any = ""  # T2T reads neither prefix here
    targets_prefix: Any = ""

    @property
    def num_classes(self) -> int:
        """The user's number of labels."""
        return int(self.upstream.num_classes)

    def class_labels(self, data_dir: str) -> Sequence[str]:
        """Returns the user's labels."""
        return _as_texts(self.upstream.class_labels(data_dir))

    @property
    def metrics(self) -> Sequence[str]:
        """The registered metrics for `eval_metrics`; the accuracy is that of labels, not of EOS."""
        if not self.has_labels:
            return super().metrics
        named = (name for name in super().metrics if name not in ("exact_match", "accuracy"))
        return ["exact_match", *named]

    def _can_be_scored_by(self, metric: str) -> bool:
        """Whether a metric suits labels: of their texts, only whether they are right."""
        if not self.has_labels:
            return super()._can_be_scored_by(metric)
        if metric == "roc_auc":
            return self.num_classes == 2
        is_of_outputs = issubclass(registry.metrics()[metric], OutputMetric)
        return not is_of_outputs and metric != "bits_per_char"

    def _add_encoders(self, found: Any, data_dir: str) -> None:
        """Adds the encoder of the labels, which T2T does not need before decoding."""
        if isinstance(found, dict) and "targets" not in found:
            found["targets"] = ClassLabelEncoder(self.class_labels(data_dir))

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the user's encoders, adapted; labels get the ids after padding and EOS."""
        encoders = super().feature_encoders(data_dir)
        labels = self.upstream.get_feature_encoders(data_dir)["targets"]
        if isinstance(labels, ClassLabelEncoder):
            encoders["targets"] = text_encoder.ClassLabelEncoder(_as_texts(labels.class_labels))
        return encoders

    @property
    def encodes_samples(self) -> bool:
        """Whether a user's class overrides `generate_encoded_samples` or `feature_encoders`.

        The latter may name the labels, which T2T does not need before decoding.
        """
        return super().encodes_samples or overrides(self.upstream, "feature_encoders")

    def inputs_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields what T2T's own `generate_text_for_vocab` does."""
        lines = (pair["inputs"] for pair in self.samples_for_vocab(data_dir, tmp_dir))
        return (text for line in lines for text in self.texts(line))

    def texts(self, line: str) -> list[str]:
        """Returns the texts of a line."""
        return [line]

    def encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split as T2T's ids."""
        self.build_vocab(data_dir, tmp_dir)
        encoder = self.feature_encoders(data_dir)["inputs"]
        samples: Iterable[Any] = self.generate_samples(data_dir, tmp_dir, dataset_split)
        for number, sample in enumerate(samples, 1):
            ids = encoder.encode(self.numbered_source(number, sample))
            yield {"inputs": [*ids, EOS_ID], "targets": [sample["label"]]}

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the user's samples of ids, with labels as they are here."""
        samples = super().generate_encoded_samples(data_dir, tmp_dir, dataset_split)
        return self._with_label_ids(samples, data_dir)

    def write_files(self, data_dir: str, tmp_dir: str, options: DatagenOptions) -> None:
        """Lets the user's class write labels as they are here."""
        with generator_utils.changing(functools.partial(self._with_label_ids, data_dir=data_dir)):
            super().write_files(data_dir, tmp_dir, options)

    def _with_label_ids(self, samples: Iterable[Any], data_dir: str) -> Iterator[dict[str, Any]]:
        """Yields samples of T2T's, those of labels as they are here, and EOS."""
        encoder = None
        for number, sample in enumerate(samples, 1):
            encoder = (
                encoder or self.feature_encoders(data_dir)["targets"]
            )  # which samples may need
            # T2T's label k is k, or k + 2 from an encoder that has reserved ids.
            is_list = isinstance(encoder, text_encoder.ClassLabelEncoder)
            try:
                ids = [index(label) + NUM_RESERVED_TOKENS * is_list for label in sample["targets"]]
            except (KeyError, TypeError):
                yield sample  # the caller says what is wrong
                continue
            if self.has_labels and len(ids) != 1:
                raise DataError(
                    f"{self.base_name}: sample {number} of generate_encoded_samples: targets "
                    f"{[*map(index, sample['targets'])]}: {self.of_modalities}"
                )
            if not all(NUM_RESERVED_TOKENS <= id_ < encoder.vocab_size for id_ in ids):
                raise DataError(
                    f"{self.base_name}: sample {number} of generate_encoded_samples: targets "
                    f"{[*map(index, sample['targets'])]}: expected one of "
                    f"{encoder.vocab_size - NUM_RESERVED_TOKENS} labels"
                )
            yield {**sample, "targets": [*ids, EOS_ID]}


class ConcatAdapter(ClassAdapter, text_problems.TextConcat2ClassProblem):
    """Classification of several texts, which tabs separate on a line."""

    def texts(self, line: str) -> list[str]:
        """Returns the texts of a line."""
        return line.split("\t")

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoders of tab-separated texts and of labels."""
        encoders = super().feature_encoders(data_dir)
        concat = self.upstream.CONCAT_TOKEN
        return {**encoders, "inputs": TabEncoder(encoders["inputs"], concat)}


class RealAdapter(TextAdapter, text_problems.Text2RealProblem):
    """Regression."""

    modalities: ClassVar[tuple[str, ...]] = (
        *TextAdapter.modalities,
        ModalityType.REAL,
        ModalityType.REAL_L2_LOSS,
    )
    of_modalities: ClassVar[str] = (
        "the loss of numbers is their squared error here (ModalityType.REAL_L2_LOSS)"
    )

    inputs_prefix: Any = ""  # T2T reads neither prefix here
    targets_prefix: Any = ""

    @property
    def ntasks(self) -> int:
        """The user's number of numbers."""
        return int(self.upstream.ntasks)

    def _can_be_scored_by(self, metric: str) -> bool:
        """Whether a metric suits numbers."""
        return metric in OF_NUMBERS

    def inputs_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields what T2T's own `generate_text_for_vocab` does."""
        return (pair["inputs"] for pair in self.samples_for_vocab(data_dir, tmp_dir))

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the user's encoder of text, adapted, and that of numbers."""
        return {**super().feature_encoders(data_dir), "targets": NumberEncoder(self.ntasks)}

    def encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split with T2T's ids and numbers."""
        self.build_vocab(data_dir, tmp_dir)
        encoder = self.feature_encoders(data_dir)["inputs"]
        for sample in self.text_samples(data_dir, tmp_dir, dataset_split):
            ids = [*encoder.encode(sample["inputs"]), EOS_ID]
            yield {"inputs": ids, "targets": parsed_numbers(sample["targets"])}
