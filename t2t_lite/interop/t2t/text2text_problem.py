"""T2T's base class of text problems."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from t2t_lite.data.generation import generator
from t2t_lite.data.text2text_problem import checked_samples
from t2t_lite.interop.t2t import generator_utils
from t2t_lite.interop.t2t.adapter import adapted, needs_samples
from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.interop.t2t.modalities import ModalityType
from t2t_lite.interop.t2t.problem import DatasetSplit, Problem
from t2t_lite.interop.t2t.text_adapter import TextAdapter
from t2t_lite.interop.t2t.text_encoder import (
    RESERVED_TOKENS,
    ByteTextEncoder,
    SubwordTextEncoder,
    TokenTextEncoder,
    is_noting,
)
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType


class Text2TextProblem(Problem):
    """Pairs of text: T2T's members, with its arguments."""

    _t2t_lite_adapter: ClassVar[Any] = TextAdapter

    # Whether `generate_samples` is called for each split; T2T has no default.
    is_generate_per_split = True
    batch_size_means_tokens = True  # whether the hparam batch_size counts subwords
    packed_spacing = 0  # padding between packed examples; none are packed here
    already_shuffled = False  # whether training files keep the order of the samples
    inputs_prefix = ""  # text prepended to every source
    targets_prefix = ""  # text prepended to every target
    vocab_type = VocabType.SUBWORD
    approx_vocab_size = 2**15  # approximate size of the vocabulary to build (SUBWORD)
    # Upper bound, exclusive, on the characters of a subtoken (SUBWORD); None: no limit.
    max_subtoken_length: int | None = 200
    # Number of pairs the vocabulary is built from; None: all.
    max_samples_for_vocab: int | None = None
    oov_token: str | None = None  # the token that replaces unknown tokens (TOKEN)
    use_vocab_from_other_problem: Any = None  # another problem whose vocabulary this problem uses

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields the samples of a split; `generate_encoded_samples` may do it instead.

        Raises:
            UserError: the subclass overrides neither.
        """
        raise needs_samples(self, "generate_samples(data_dir, tmp_dir, dataset_split)")

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """The splits and the number of files of each."""
        return [
            {"split": DatasetSplit.TRAIN, "shards": 100},
            {"split": DatasetSplit.EVAL, "shards": 1},
        ]

    def max_length(self, model_hparams: HParams) -> int:
        """Returns the longest example that T2T trains on."""
        return self.packed_length or super().max_length(model_hparams)

    def _pack_fn(self) -> None:
        """Returns what packs examples: nothing."""

    def _maybe_pack_examples(self, generator: Iterable[Any]) -> Iterable[Any]:
        """Returns the samples, which are not packed."""
        return generator

    def generate_data(self, data_dir: str, tmp_dir: str, task_id: Any = -1) -> None:
        """Generates the missing vocabulary and files."""
        del task_id
        native = adapted(self)
        generator.generate_from_samples(native, data_dir, tmp_dir, native.options)

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split as ids, EOS included."""
        found: Iterator[dict[str, Any]] = adapted(self).encoded_samples(
            data_dir, tmp_dir, dataset_split
        )
        return found

    # ---- vocabulary

    @property
    def additional_reserved_tokens(self) -> Sequence[str]:
        """Tokens that get the ids after EOS (SUBWORD)."""
        return []

    @property
    def vocab_filename(self) -> str:
        """The name of the vocabulary file, such as `vocab.{problem}.{size}.subwords`."""
        if other := self.use_vocab_from_other_problem:
            return str(other.vocab_filename)
        if self.vocab_type == VocabType.TOKEN:
            return f"vocab.{self.dataset_filename()}.tokens"
        stem = f"vocab.{self.dataset_filename()}.{self.approx_vocab_size}"
        if self.vocab_type in (VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM):
            return f"{stem}.{self.vocab_type}.model"
        return f"{stem}.{VocabType.SUBWORD}"

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the text that the vocabulary is built from: the first samples of training."""
        sides = ("inputs", "targets") if self.has_inputs else ("targets",)
        samples = self.generate_samples(data_dir, tmp_dir, DatasetSplit.TRAIN)
        checked = checked_samples(samples, self.name, sides)
        kept = adapted(self).kept(checked)
        for sample in itertools.islice(kept, self.max_samples_for_vocab):
            yield from (sample[side] for side in sides)

    def get_or_create_vocab(self, data_dir: str, tmp_dir: Any, force_get: bool = False) -> Any:
        """Returns the vocabulary; unless `force_get`, it is built if it is missing.

        Args:
            data_dir: its folder.
            tmp_dir: folder of the raw files; None: it is not to be built.
            force_get: whether it must exist.
        """
        path = os.path.join(data_dir, self.vocab_filename)
        if self.vocab_type == VocabType.CHARACTER:
            return ByteTextEncoder()
        if self.vocab_type == VocabType.TOKEN:
            if not (force_get or is_noting() or os.path.exists(path)):
                self.generate_samples(data_dir, tmp_dir, DatasetSplit.TRAIN)  # may write it
            return TokenTextEncoder(path, replace_oov=self.oov_token)
        if self.vocab_type != VocabType.SUBWORD:
            return adapted(self).other_vocab(data_dir, tmp_dir, force_get)
        if force_get:
            return SubwordTextEncoder(path)
        if other := self.use_vocab_from_other_problem:
            if hasattr(other, "get_or_create_vocab"):
                return other.get_or_create_vocab(data_dir, tmp_dir)
            if not is_noting():  # one of this package's problems
                other.bad_input = adapted(self).bad_input
                other.build_vocab(data_dir, tmp_dir)
            return SubwordTextEncoder(path)
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
        encoder = self.get_or_create_vocab(data_dir, None, force_get=True)
        return dict.fromkeys(("inputs", "targets") if self.has_inputs else ("targets",), encoder)

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets modalities and vocabulary sizes of the encoders."""
        del model_hparams
        known = self._encoders or {}
        encoders = {side: known[side] for side in generator_utils.SIDES if side in known}
        defaults.modality = dict.fromkeys(encoders, ModalityType.SYMBOL)
        defaults.vocab_size = {side: encoder.vocab_size for side, encoder in encoders.items()}
