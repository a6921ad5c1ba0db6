"""Reads the vocabularies of Hugging Face's MarianMT, M2M100 and NLLB-200."""

import base64
import logging
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.errors import DataError, UserError, quoted
from t2t_lite.interop.imports import safe_files
from t2t_lite.interop.imports.fairseq_languages import LANGUAGES
from t2t_lite.interop.imports.hugging_face_tokens import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    Token,
    Tokenizer,
)
from t2t_lite.interop.imports.open_model import Side, language_labels, pieces_by_id, spm_pieces
from t2t_lite.text.language_tokens import TEXT, TRANSLATION
from t2t_lite.text.sentencepiece_model import merging_model

log = logging.getLogger(__name__)

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # of NLLB, before its pieces
_SENTENCEPIECE = "sentencepiece.bpe.model"
_SPM_SPECIAL = 3  # pieces of that model that NLLB replaces by its own
_M2M_LANGUAGE = re.compile(r"__(\w+)__")
_NLLB_LANGUAGE = re.compile(r"([a-z]{3}_[A-Z][a-z]{3})")
# A model may have rows for nothing, up to a size that suits computers.
_PADDED_TO, _MOST_UNUSED = 8, 255


def marian(
    folder: pathlib.Path,
    tokenizer: Tokenizer,
    sizes: Sequence[int],
    padding: int,
    ends: Sequence[int],
    start: int,
) -> list[Side]:
    """Returns the vocabularies of a MarianMT model.

    Args:
        folder: of the model.
        tokenizer: its settings.
        sizes: rows of the embeddings of source and target.
        padding: its id.
        ends: the ids that end an output.
        start: the id that starts the decoder.

    Raises:
        DataError: the vocabulary lacks pieces that the settings name.
    """
    target_file = folder / "target_vocab.json"
    is_separate = tokenizer.settings.get("separate_vocabs", target_file.is_file())
    sides = []
    for side, size in zip(("source", "target"), sizes, strict=True):
        path = target_file if side == "target" and is_separate else folder / "vocab.json"
        pieces = pieces_by_id(path)
        needed = max(padding, *ends[:1], start if side == "target" else 0)
        if needed >= len(pieces):
            raise DataError(
                f"{path} has {len(pieces)} pieces, and none of id {needed}, which "
                f"{folder / 'config.json'} names: the vocabulary is of another model, or lacks ids"
            )
        spm = _required(folder / f"{side}.spm")
        languages = language_labels(pieces)
        tokens = tokenizer.placed(path, pieces)
        if side == "target" and is_separate:  # tokens may have been added to sources alone
            tokens = {id_: token for id_, token in tokens.items() if id_ < size}
        unused = _fill(path, pieces, tokens, size, _MOST_UNUSED)
        sides.append(
            _side(
                path,
                tokenizer,
                pieces,
                tokens,
                padding,
                ends,
                spm,
                languages=languages if side == "source" else {},
                language_of=TRANSLATION,
                special=unused | {*languages.values()},
            )
        )
    return sides


def m2m100(
    folder: pathlib.Path,
    tokenizer: Tokenizer,
    size: int,
    padding: int,
    ends: Sequence[int],
    default: Any,
) -> list[Side]:
    """Returns the vocabularies of M2M100, SMaLL-100 or NLLB-200, which both sides share.

    Args:
        folder: of the model.
        tokenizer: its settings.
        size: of the vocabulary.
        padding: its id.
        ends: the ids that end an output.
        default: the id with which outputs begin unless one is chosen; None: none.

    Raises:
        UserError: files are missing, or of different models.
    """
    table, kind = folder / "vocab.json", str(tokenizer.settings.get("tokenizer_class", ""))
    is_nllb = kind.startswith("Nllb") or not (kind or tokenizer.is_small100 or table.is_file())
    has_model = not is_nllb or _has_model(folder)
    model = _required(folder / _SENTENCEPIECE) if has_model else _merging_model(folder / TOKENIZER)
    if is_nllb:
        own = spm_pieces(folder / _SENTENCEPIECE, model)[_SPM_SPECIAL:]
        pieces, language, table = [*_SPECIAL, *own], _NLLB_LANGUAGE, folder
        _require_same_pieces(folder / TOKENIZER, pieces)
    else:
        pieces, language = pieces_by_id(table), _M2M_LANGUAGE
        tokenizer = _with_languages(folder, tokenizer, len(pieces), size)
    tokens = tokenizer.placed(table, pieces)
    languages = _languages(folder, tokens, language)
    special = _fill(table, pieces, tokens, size) | {*languages.values()}
    chosen = next((code for code, id_ in languages.items() if id_ == default), "")
    if default is not None and (tokenizer.is_small100 or not chosen):
        raise UserError(
            f"{folder}: forced_bos_token_id={quoted(default)} has no counterpart here, since it is "
            "not the language of the target: remove it from generation_config.json"
        )
    special |= {pieces.index(name) for name in _SPECIAL if name in pieces}
    if tokenizer.is_small100:
        speaks: list[dict[str, Any]] = [{"languages": languages, "language_of": TRANSLATION}, {}]
    else:
        speaks = [
            {"languages": languages, "language_of": TEXT, "language": code} for code in ("", chosen)
        ]
    return [
        _side(
            table,
            tokenizer,
            pieces,
            tokens,
            padding,
            ends,
            model,
            special=special,
            keeps_spaces=is_nllb,
            **others,
        )
        for others in speaks
    ]


def _languages(
    folder: pathlib.Path, tokens: Mapping[int, Token], form: re.Pattern[str]
) -> dict[str, int]:
    """Returns the ids of the tokens of languages, by their codes."""
    languages = {
        code[1]: id_
        for id_, token in sorted(tokens.items())
        if (code := form.fullmatch(token.content))
    }
    if not languages:
        raise UserError(
            f"{folder}: neither {TOKENIZER_CONFIG} nor {TOKENIZER} lists the tokens of languages: "
            "download them"
        )
    return languages


def _has_model(folder: pathlib.Path) -> bool:
    """Whether NLLB's text is split by its SentencePiece model, rather than by tokenizer.json."""
    return (folder / _SENTENCEPIECE).is_file() or not (folder / TOKENIZER).is_file()


def _with_languages(folder: pathlib.Path, tokenizer: Tokenizer, first: int, size: int) -> Tokenizer:
    """Returns an M2M100's tokenizer with its languages, which its files need not list.

    As in transformers, they have the ids after the pieces in an order of their own, however they
    are listed, unless the files give ids to them. If the model has no room for all, it has the
    listed ones alone.

    Args:
        folder: of the model.
        tokenizer: its settings.
        first: the id of the first language.
        size: rows of the model.
    """
    kind = tokenizer.settings.get("language_codes") or "m2m100"
    are_listed = any(map(_M2M_LANGUAGE.fullmatch, tokenizer.listed))
    placed = {token.content for token in tokenizer.by_id.values()}
    if not isinstance(kind, str) or kind not in LANGUAGES:
        if are_listed or any(map(_M2M_LANGUAGE.fullmatch, placed)):
            return tokenizer
        raise UserError(
            f"{folder / TOKENIZER_CONFIG}: language_codes={quoted(kind)}: expected "
            f"{' or '.join(LANGUAGES)}, or a list of the tokens of languages"
        )
    by_id = {id_: Token(f"__{code}__") for id_, code in enumerate(LANGUAGES[kind], first)}
    is_too_small = first + len(by_id) > size
    if (is_too_small and are_listed) or any(token.content in placed for token in by_id.values()):
        return tokenizer
    if lost := sorted(by_id.keys() & tokenizer.by_id.keys()):
        log.warning(
            "%s: added tokens have the ids of %s, which the model no longer knows as languages",
            *(folder, ", ".join(by_id[id_].content for id_ in lost)),
        )
    return tokenizer._replace(by_id={**by_id, **tokenizer.by_id})


def _require_same_pieces(path: pathlib.Path, pieces: Sequence[str]) -> None:
    """Raises DataError if a tokenizer.json is of another SentencePiece model."""
    if not path.is_file():
        return
    found = safe_files.read_json(path).get("model")
    ids = found.get("vocab") if isinstance(found, dict) else None
    if not isinstance(ids, dict) or any(ids.get(p, i) != i for i, p in enumerate(pieces)):
        raise DataError(f"{path} has other pieces than {_SENTENCEPIECE}: remove one of them")


def _fill(
    path: pathlib.Path,
    pieces: list[str],
    tokens: Mapping[int, Token],
    size: int,
    most_unused: int | None = None,
) -> set[int]:
    """Adds the tokens to the pieces, and names for rows of the model that mean nothing.

    Returns the ids of these rows.

    Args:
        path: of the vocabulary, for errors.
        pieces: are extended.
        tokens: by id.
        size: rows of the model.
        most_unused: of them; None: any.
    """
    text = len(pieces)
    added = sum(id_ >= text for id_ in tokens)
    if text + added > size or not all(id_ < size for id_ in tokens):
        raise DataError(
            f"{path}: the vocabulary has {text} pieces and {added} added tokens, and the model "
            f"{size} ids: the files are of different models"
        )
    unused = size - text - added
    if most_unused is not None and unused > (0 if size % _PADDED_TO else most_unused):
        raise DataError(
            f"{path}: the model has {size} rows, and the vocabulary {text + added} pieces: the "
            "vocabulary is of another model, or lacks ids"
        )
    ids = range(text, size)
    pieces += [tokens[id_].content if id_ in tokens else f"<unused {id_}>" for id_ in ids]
    return {*ids} - tokens.keys()


def _side(
    path: pathlib.Path,
    tokenizer: Tokenizer,
    pieces: Sequence[str],
    tokens: Mapping[int, Token],
    padding: int,
    ends: Sequence[int],
    model: bytes,
    *,
    special: set[int],
    languages: Mapping[str, int] | None = None,
    keeps_spaces: bool = False,
    **others: Any,
) -> Side:
    """Returns a side, whose text may have the tokens in it."""
    end, unknown = (_index(path, pieces, name) for name in (tokenizer.end, tokenizer.unknown))
    if end not in ends:
        raise DataError(
            f"{path}: sources end with {tokenizer.end}, which has id {end}, and outputs with "
            f"eos_token_id={quoted([*ends])}: the files are of different models"
        )
    reserved = {padding, end, unknown}
    named = {*tokenizer.named.values(), *_SPECIAL}
    added = {
        id_: token.flags
        for id_, token in tokens.items()
        if token.content not in named and id_ not in reserved | special
    }
    hidden = {id_ for id_, token in tokens.items() if token.is_special} | special
    return Side.of(
        pieces,
        padding,
        end,
        unknown,
        model,
        special=hidden - reserved,
        languages=languages,
        added=added,
        keeps_spaces=keeps_spaces,
        cleans_spaces=tokenizer.cleans_spaces and not keeps_spaces,
        origin=str(path),
        **others,
    )


def _merging_model(path: pathlib.Path) -> bytes:
    """Returns the SentencePiece model from which a tokenizer.json was made.

    Raises:
        DataError: the file is damaged, or of another kind of model.
    """
    found = safe_files.read_json(path)
    try:
        settings = found["model"]
        normalizers = (found["normalizer"] or {"normalizers": []})["normalizers"]
        kinds = (settings["type"], settings["byte_fallback"], found["pre_tokenizer"]["type"])
        rules = [base64.b64decode(n["precompiled_charsmap"]) for n in normalizers[:1]]
        ids = settings["vocab"]
        added = {token["content"] for token in found["added_tokens"]}
        pieces = sorted(ids, key=ids.__getitem__)
        while pieces and pieces[-1] in added:  # languages come last
            pieces.pop()
        merged = [
            merge.replace(" ", "") if isinstance(merge, str) else "".join(merge)
            for merge in settings["merges"]
        ]
        has_text = len(pieces) > len(_SPECIAL)
        is_dense = all(ids.get(piece) == id_ for id_, piece in enumerate(pieces))
        if kinds != ("BPE", False, "Metaspace") or not (has_text and is_dense):
            raise ValueError("it is not of NLLB")
        ranks = {piece: rank for rank, piece in reversed([*enumerate(merged)])}
        return merging_model(pieces[len(_SPECIAL) :], ranks, b"".join(rules))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} does not tell how text is split ({error}); add {_SENTENCEPIECE} of the model "
            "that this one was trained from"
        ) from error


def _required(path: pathlib.Path) -> bytes:
    """Returns the contents of a SentencePiece model."""
    if not path.is_file():
        raise UserError(f"{path} is missing: download it into the folder of the model")
    model = path.read_bytes()
    spm_pieces(path, model)
    return model


def _index(path: pathlib.Path, pieces: Sequence[str], piece: str) -> int:
    if piece not in pieces:
        raise DataError(f"{path}: the vocabulary has no piece {piece}")
    return pieces.index(piece)
