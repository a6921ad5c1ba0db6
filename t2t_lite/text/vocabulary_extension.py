"""Extends a SentencePiece vocabulary by pieces of other text, such as that of another language.

All pieces keep their ids and scores, so that a model keeps what it knows of them. New ones have
scores below all of these: BPE merges them last, and unigram prefers the old ones. So a text that
the old vocabulary was made for is split as before, except where a new piece joins old ones.
"""

import logging
import pathlib
from collections.abc import Iterable, Sequence

import sentencepiece

from t2t_lite import files
from t2t_lite.errors import DataError, quoted
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.sentencepiece_model import (
    Piece,
    PieceKind,
    has_our_rules,
    pieces_of,
    type_of,
    with_more_pieces,
)
from t2t_lite.text.sentencepiece_training import trained_model

log = logging.getLogger(__name__)


def extend(
    path: pathlib.Path,
    source: pathlib.Path,
    lines: Iterable[str],
    size: int,
    symbols: Sequence[str] = (),
) -> None:
    """Writes an extended vocabulary, whole or not at all.

    Args:
        path: the file to write.
        source: the vocabulary to extend.
        lines: as for `extended`.
        size: as for `extended`.
        symbols: as for `extended`.

    Raises:
        UserError: `source` does not exist.
        DataError: as in `extended`, or `source` is damaged.
        Exception: whatever `lines` raises.
    """
    SentencePieceEncoder(source)  # refuses other files
    old = source.read_bytes()
    model = extended(old, lines, size, symbols, str(path), str(source))
    added = len(pieces_of(model)) - len(pieces_of(old))
    log.info("%s: %d new ids after those of %s", path, added, source)
    with files.whole_file(path) as temporary:
        temporary.write_bytes(model)


def extended(
    model: bytes,
    lines: Iterable[str],
    size: int,
    symbols: Sequence[str] = (),
    name: str = "the vocabulary",
    source: str = "the model to extend",
) -> bytes:
    """Returns a model with further pieces; the same lines give the same bytes.

    Args:
        model: the model to extend, one of `sentencepiece_training.train`.
        lines: the text that the new pieces are learned from.
        size: of the vocabulary that this text would have alone; those of its pieces that the model
            lacks are appended.
        symbols: control symbols, such as tokens of languages, to append unless they are there.
        name: what errors call the result, such as its file.
        source: what they call the model.

    Raises:
        DataError: the model normalises text in another way, a symbol is one of its pieces of text,
            or `size` is too small for the characters of the text.
        Exception: whatever `lines` raises.
    """
    kind = type_of(model)
    if not kind or not has_our_rules(model):
        raise DataError(
            f"{source} cannot be extended: it is none of t2t-datagen's vocabularies, and splits "
            "text by rules of its own"
        )
    old = pieces_of(model)
    kinds = {piece.text: piece.kind for piece in old}
    if texts := [s for s in symbols if kinds.get(s, PieceKind.CONTROL) != PieceKind.CONTROL]:
        raise DataError(
            f"{source} cannot be extended by the symbol {quoted(texts[0])}, which is one of its "
            "pieces of text"
        )
    controls = [
        Piece(symbol, 0.0, PieceKind.CONTROL)
        for symbol in dict.fromkeys(symbols)
        if symbol not in kinds
    ]
    taken = {*kinds, *symbols}
    learned = pieces_of(trained_model(kind, lines, size, name))
    missing = [p for p in learned if p.kind == PieceKind.NORMAL and p.text not in taken]
    return with_more_pieces(model, [*controls, *_of_use(model, _below(missing, old))])


def _below(pieces: Sequence[Piece], old: Sequence[Piece]) -> list[Piece]:
    """Returns pieces with all scores lowered by the same, to below those of the old ones."""
    least = min(piece.score for piece in old if piece.kind == PieceKind.NORMAL)
    shift = least - 1 - max((piece.score for piece in pieces), default=0.0)
    return [piece._replace(score=piece.score + shift) for piece in pieces]


def _of_use(model: bytes, pieces: Sequence[Piece]) -> list[Piece]:
    """Returns those pieces that a text is ever split into.

    Old pieces win over others: BPE never merges "ab" and "c" to "abc" if it merges "bc" first.
    """
    whole = sentencepiece.SentencePieceProcessor(model_proto=with_more_pieces(model, pieces))
    texts = [whole.decode([whole.piece_to_id(piece.text)]) for piece in pieces]
    return [piece for piece, ids in zip(pieces, whole.encode(texts), strict=True) if len(ids) == 1]
