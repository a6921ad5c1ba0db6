"""Problems of classification of T2T's, as this package calls them."""

from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import Any, ClassVar

from t2t_lite.data import text_problems
from t2t_lite.errors import DataError
from t2t_lite.t2t.adapter import overrides
from t2t_lite.t2t.modalities import ModalityType
from t2t_lite.t2t.text_adapter import TextAdapter
from t2t_lite.t2t.text_encoder import NUM_RESERVED_TOKENS, ClassLabelEncoder
from t2t_lite.text import text_encoder
from t2t_lite.text.text_encoder import EOS_ID, TabEncoder


class ClassAdapter(TextAdapter, text_problems.Text2ClassProblem):
    """Classification.

    T2T's examples have the number of a label alone; here, it is an id, and EOS follows it.
    """

    modalities: ClassVar[tuple[str, ...]] = (*TextAdapter.modalities, ModalityType.CLASS_LABEL)

    @property
    def num_classes(self) -> int:
        """The user's number of labels."""
        return int(self.upstream.num_classes)

    def class_labels(self, data_dir: str) -> Sequence[str]:
        """Returns the user's labels."""
        labels: Any = self.upstream.class_labels(data_dir)
        return list(labels) if isinstance(labels, Iterator) else labels

    @property
    def metrics(self) -> Sequence[str]:
        """The registered metrics for `eval_metrics`; the accuracy is that of labels, not of EOS."""
        if not self.has_labels:
            return super().metrics
        named = (name for name in super().metrics if name not in ("bleu", "accuracy"))
        return list(dict.fromkeys([self.metric, *named]))

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the user's encoders, adapted; labels get the ids after padding and EOS."""
        encoders = super().feature_encoders(data_dir)
        labels = self.upstream.get_feature_encoders(data_dir)["targets"]
        if isinstance(labels, ClassLabelEncoder):
            encoders["targets"] = text_encoder.ClassLabelEncoder(labels.class_labels)
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
        """Yields the user's samples of ids, those of labels as they are here, and EOS.

        Raises:
            DataError: a label is out of range.
        """
        samples: Any = super().generate_encoded_samples(data_dir, tmp_dir, dataset_split)
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
