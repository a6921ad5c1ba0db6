r"""SentencePiece subwords (BPE and unigram), trained so that every line decodes to itself.

The model does not normalise text, keeps all white space, and spells characters outside the
vocabulary as bytes. Its file says whether sources are to be in `source_form`: so do the files that
are built here, wherever the vocabulary is copied. One character needs care: SentencePiece writes a
space as U+2581 and would read a real U+2581 back as a space. So the model contains two rules,
U+2581 -> "\u2582b" and U+2582 -> "\u2582a", and their inverse for decoding. They are part of the
model file, so that sentencepiece, tensorflow-text and any other program that loads it agree.
"""

import enum
import hashlib
import io
import logging
import pathlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sentencepiece
from google.protobuf.message import DecodeError

from t2t_lite import extras, files
from t2t_lite.errors import DataError, UserError
from t2t_lite.protocol_buffers import message_class
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, SPACE, TextEncoder, VocabType, WordCache

log = logging.getLogger(__name__)

_UNKNOWN_ID = 2

# sentencepiece_model.proto, as far as needed.
_SCHEMA = """
name: "t2t_lite/sentencepiece_model.proto" package: "t2t_lite"
message_type {
  name: "TrainerSpec"
  field { name: "model_type" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "required_chars" number: 36 label: LABEL_OPTIONAL type: TYPE_STRING }
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
  name: "SentencePiece"
  field { name: "piece" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "score" number: 2 label: LABEL_OPTIONAL type: TYPE_FLOAT }
  field { name: "type" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
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
_Piece = message_class(_SCHEMA, "t2t_lite.SentencePiece")

# SentencePiece's rule files: characters, tab, characters; each character as a hexadecimal number.
_ESCAPE_RULES = "2581\t2582 62\n2582\t2582 61\n"
_UNESCAPE_RULES = "2582 62\t2581\n2582 61\t2582\n"

# The name of the rules by which sources of a model are normalised, in its file. No other program
# reads it, and files of before do not have it.
_SOURCE_FORM = "t2t_lite.source_form.1"

# SHA-256 of the compiled escape rules: models with other rules may join words.
_ESCAPE_CHARSMAP = "c3233f8533b212605d71dbeacfe815575861067bd45259d63e1ee9d3ca9b70a1"
_UNIGRAM, _BPE = 1, 2  # of TrainerSpec.ModelType

# Words held in each of the two caches: first words of lines, and others.
_CACHED_WORDS = 2**16

# Characters that make the trainer skip a line: NUL, and U+2585, which it uses internally.
_UNTRAINABLE = {0x0: " ", 0x2585: " "}

# The trainer drops lines of more than 4,192 bytes, and unigram takes time quadratic in the length
# of a line. No piece contains a space except at its start, so splitting before one loses nothing.
_CUT = re.compile(r".{1,1000}(?= |\Z)|.{1,1000}", re.DOTALL)

# A larger corpus is sampled, deterministically, to this many (split) lines, to bound memory.
_MAX_TRAINING_LINES = 10_000_000

# Limit on what is read of a file that may not be a model; a million pieces take about 20 MB.
_MAX_MODEL_BYTES = 2**28

_LOG_NOTHING = 3  # errors are raised as exceptions


class PieceKind(enum.IntEnum):
    """What a piece stands for; the numbers are those of the model file."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Piece(NamedTuple):
    """An entry of the vocabulary.

    Attributes:
        text: its characters, a space as U+2581; of a byte, its name, such as "<0x0A>".
        score: for BPE, greater for earlier merges; for unigram, the logarithm of its probability.
        kind: what it stands for.
    """

    text: str
    score: float
    kind: PieceKind


class SentencePieceEncoder(TextEncoder):
    """Encodes with a SentencePiece model, BPE or unigram.

    Args:
        path: a model file with pad 0 and EOS 1.

    Raises:
        UserError: the file does not exist.
        DataError: the file is damaged, or its pad and EOS have other ids.
    """

    def __init__(self, path: pathlib.Path) -> None:
        try:
            with path.open("rb") as file:
                self._model = file.read(_MAX_MODEL_BYTES)
        except FileNotFoundError:
            raise UserError(f"{path}: no such file") from None
        except IsADirectoryError:
            raise UserError(f"{path} is a folder: name a file") from None
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self._model)
            pad, eos = self._processor.pad_id(), self._processor.eos_id()
            self._tokens = self._processor.id_to_piece(list(range(len(self._processor))))
            self._splits_at_spaces = _splits_at_spaces(self._model, self._processor)
            rules = _Model.FromString(self._model).normalizer_spec
            self.reads_source_form = rules.name == _SOURCE_FORM
        except (RuntimeError, UnicodeDecodeError, DecodeError):
            raise DataError(
                f"{path} is not a SentencePiece model, or is damaged: copy or build it again"
            ) from None
        ids = range(EOS_ID + 1, len(self._processor))
        self._special = frozenset(filter(self._processor.is_control, ids))
        self._known: set[str] = set()  # characters already found to have pieces
        self._first_words = WordCache(self._processor.encode, _CACHED_WORDS)
        self._other_words = WordCache(self._encode_after_space, _CACHED_WORDS)
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
        """The pieces by id, with pad, EOS and unknown."""
        return self._tokens

    @property
    def unknown_id(self) -> int:
        """The id of the piece for what has none; as bytes spell all characters, no text has it."""
        return _UNKNOWN_ID

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of control symbols beyond EOS, such as languages."""
        return self._special

    def symbol(self, id_: int) -> str:
        """Returns a piece: unlike its text, it says whether a word begins with it."""
        return self._tokens[id_]

    def part_text(self, id_: int) -> str:
        """Returns the text of a piece, with the space before it; "" for a byte or symbol."""
        model = self._processor
        if model.is_control(id_) or model.is_byte(id_) or model.is_unknown(id_):
            return ""
        return model.decode([id_])

    def spell(self, part: str) -> list[int]:
        """Returns the ids of a part of a line; pieces have no space at the end of words."""
        return self._processor.encode(part.rstrip(" ") or part)

    @property
    def model(self) -> bytes:
        """The contents of the file."""
        return self._model

    @property
    def model_type(self) -> str:
        """A `VocabType`; "" for a model whose pieces are words or characters."""
        return type_of(self._model)

    def pieces(self) -> list[Piece]:
        """Returns the pieces by id."""
        return pieces_of(self._model)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a line."""
        return self._processor.encode(text)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, on one core: data generation runs several processes."""
        return self._processor.encode(list(lines), num_threads=1)

    def pack_lines(self, lines: Sequence[str]) -> list[bytes]:
        """Returns the packed ids of each line; word by word if possible, which is much faster."""
        if not self._splits_at_spaces:
            return super().pack_lines(lines)
        split = (line.split(" ") for line in lines)
        return [
            self._first_words.pack(words[:1]) + self._other_words.pack(words[1:]) for words in split
        ]

    def _encode_after_space(self, word: str) -> list[int]:
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
        """Returns the equivalent `tensorflow_text.SentencepieceTokenizer`, for use in a graph.

        `tokenize([N] strings)` returns ragged `[N, None]` int32 ids, `detokenize` the strings.
        A SavedModel that uses it loads only after `import tensorflow_text`.

        Raises:
            UserError: tensorflow-text is not installed.
        """
        import tensorflow as tf

        operations = extras.tensorflow_text("SentencePiece in a graph")
        # Not FastSentencepieceTokenizer: its ids differ for BPE.
        return operations.SentencepieceTokenizer(self._model, out_type=tf.int32)


def _splits_at_spaces(model: bytes, processor: sentencepiece.SentencePieceProcessor) -> bool:
    """Whether encoding each word with the space before it gives the same ids as the whole line.

    True if no piece contains a space except at its start, the rules are ours, which apply to single
    characters, and pieces are merged by BPE: unigram's choice depends on rounding over the line.
    """
    return (
        type_of(model) == VocabType.SENTENCEPIECE_BPE
        and has_our_rules(model)
        and not any(SPACE in processor.id_to_piece(i)[1:] for i in range(len(processor)))
    )


def type_of(model: bytes) -> str:
    """Returns the `VocabType` of a model; "" if its pieces are words or characters."""
    kinds = {_BPE: VocabType.SENTENCEPIECE_BPE, _UNIGRAM: VocabType.SENTENCEPIECE_UNIGRAM}
    return kinds.get(_Model.FromString(model).trainer_spec.model_type or _UNIGRAM, "")


def pieces_of(model: bytes) -> list[Piece]:
    """Returns the pieces of a model by id."""
    read = map(_Piece.FromString, _Model.FromString(model).pieces)
    normal = PieceKind.NORMAL
    return [Piece(piece.piece, piece.score, PieceKind(piece.type or normal)) for piece in read]


def has_our_rules(model: bytes) -> bool:
    """Whether a model normalises text as those of `train` do: reversibly."""
    rules = _Model.FromString(model).normalizer_spec
    return hashlib.sha256(rules.precompiled_charsmap).hexdigest() == _ESCAPE_CHARSMAP and not (
        rules.add_dummy_prefix or rules.remove_extra_whitespaces
    )


class Normalization(NamedTuple):
    """What a model does with a text before it splits it.

    Attributes:
        charsmap: compiled rules of characters; empty: none.
        adds_prefix: whether a space is put before the text.
        removes_extra_spaces: whether spaces around the text and after spaces are removed.
    """

    charsmap: bytes
    adds_prefix: bool
    removes_extra_spaces: bool


def normalization_of(model: bytes) -> Normalization:
    """Returns how a model normalizes text; what its file does not say is on."""
    rules = _Model.FromString(model).normalizer_spec
    return Normalization(
        rules.precompiled_charsmap,
        *(
            getattr(rules, name) or not rules.HasField(name)
            for name in ("add_dummy_prefix", "remove_extra_whitespaces")
        ),
    )


def with_more_pieces(model: bytes, pieces: Iterable[Piece]) -> bytes:
    """Returns a model that has further pieces after its own."""
    longer = _Model.FromString(model)
    for text, score, kind in pieces:
        longer.pieces.append(_Piece(piece=text, score=score, type=kind).SerializeToString())
    return longer.SerializeToString(deterministic=True)


def merging_model(pieces: Sequence[str], ranks: Mapping[str, int], charsmap: bytes) -> bytes:
    """Returns a BPE model with pieces of another program, after unknown, start and end.

    Args:
        pieces: those with text, in their order.
        ranks: of pieces that are merged: those with the least ranks are merged first.
        charsmap: SentencePiece's compiled rules of normalization; empty: none.
    """
    model = _Model()
    special = [
        ("<unk>", PieceKind.UNKNOWN),
        ("<s>", PieceKind.CONTROL),
        ("</s>", PieceKind.CONTROL),
    ]
    listed = [Piece(text, 0.0, kind) for text, kind in special]
    last = len(ranks)  # whatever is not merged has the least score
    listed += [Piece(text, -float(ranks.get(text, last)), PieceKind.NORMAL) for text in pieces]
    for text, score, kind in listed:
        model.pieces.append(_Piece(piece=text, score=score, type=kind).SerializeToString())
    model.trainer_spec.model_type = _BPE
    model.normalizer_spec.precompiled_charsmap = charsmap
    return model.SerializeToString(deterministic=True)


def without_space_rules(model: bytes) -> bytes:
    """Returns a model that neither adds nor removes spaces, for parts of lines."""
    changed = _Model.FromString(model)
    changed.normalizer_spec.add_dummy_prefix = False
    changed.normalizer_spec.remove_extra_whitespaces = False
    return changed.SerializeToString(deterministic=True)


def train(
    model_type: str,
    path: pathlib.Path,
    lines: Iterable[str],
    vocab_size: int,
    control_symbols: Sequence[str] = (),
    reads_source_form: bool = True,
) -> None:
    """Trains a model and writes it atomically; the same lines give the same bytes.

    If the text has too few distinct pieces, the vocabulary is smaller and a warning is logged. The
    vocabulary contains the 256 bytes, the space, and nearly all characters of the text.

    Args:
        model_type: "bpe" or "unigram".
        path: the model file to write.
        lines: the text.
        vocab_size: number of ids, with pad, EOS and unknown.
        control_symbols: pieces with the ids after these, which no text has.
        reads_source_form: whether the file says that models read sources in `source_form`.

    Raises:
        DataError: `vocab_size` is too small for the bytes and the characters of the text.
        Exception: whatever `lines` raises.
    """
    model = trained_model(
        model_type, lines, vocab_size, str(path), control_symbols, reads_source_form
    )
    if (size := len(pieces_of(model))) < vocab_size:
        log.warning("%s: the text yields %d ids, not %d", path, size, vocab_size)
    with files.whole_file(path) as temporary:
        temporary.write_bytes(model)


def trained_model(
    model_type: str,
    lines: Iterable[str],
    vocab_size: int,
    name: str,
    control_symbols: Sequence[str] = (),
    reads_source_form: bool = True,
) -> bytes:
    """Returns what `train` writes; arguments as there, and the name of the file for errors."""
    failures: list[BaseException] = []
    try:
        text = _trainable(lines, failures)
        model = _Model.FromString(_train(model_type, text, vocab_size, control_symbols))
    except RuntimeError as error:
        if failures:
            raise failures[0] from None
        if "sentences_.empty()" in str(error):
            raise DataError(f"cannot build {name}: the training text is only line ends") from None
        too_small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
        if not too_small:
            raise
        raise DataError(
            f"cannot build {name}: bytes and characters alone take {too_small[1]} ids, "
            f"but approx_vocab_size is {vocab_size}; increase it"
        ) from None
    if reads_source_form:
        model.normalizer_spec.name = _SOURCE_FORM
    # The model contains the compiled rules; the names of the rule files differ each time.
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    model.denormalizer_spec.ClearField("normalization_rule_tsv")
    # Models are the same to the byte as those of releases that did not require the space.
    model.trainer_spec.ClearField("required_chars")
    return model.SerializeToString(deterministic=True)


def _trainable(lines: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    """Yields lines fit for the trainer; notes their error, which the trainer would replace."""
    try:
        for line in lines:
            yield from _CUT.findall(line.translate(_UNTRAINABLE))
    except BaseException as error:
        failures.append(error)
        raise


def _train(
    model_type: str, lines: Iterable[str], vocab_size: int, control_symbols: Sequence[str]
) -> bytes:
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
            control_symbols=list(control_symbols),
            byte_fallback=True,
            required_chars=SPACE,  # too rare to be covered in Chinese; as bytes it stays U+2581
            normalization_rule_tsv=rules,
            denormalization_rule_tsv=inverse_rules,
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            split_digits=True,
            input_sentence_size=_MAX_TRAINING_LINES,
            minloglevel=_LOG_NOTHING,
        )
    return written.getvalue()
