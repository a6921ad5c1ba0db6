"""What a reader of models from elsewhere returns: everything that a run folder needs."""

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import sentencepiece

from t2t_lite.errors import DataError, quoted
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.imports import safe_files
from t2t_lite.interop.imports.safe_files import Tensor
from t2t_lite.interop.layouts.parts import Part
from t2t_lite.text import imported_encoder
from t2t_lite.text.alignment.shortlist import Shortlist

NO_ID = -1  # in an order of ids: nothing there

_LABEL = re.compile(r">>(\S+)<<")  # a language of OPUS-MT
# Names for the padding that some vocabularies lack, and for a decoder's start.
_PADDINGS, _START = ("<pad>", "<padding>"), "<decoder start>"


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The vocabulary of one side; see `imported_encoder.write_encoder`."""

    pieces: Sequence[str]
    unknown: int
    model: bytes = b""
    special: Sequence[int] = ()
    languages: Mapping[str, int] = dataclasses.field(default_factory=dict)
    language_of: str = ""
    language: str = ""
    added: Mapping[int, Sequence[str]] = dataclasses.field(default_factory=dict)
    keeps_spaces: bool = False
    cleans_spaces: bool = False
    origin: str = ""

    def write(self, path: pathlib.Path) -> None:
        """Writes the files of an `ImportedEncoder`."""
        imported_encoder.write_encoder(path, **vars(self))


class Side(NamedTuple):
    """The vocabulary of one side, in our order: padding, EOS, then the others as they were."""

    vocabulary: Vocabulary
    order: Sequence[int]  # the model's id of each of ours, or NO_ID

    @classmethod
    def of(
        cls,
        pieces: Sequence[str],
        padding: int,
        end: int,
        unknown: int,
        model: bytes,
        *,
        special: Iterable[int] = (),
        languages: Mapping[str, int] | None = None,
        added: Mapping[int, Sequence[str]] | None = None,
        **others: Any,
    ) -> Self:
        """Arranges a vocabulary.

        Args:
            pieces: by the model's ids, as all that follow.
            padding: its id, or NO_ID.
            end: the id of EOS.
            unknown: the id for all that is unknown.
            model: the SentencePiece model; empty if pieces are words.
            special: the ids that no text has.
            languages: the ids of language tokens by code.
            added: tokens that a text may have besides the model's pieces: the flags of each.
            **others: see `Vocabulary`.
        """
        order = [padding, end, *(id_ for id_ in range(len(pieces)) if id_ not in (padding, end))]
        ours = {id_: number for number, id_ in enumerate(order)}
        named = [pieces[id_] for id_ in order if id_ != NO_ID]
        if padding == NO_ID:
            names = itertools.chain(_PADDINGS, (f"<padding {n}>" for n in itertools.count(2)))
            named.insert(0, next(name for name in names if name not in pieces))
        languages = {code: ours[id_] for code, id_ in (languages or {}).items()}
        if not languages:
            others.pop("language_of", None)
        vocabulary = Vocabulary(
            named,
            ours[unknown],
            model,
            sorted(ours[i] for i in special),
            languages,
            added={ours[i]: flags for i, flags in sorted((added or {}).items())},
            **others,
        )
        return cls(vocabulary, order)

    def with_start(self, id_: int) -> Self:
        """Returns the side with one id more, whose row is that of the model's `id_`."""
        old = self.vocabulary
        vocabulary = dataclasses.replace(
            old, pieces=[*old.pieces, _START], special=[*old.special, len(old.pieces)]
        )
        return type(self)(vocabulary, [*self.order, id_])


@dataclasses.dataclass(frozen=True)
class OpenModel:
    """A Transformer of another toolkit, described as ours are.

    Attributes:
        path: the file or folder, for messages.
        hparams: of our model.
        source: the source's vocabulary.
        target: the target's.
        parts: every variable of our model, with the names of its tensors.
        tensors: the tensors by name, in our layout and with our ids.
        decode_hparams: the search with which the model is published.
        is_8_bits: whether the weights are those of an 8-bit model.
        shortlist: the short list that is published with the model, by our ids.
    """

    path: str
    hparams: TransformerHParams
    source: Vocabulary
    target: Vocabulary
    parts: Iterable[Part]
    tensors: Mapping[str, Tensor]
    decode_hparams: str
    is_8_bits: bool = False
    shortlist: Shortlist | None = None


def language_labels(pieces: Sequence[str]) -> dict[str, int]:
    """Returns the ids of OPUS-MT's tokens of languages by code."""
    found = ((id_, _LABEL.fullmatch(piece)) for id_, piece in enumerate(pieces))
    return {label[1]: id_ for id_, label in found if label}


def spm_pieces(path: pathlib.Path, model: bytes) -> list[str]:
    """Returns the pieces of a SentencePiece model by id.

    Raises:
        DataError: it is none.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
        return [processor.id_to_piece(id_) for id_ in range(len(processor))]
    except (RuntimeError, UnicodeDecodeError) as error:
        raise safe_files.damaged(path, ValueError("not a SentencePiece model")) from error


def pieces_by_id(path: pathlib.Path) -> list[str]:
    """Returns the pieces of a vocabulary in YAML or JSON, which holds the id of each.

    Raises:
        DataError: an id is missing, occurs twice or is none.
    """
    json = path.suffix == ".json"
    table = safe_files.read_json(path) if json else safe_files.read_yaml(path)
    if not isinstance(table, dict):
        raise DataError(f"{path}: expected the id of each piece, got {quoted(table)}")
    pieces: dict[int, str] = {}
    for piece, id_ in table.items():
        text = str(id_)
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else NO_ID
        if not 0 <= number < len(table):
            raise DataError(
                f"{path}: {quoted(piece)} has id {quoted(text)}: expected one from 0 to "
                f"{len(table) - 1}, since there are {len(table)} pieces"
            )
        if number in pieces:
            raise DataError(
                f"{path}: {quoted(piece)} and {quoted(pieces[number])} have id {number}, and "
                "another id has none"
            )
        pieces[number] = piece
    return [pieces[id_] for id_ in range(len(pieces))]
