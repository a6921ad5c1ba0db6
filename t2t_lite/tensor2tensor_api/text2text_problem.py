"""T2T's base class of text problems."""

import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any

from t2t_lite.data import text_problems
from t2t_lite.tensor2tensor_api import generator_utils
from t2t_lite.tensor2tensor_api.hparam import HParams
from t2t_lite.tensor2tensor_api.modalities import ModalityType
from t2t_lite.tensor2tensor_api.problem import DatasetSplit, Problem
from t2t_lite.tensor2tensor_api.text_encoder import (
    RESERVED_TOKENS,
    ByteTextEncoder,
    SubwordTextEncoder,
    TokenTextEncoder,
)
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType

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
        return dict.fromkeys(self.sides, encoder)

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets modalities and vocabulary sizes of the encoders."""
        del model_hparams
        encoders = self._encoders or {}
        defaults.modality = dict.fromkeys(encoders, ModalityType.SYMBOL)
        defaults.vocab_size = {side: encoder.vocab_size for side, encoder in encoders.items()}
