"""T2T's base classes of classification."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from t2t_lite.data import text_problems
from t2t_lite.tensor2tensor_api.hparam import HParams
from t2t_lite.tensor2tensor_api.metrics import Metrics
from t2t_lite.tensor2tensor_api.modalities import ModalityType
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
        """Whether a user's class overrides `generate_encoded_samples`."""
        own = type(self).generate_encoded_samples
        return own is not Text2ClassProblem.generate_encoded_samples

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split as T2T's ids."""
        self.get_or_create_vocab(data_dir, tmp_dir)
        first = self._first_label(data_dir)
        for sample in super().generate_encoded_samples(data_dir, tmp_dir, dataset_split):
            yield {"inputs": sample["inputs"], "targets": [sample["targets"][0] - first]}

    def id_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the samples of `generate_encoded_samples` as they are written."""
        first = self._first_label(data_dir)
        for sample in self.generate_encoded_samples(data_dir, tmp_dir, dataset_split):
            targets = [label + first for label in sample["targets"]]
            yield {"inputs": sample["inputs"], "targets": [*targets, EOS_ID]}

    def _first_label(self, data_dir: str) -> int:
        """Returns the id of T2T's label 0, which is 0 if T2T's encoder has reserved ids."""
        labels = self.load_encoders(data_dir)["targets"]
        return NUM_RESERVED_TOKENS if isinstance(labels, text_encoder.ClassLabelEncoder) else 0


class TextConcat2ClassProblem(Text2ClassProblem, text_problems.TextConcat2ClassProblem):
    """Classification of several texts, which tabs separate on a line."""

    def load_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoders of tab-separated texts and of labels."""
        encoders = super().load_encoders(data_dir)
        return {**encoders, "inputs": TabEncoder(encoders["inputs"], self.CONCAT_TOKEN)}
