"""T2T's base classes of classification."""

from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import Any, ClassVar

from t2t_lite.data import text_problems
from t2t_lite.errors import DataError
from t2t_lite.tensor2tensor_api.hparam import HParams
from t2t_lite.tensor2tensor_api.metrics import Metrics
from t2t_lite.tensor2tensor_api.modalities import ModalityType
from t2t_lite.tensor2tensor_api.problem import is_ours
from t2t_lite.tensor2tensor_api.text2text_problem import Text2TextProblem
from t2t_lite.tensor2tensor_api.text_encoder import NUM_RESERVED_TOKENS, ClassLabelEncoder
from t2t_lite.text import text_encoder
from t2t_lite.text.text_encoder import EOS_ID, TabEncoder


class Text2ClassProblem(Text2TextProblem, text_problems.Text2ClassProblem):
    """Classification: samples are `{"inputs": text, "label": number}`."""

    modalities: ClassVar[tuple[str, ...]] = (*Text2TextProblem.modalities, ModalityType.CLASS_LABEL)

    @property
    def num_classes(self) -> int:
        """Number of labels."""
        raise self.needs("num_classes")

    def eval_metrics(self) -> Sequence[str]:
        """Returns T2T's names of metrics."""
        return [Metrics.ACC]

    @property
    def metrics(self) -> Sequence[str]:
        """The registered metrics for `eval_metrics`; the accuracy is that of labels, not of EOS."""
        if not self.has_labels:
            return super().metrics
        named = (name for name in super().metrics if name not in ("bleu", "accuracy"))
        return list(dict.fromkeys([self.metric, *named]))

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoder of text, and that of labels."""
        encoder = self.get_or_create_vocab(data_dir, "", force_get=True)
        return {"inputs": encoder, "targets": ClassLabelEncoder(self.class_labels(data_dir))}

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets modalities and vocabulary sizes of the encoders."""
        super().hparams(defaults, model_hparams)
        defaults.modality["targets"] = ModalityType.CLASS_LABEL

    def load_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the user's encoders, adapted; labels get the ids after padding and EOS."""
        encoders = super().load_encoders(data_dir)
        labels = (self._encoders or {})["targets"]
        if isinstance(labels, ClassLabelEncoder):
            encoders["targets"] = text_encoder.ClassLabelEncoder(labels.class_labels)
        return encoders

    # T2T's examples have the number of a label alone; here, it is an id, and EOS follows it.

    @property
    def encodes_samples(self) -> bool:
        """Whether a user's class overrides `generate_encoded_samples` or `feature_encoders`.

        The latter may name the labels, which T2T does not need before decoding.
        """
        own = type(self)
        return not (is_ours(own.generate_encoded_samples) and is_ours(own.feature_encoders))

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split as T2T's ids."""
        self.get_or_create_vocab(data_dir, tmp_dir)
        encoder = self.load_encoders(data_dir)["inputs"]
        samples: Iterable[Any] = self.generate_samples(data_dir, tmp_dir, dataset_split)
        for number, sample in enumerate(samples, 1):
            ids = encoder.encode(self.numbered_source(number, sample))
            yield {"inputs": [*ids, EOS_ID], "targets": [sample["label"]]}

    def id_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the samples of `generate_encoded_samples` as they are written.

        Raises:
            DataError: a label is out of range.
        """
        samples = self.generate_encoded_samples(data_dir, tmp_dir, dataset_split)
        encoder = None
        for number, sample in enumerate(samples, 1):
            encoder = encoder or self.load_encoders(data_dir)["targets"]  # which samples may need
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


class TextConcat2ClassProblem(Text2ClassProblem, text_problems.TextConcat2ClassProblem):
    """Classification of several texts, which tabs separate on a line."""

    def load_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoders of tab-separated texts and of labels."""
        encoders = super().load_encoders(data_dir)
        return {**encoders, "inputs": TabEncoder(encoders["inputs"], self.CONCAT_TOKEN)}
