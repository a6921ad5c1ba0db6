r"""The files of SentencePiece models: what they hold, and how they are changed.

A space is U+2581 in a model's pieces, so that SentencePiece would read a real U+2581 back as a
space. The models that are built here therefore have two rules, U+2581 -> "\u2582b" and U+2582 ->
"\u2582a", and their inverse for decoding. The rules are part of the model file, so that
sentencepiece, tensorflow-text and any other program that loads it agree.
"""

import enum
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from t2t_lite.protocol_buffers import message_class
from t2t_lite.text.text_encoder import VocabType

UNKNOWN_ID = 2

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
Model = message_class(_SCHEMA, "t2t_lite.ModelProto")
_Piece = message_class(_SCHEMA, "t2t_lite.SentencePiece")

# The name of the rules by which sources of a model are normalised, in its file. No other program
# reads it, and older files do not have it.
SOURCE_FORM = "t2t_lite.source_form.1"

# SHA-256 of the compiled escape rules: models with other rules may join words.
_ESCAPE_CHARSMAP = "c3233f8533b212605d71dbeacfe815575861067bd45259d63e1ee9d3ca9b70a1"
_UNIGRAM, _BPE = 1, 2  # of TrainerSpec.ModelType


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


def type_of(model: bytes) -> str:
    """Returns the `VocabType` of a model; "" if its pieces are words or characters."""
    kinds = {_BPE: VocabType.SENTENCEPIECE_BPE, _UNIGRAM: VocabType.SENTENCEPIECE_UNIGRAM}
    return kinds.get(Model.FromString(model).trainer_spec.model_type or _UNIGRAM, "")


def pieces_of(model: bytes) -> list[Piece]:
    """Returns the pieces of a model by id."""
    read = map(_Piece.FromString, Model.FromString(model).pieces)
    normal = PieceKind.NORMAL
    return [Piece(piece.piece, piece.score, PieceKind(piece.type or normal)) for piece in read]


def has_our_rules(model: bytes) -> bool:
    """Whether a model normalises text as those of `train` do: reversibly."""
    rules = Model.FromString(model).normalizer_spec
    return hashlib.sha256(rules.precompiled_charsmap).hexdigest() == _ESCAPE_CHARSMAP and not (
        rules.add_dummy_prefix or rules.remove_extra_whitespaces
    )


def reads_source_form(model: bytes) -> bool:
    """Whether the file says that its model reads sources in `source_form`."""
    return Model.FromString(model).normalizer_spec.name == SOURCE_FORM


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
    rules = Model.FromString(model).normalizer_spec
    return Normalization(
        rules.precompiled_charsmap,
        *(
            getattr(rules, name) or not rules.HasField(name)
            for name in ("add_dummy_prefix", "remove_extra_whitespaces")
        ),
    )


def with_more_pieces(model: bytes, pieces: Iterable[Piece]) -> bytes:
    """Returns a model that has further pieces after its own."""
    longer = Model.FromString(model)
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
    model = Model()
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
    changed = Model.FromString(model)
    changed.normalizer_spec.add_dummy_prefix = False
    changed.normalizer_spec.remove_extra_whitespaces = False
    return changed.SerializeToString(deterministic=True)
