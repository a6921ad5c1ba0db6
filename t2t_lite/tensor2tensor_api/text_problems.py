"""T2T's base classes of text problems, and its iterators over text files."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from t2t_lite.data import text_problems
from t2t_lite.tensor2tensor_api import generator_utils
from t2t_lite.tensor2tensor_api.chopped_text import ChoppedText
from t2t_lite.tensor2tensor_api.hparam import HParams
from t2t_lite.tensor2tensor_api.modalities import ModalityType
from t2t_lite.tensor2tensor_api.problem import DatasetSplit, Problem
from t2t_lite.tensor2tensor_api.text_encoder import (
    RESERVED_TOKENS,
    ByteTextEncoder,
    SubwordTextEncoder,
    TokenTextEncoder,
)
from t2t_lite.tensor2tensor_api.text_iterators import (
    text2class_txt_iterator,
    text2self_txt_iterator,
    text2text_generate_encoded,
    text2text_txt_iterator,
    text2text_txt_sharded_iterator,
    text2text_txt_tab_iterator,
    txt_and_label_iterator,
    txt_line_iterator,
    txt_line_sharded_iterator,
)
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType

__all__ = [
    "ChoppedTextProblem",
    "DistributedText2TextProblem",
    "QuestionAndContext2TextProblem",
    "Text2ClassProblem",
    "Text2RealProblem",
    "Text2SelfProblem",
    "Text2TextProblem",
    "Text2textTmpdir",
    "Text2textTmpdirTokens",
    "TextConcat2ClassProblem",
    "VocabType",
    "text2class_txt_iterator",
    "text2self_txt_iterator",
    "text2text_generate_encoded",
    "text2text_txt_iterator",
    "text2text_txt_sharded_iterator",
    "text2text_txt_tab_iterator",
    "txt_and_label_iterator",
    "txt_line_iterator",
    "txt_line_sharded_iterator",
]

log = logging.getLogger(__name__)


class Text2TextProblem(Problem, text_problems.Text2TextProblem):
    """Pairs of text: T2T's members, with its arguments."""

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields the samples of a split; `generate_encoded_samples` may do it instead.

        Raises:
            UserError: the subclass overrides neither.
        """
        raise self.needs("generate_samples(data_dir, tmp_dir, dataset_split)")

    @property
    def is_generate_per_split(self) -> bool:
        """Whether `generate_samples` is called for each split; T2T has no default."""
        return True

    @property
    def packed_spacing(self) -> int:
        """Padding between packed examples, which are not available."""
        return 0

    def generate_data(self, data_dir: str, tmp_dir: str, task_id: Any = -1) -> None:
        """Generates the missing vocabulary and files."""
        del task_id
        self._is_generated_here = True
        text_problems.Text2TextProblem.generate_data(self, data_dir, tmp_dir, self._options)

    def prefixed(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Prepends the prefixes, and drops pairs of which one side is empty then."""
        dropped = 0
        for sample in super().prefixed(samples):
            if sample["targets"] and (sample["inputs"] or not self.has_inputs):
                yield sample
            else:
                dropped += 1
        if dropped:
            log.warning("%s: dropped %d pairs: one side is empty", self.base_name, dropped)

    # ---- vocabulary

    def get_or_create_vocab(self, data_dir: str, tmp_dir: str, force_get: bool = False) -> Any:
        """Returns the vocabulary; unless `force_get`, it is built if it is missing."""
        path = os.path.join(data_dir, self.vocab_filename)
        if self.vocab_type == VocabType.CHARACTER:
            return ByteTextEncoder()
        if self.vocab_type == VocabType.TOKEN:
            if not (force_get or os.path.exists(path)):
                self.generate_samples(data_dir, tmp_dir, DatasetSplit.TRAIN)  # may write it
            return TokenTextEncoder(path, replace_oov=self.oov_token)
        if self.vocab_type != VocabType.SUBWORD:
            if force_get:
                return self.load_vocab(data_dir)
            return super().get_or_create_vocab(data_dir, tmp_dir)
        if force_get:
            return SubwordTextEncoder(path)
        if other := self.use_vocab_from_other_problem:
            other.bad_input = self.bad_input
            return other.get_or_create_vocab(data_dir, tmp_dir)
        return generator_utils.get_or_generate_vocab_inner(
            data_dir,
            self.vocab_filename,
            self.approx_vocab_size,
            self.generate_text_for_vocab(data_dir, tmp_dir),
            self.max_subtoken_length,
            [*RESERVED_TOKENS, *self.additional_reserved_tokens],
        )

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns one encoder for both sides; override for two vocabularies."""
        encoder = self.get_or_create_vocab(data_dir, "", force_get=True)
        return {"inputs": encoder, "targets": encoder} if self.has_inputs else {"targets": encoder}

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets modalities and vocabulary sizes of the encoders."""
        del model_hparams
        encoders = self._encoders or {}
        defaults.modality = dict.fromkeys(encoders, ModalityType.SYMBOL)
        defaults.vocab_size = {side: encoder.vocab_size for side, encoder in encoders.items()}


class _Tmpdir(Text2TextProblem):
    """T2T's names of the files of `text2text_tmpdir`, for subclasses."""

    TRAIN_FILES: ClassVar[Sequence[str]] = ("inputs.train.txt", "targets.train.txt")
    EVAL_FILES: ClassVar[Sequence[str]] = ("inputs.eval.txt", "targets.eval.txt")

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields the pairs of two files in `tmp_dir`."""
        names = self.TRAIN_FILES if dataset_split == DatasetSplit.TRAIN else self.EVAL_FILES
        return text2text_txt_iterator(*(os.path.join(tmp_dir, name) for name in names))


class Text2textTmpdir(_Tmpdir):
    """`text2text_tmpdir`, for subclasses; itself it is registered by this package."""


class Text2textTmpdirTokens(_Tmpdir):
    """`text2text_tmpdir_tokens`, for subclasses; itself it is registered by this package."""

    vocab_type = VocabType.TOKEN
    oov_token = "<UNK>"

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Writes the vocabulary from `vocab.txt` if it is missing; yields the pairs."""
        path = os.path.join(data_dir, self.vocab_filename)
        if not os.path.exists(path):
            tokens = txt_line_iterator(os.path.join(tmp_dir, "vocab.txt"))
            listed = [self.oov_token, *tokens]
            TokenTextEncoder(None, vocab_list=list(dict.fromkeys(listed))).store_to_file(path)
        return super().generate_samples(data_dir, tmp_dir, dataset_split)


class Text2SelfProblem(Text2TextProblem):
    """Language models: samples are `{"targets": text}`."""

    @property
    def has_inputs(self) -> bool:
        """No."""
        return False


class ChoppedTextProblem(ChoppedText, Text2SelfProblem):  # type: ignore[misc]
    """Language models of text that is cut into pieces of equal length."""


# ---- problems that this package does not have, whose classes can be defined


class Text2ClassProblem(Text2TextProblem):
    """Classification."""

    missing = "a classifier (Text2ClassProblem)"


class TextConcat2ClassProblem(Text2ClassProblem):
    """Classification of several texts."""


class Text2RealProblem(Text2TextProblem):
    """Regression."""

    missing = "a model of numbers (Text2RealProblem)"


class QuestionAndContext2TextProblem(Text2TextProblem):
    """Questions about a text."""

    missing = "a third feature, `context`: put it into the inputs"


class DistributedText2TextProblem(Text2TextProblem):
    """Data sets read in parts."""

    missing = (
        "generate_samples with input_files: derive from Text2TextProblem; "
        "t2t-datagen --num_workers and --runner generate in parallel"
    )
