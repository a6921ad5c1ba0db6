"""The vocabularies of a model in Marian's forms: .spm, or .yml with the id of each piece."""

import collections
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from t2t_lite.errors import UserError
from t2t_lite.interop.layouts.marian import never_output
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.language_tokens import LanguageTokens
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.sentencepiece_model import pieces_of
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, TextEncoder, TokenTextEncoder

_END, _UNKNOWN = "</s>", "<unk>"
# In YAML, some characters end a line or are not allowed; \u says them, as in JSON.
_ESCAPED = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


class MarianSide(NamedTuple):
    """The vocabulary of one side.

    Attributes:
        pieces: by Marian's ids.
        ids: ours, by Marian's.
        unknown: Marian's id of what is unknown.
        spm: the SentencePiece model; empty: texts are split at spaces.
        is_table: whether Marian reads the pieces from a .yml.
    """

    pieces: Sequence[str]
    ids: Sequence[int]
    unknown: int
    spm: bytes
    is_table: bool

    @classmethod
    def of(cls, encoder: TextEncoder, has_padding: bool) -> "MarianSide":
        """Arranges the vocabulary of an encoder.

        Args:
            encoder: of one side.
            has_padding: whether padding stays a piece, which Marian does not need.
        """
        ids = range(0 if has_padding else EOS_ID, encoder.vocab_size)
        if isinstance(encoder, SentencePieceEncoder | ImportedEncoder):
            pieces, unknown = [encoder.tokens[id_] for id_ in ids], encoder.unknown_id
            own = [piece.text for piece in pieces_of(encoder.model)] if encoder.model else []
            has_own = len(own) == len(pieces) and {*own} == {*pieces} and not encoder.languages
            if has_own and (not isinstance(encoder, ImportedEncoder) or encoder.is_whole):
                order = {piece: id_ for id_, piece in zip(ids, pieces, strict=True)}
                ids_of_own = [order[piece] for piece in own]
                return cls(own, ids_of_own, ids_of_own.index(unknown), encoder.model, False)
            pieces = [*pieces]
            pieces[ids.index(EOS_ID)], pieces[ids.index(unknown)] = _END, _UNKNOWN
            return cls(pieces, ids, ids.index(unknown), encoder.model, True)
        # Only we know how to split a text: pieces are words, or the ids themselves.
        ids, oov = range(encoder.vocab_size), encoder.oov_id
        has_words = isinstance(encoder, TokenTextEncoder)
        pieces = [encoder.symbol(id_) if has_words else str(id_) for id_ in ids]
        unknown = PAD_ID if oov is None else oov
        pieces[EOS_ID], pieces[unknown] = _END, _UNKNOWN
        return cls(pieces, ids, unknown, b"", True)

    def table(self) -> str:
        """Returns the contents of the .yml.

        Raises:
            UserError: two ids have one piece.
        """
        if len({*self.pieces}) < len(self.pieces):
            ((piece, _),) = collections.Counter(self.pieces).most_common(1)
            raise UserError(f"the vocabulary has {piece!r} twice: in Marian's, all pieces differ")
        return "".join(f"{_quoted(piece)}: {id_}\n" for id_, piece in enumerate(self.pieces))


def marian_sides(
    encoders: Mapping[str, TextEncoder], has_padding: bool
) -> tuple[MarianSide, MarianSide]:
    """Returns the vocabularies of source and target.

    Args:
        encoders: of "inputs" and "targets".
        has_padding: see `MarianSide.of`.

    Raises:
        UserError: outputs begin with the token of a language, which no one can tell Marian.
    """
    targets = encoders["targets"]
    if isinstance(targets, LanguageTokens) and targets.languages:
        raise UserError(
            "outputs begin with the token of a language, which Marian's decoder cannot be told; "
            "export for CTranslate2 (--format=ctranslate2)"
        )
    source, target = (MarianSide.of(encoders[side], has_padding) for side in ("inputs", "targets"))
    if source.is_table != target.is_table:  # Marian reads both from files of one kind
        source, target = (side._replace(is_table=True) for side in (source, target))
    return source, target


def allowed(side: MarianSide, ids: Sequence[int]) -> dict[str, bool]:
    """Returns the settings by which Marian's decoder never outputs just these of our ids.

    Raises:
        UserError: there are none.
    """
    own = [side.ids.index(id_) for id_ in ids if id_ in side.ids]
    for unknown, special in itertools.product((False, True), repeat=2):
        settings = {"allows_unknown": unknown, "allows_special": special}
        if never_output(side.pieces, side.unknown, **settings) == own:
            return {"allow-unk": unknown, "allow-special": special}
    raise UserError(
        f"hparam suppressed_ids={'+'.join(map(str, ids))}: Marian cannot exclude these; export a "
        "SavedModel (--format=savedmodel)"
    )


def _quoted(piece: str) -> str:
    text = json.dumps(piece, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
