"""T2T's base classes of classification."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from t2t_lite.data.text_problems import TextConcat2ClassProblem as _Concat
from t2t_lite.t2t.adapter import adapted, needs
from t2t_lite.t2t.class_adapter import ClassAdapter, ConcatAdapter
from t2t_lite.t2t.hparam import HParams
from t2t_lite.t2t.metrics import Metrics
from t2t_lite.t2t.modalities import ModalityType
from t2t_lite.t2t.text2text_problem import Text2TextProblem
from t2t_lite.t2t.text_encoder import ClassLabelEncoder


class Text2ClassProblem(Text2TextProblem):
    """Classification: samples are `{"inputs": text, "label": number}`."""

    _t2t_lite_adapter: ClassVar[Any] = ClassAdapter

    @property
    def num_classes(self) -> int:
        """Number of labels."""
        raise needs(self, "num_classes")

    def class_labels(self, data_dir: str) -> Sequence[str]:
        """Returns the text of each label, in the order of their numbers."""
        del data_dir
        return [f"ID_{number}" for number in range(self.num_classes)]

    def eval_metrics(self) -> Sequence[str]:
        """Returns T2T's names of metrics."""
        return [Metrics.ACC]

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts of the first samples of training, without their labels."""
        return iter(adapted(self).inputs_for_vocab(data_dir, tmp_dir))

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoder of text, and that of labels."""
        encoder = self.get_or_create_vocab(data_dir, "", force_get=True)
        return {"inputs": encoder, "targets": ClassLabelEncoder(self.class_labels(data_dir))}

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets modalities and vocabulary sizes of the encoders."""
        super().hparams(defaults, model_hparams)
        defaults.modality["targets"] = ModalityType.CLASS_LABEL


class TextConcat2ClassProblem(Text2ClassProblem):
    """Classification of several texts, which tabs separate on a line."""

    _t2t_lite_adapter: ClassVar[Any] = ConcatAdapter
    CONCAT_TOKEN: ClassVar[str] = _Concat.CONCAT_TOKEN
