r"""SentencePiece subwords (BPE and unigram), trained so that every line decodes to itself.

Text is not normalised, all white space is kept, and characters outside the vocabulary fall back
to bytes. One character needs care: SentencePiece writes a space as U+2581 and would read a real
U+2581 back as a space. So the model carries two rules, U+2581 -> "\u2582b" and U+2582 ->
"\u2582a", and their inverse for decoding. They live in the model file: sentencepiece,
tensorflow-text and whatever else loads it agree.
"""

import hashlib
import io
import logging
import pathlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sentencepiece
from google.protobuf.message import DecodeError

from t2t_lite import files
from t2t_lite.errors import DataError, UserError
from t2t_lite.protocol_buffers import message_class
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, TextEncoder, WordCache

log = logging.getLogger(__name__)

_UNKNOWN_ID = 2

# sentencepiece_model.proto, as far as needed.
_SCHEMA = """
name: "t2t_lite/sentencepiece_model.proto" package: "t2t_lite"
message_type {
  name: "TrainerSpec"
  field { name: "model_type" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
}
message_type {
  name: "NormalizerSpec"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "precompiled_charsmap" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "add_dummy_prefix" number: 3 label: LABEL_OPTIONAL type: TYPE_BOOL }
  field { name: "remove_extra_whitespaces" number: 4 label: LABEL_OPTIONAL type: TYPE_BOOL }
  field { name: "escape_whitespaces" number: 5 label: LABEL_OPTIONAL type: TYPE_BOOL }
  field { name: "normalization_rule_tsv" number: 6 label: LABEL_OPTIONAL type: TYPE_STRING }
}
message_type {
  name: "ModelProto"
  field { name: "pieces" number: 1 label: LABEL_REPEATED type: TYPE_BYTES }
  field {
    name: "trainer_spec" number: 2 label: LABEL_OPTIONAL
    type: TYPE_MESSAGE type_name: ".t2t_lite.TrainerSpec"
  }
  field {
    name: "normalizer_spec" number: 3 label: LABEL_OPTIONAL
    type: TYPE_MESSAGE type_name: ".t2t_lite.NormalizerSpec"
  }
  field { name: "self_test_data" number: 4 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field {
    name: "denormalizer_spec" number: 5 label: LABEL_OPTIONAL
    type: TYPE_MESSAGE type_name: ".t2t_lite.NormalizerSpec"
  }
}
"""
_Model = message_class(_SCHEMA, "t2t_lite.ModelProto")

# SentencePiece's rule files: characters, tab, characters; each character as a hexadecimal number.
_ESCAPE_RULES = "2581\t2582 62\n2582\t2582 61\n"
_UNESCAPE_RULES = "2582 62\t2581\n2582 61\t2582\n"

# What SentencePiece makes of the first: models with other rules may join words.
_ESCAPE_CHARSMAP = "c3233f8533b212605d71dbeacfe815575861067bd45259d63e1ee9d3ca9b70a1"  # SHA-256
_BPE = 2  # of TrainerSpec.ModelType

# Words held with their ids, of each of the two kinds that there are.
_CACHED_WORDS = 2**16

# The trainer passes over lines with these: NUL, and U+2585, which it uses itself.
_UNTRAINABLE = {0x0: " ", 0x2585: " "}

# It drops lines of more than 4,192 bytes, and unigram's time is quadratic in a line's length. No
# piece spans a space other than at its start, so that a cut before one loses nothing.
_CUT = re.compile(r".{1,1000}(?= |\Z)|.{1,1000}", re.DOTALL)

# A larger corpus is sampled down to this many (cut) lines, always the same, to bound memory.
_MAX_TRAINING_LINES = 10_000_000

# A model of a million pieces has some 20 MB; more is not read of what is no model.
_MAX_MODEL_BYTES = 2**28

_LOG_NOTHING = 3  # errors come as exceptions


class SentencePieceEncoder(TextEncoder):
    """Encodes with a SentencePiece model, of either kind.

    Args:
        path: a model file with pad 0 and EOS 1.

    Raises:
        UserError: there is no such file.
        DataError: the file is damaged, or its pad and EOS have other ids.
    """

    def __init__(self, path: pathlib.Path) -> None:
        try:
            with path.open("rb") as file:
                self._model = file.read(_MAX_MODEL_BYTES)
        except (FileNotFoundError, IsADirectoryError):
            raise UserError(f"{path}: no such file") from None
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self._model)
            pad, eos = self._processor.pad_id(), self._processor.eos_id()
            self._tokens = self._processor.id_to_piece(list(range(len(self._processor))))
            self._splits_at_spaces = _splits_at_spaces(self._model, self._processor)
        except (RuntimeError, UnicodeDecodeError, DecodeError):
            raise DataError(
                f"{path} is not a SentencePiece model, or damaged: copy or build it again"
            ) from None
        self._known: set[str] = set()  # characters that were looked up and have pieces
        self._first_words = WordCache(self._processor.encode, _CACHED_WORDS)
        self._other_words = WordCache(self._encode_behind_space, _CACHED_WORDS)
        if (pad, eos) != (PAD_ID, EOS_ID):
            raise DataError(
                f"{path}: expected pad {PAD_ID} and EOS {EOS_ID}, got {pad} and {eos}; train it "
                f"with --pad_id={PAD_ID} --eos_id={EOS_ID} --unk_id={_UNKNOWN_ID} --bos_id=-1"
            )

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return len(self._processor)

    @property
    def tokens(self) -> Sequence[str]:
        """The pieces by id, pad, EOS and unknown included."""
        return self._tokens

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a line."""
        return self._processor.encode(text)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, computed on one core: data generation uses processes."""
        return self._processor.encode(list(lines), num_threads=1)

    def pack_lines(self, lines: Sequence[str]) -> list[bytes]:
        """Returns the packed ids of each line; word by word, which is several times faster."""
        if not self._splits_at_spaces:
            return super().pack_lines(lines)
        split = (line.split(" ") for line in lines)
        return [
            self._first_words.pack(words[:1]) + self._other_words.pack(words[1:]) for words in split
        ]

    def _encode_behind_space(self, word: str) -> list[int]:
        return self._processor.encode(f" {word}")

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text; bytes that are not UTF-8 become U+FFFD, the unknown id " ⁇ "."""
        return self._processor.decode(self._text_ids(ids))

    def unknown(self, text: str) -> list[str]:
        """Returns the characters that fall back to bytes, or to the unknown id."""
        new = set(text) - self._known
        self._known |= {character for character in new if self._is_known(character)}
        return [c for c in text if c not in self._known] if new - self._known else []

    def _is_known(self, character: str) -> bool:
        ids = self._processor.encode(character)
        return not any(i == self._processor.unk_id() or self._processor.is_byte(i) for i in ids)

    def graph_tokenizer(self) -> Any:
        """Returns the `tensorflow_text.SentencepieceTokenizer` that does the same in a graph.

        `tokenize([N] strings)` gives ragged `[N, None]` int32 ids, `detokenize` the strings.
        A SavedModel that uses it loads only after `import tensorflow_text`.
        """
        import tensorflow as tf
        import tensorflow_text

        # Not FastSentencepieceTokenizer: it gives other ids for BPE.
        return tensorflow_text.SentencepieceTokenizer(self._model, out_type=tf.int32)


def _splits_at_spaces(model: bytes, processor: sentencepiece.SentencePieceProcessor) -> bool:
    """Tells whether a line's ids are those of its words one by one, each with the space before it.

    They are if no piece spans a space but at its start, if the rules are ours, which look at single
    characters, and if pieces are merged by BPE: unigram's choice depends on rounding over the line.
    """
    proto = _Model.FromString(model)
    rules = proto.normalizer_spec
    return (
        proto.trainer_spec.model_type == _BPE
        and hashlib.sha256(rules.precompiled_charsmap).hexdigest() == _ESCAPE_CHARSMAP
        and not (rules.add_dummy_prefix or rules.remove_extra_whitespaces)
        and not any("\u2581" in processor.id_to_piece(i)[1:] for i in range(len(processor)))
    )


def train(model_type: str, path: pathlib.Path, lines: Iterable[str], vocab_size: int) -> None:
    """Trains a model and writes it, whole or not at all; the same lines give the same bytes.

    If the text has too few distinct pieces the vocabulary is smaller, with a warning. The 256
    bytes and nearly all characters of the text are part of it.

    Args:
        model_type: "bpe" or "unigram".
        path: the model file to write.
        lines: the text.
        vocab_size: how many ids, pad, EOS and unknown included.

    Raises:
        DataError: `vocab_size` is too small for the bytes and the characters of the text.
        Exception: whatever `lines` raises.
    """
    failures: list[BaseException] = []
    try:
        text = _trainable(lines, failures)
        model = _Model.FromString(_train(model_type, text, vocab_size))
    except RuntimeError as error:
        if failures:
            raise failures[0] from None
        too_small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
        if not too_small:
            raise
        raise DataError(
            f"cannot build {path}: bytes and characters alone take {too_small[1]} ids, "
            f"and approx_vocab_size is {vocab_size}; raise it"
        ) from None
    # The rules themselves are compiled in; the names of their files would differ each time.
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    model.denormalizer_spec.ClearField("normalization_rule_tsv")
    if len(model.pieces) < vocab_size:
        log.warning("%s: the text yields %d ids, not %d", path, len(model.pieces), vocab_size)
    with files.whole_file(path) as temporary:
        temporary.write_bytes(model.SerializeToString(deterministic=True))


def _trainable(lines: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    """Yields lines fit for the trainer, which would turn an error of theirs into its own."""
    try:
        for line in lines:
            yield from _CUT.findall(line.translate(_UNTRAINABLE))
    except BaseException as error:
        failures.append(error)
        raise


def _train(model_type: str, lines: Iterable[str], vocab_size: int) -> bytes:
    written = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules, inverse_rules = pathlib.Path(folder, "rules"), pathlib.Path(folder, "inverse_rules")
        rules.write_text(_ESCAPE_RULES)
        inverse_rules.write_text(_UNESCAPE_RULES)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=written,
            model_type=model_type,
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            pad_id=PAD_ID,
            eos_id=EOS_ID,
            unk_id=_UNKNOWN_ID,
            bos_id=-1,
            byte_fallback=True,
            normalization_rule_tsv=rules,
            denormalization_rule_tsv=inverse_rules,
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            split_digits=True,
            input_sentence_size=_MAX_TRAINING_LINES,
            minloglevel=_LOG_NOTHING,
        )
    return written.getvalue()
