"""Reads the vocabularies of Hugging Face's MarianMT, M2M100 and NLLB-200."""

import base64
import logging
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from t2t_lite.errors import DataError, UserError
from t2t_lite.imports import safe_files
from t2t_lite.imports.open_model import Side, language_labels, pieces_by_id, spm_pieces
from t2t_lite.text.language_tokens import TEXT, TRANSLATION
from t2t_lite.text.sentencepiece_encoder import merging_model

log = logging.getLogger(__name__)

_UNKNOWN = "<unk>"
_SPECIAL = ("<s>", "<pad>", "</s>", _UNKNOWN)  # of NLLB, before its pieces
_SENTENCEPIECE = "sentencepiece.bpe.model"
_TOKENIZER_CONFIG = "tokenizer_config.json"
_TOKENIZER = "tokenizer.json"  # all that transformers 5 saves of NLLB's
_SPM_SPECIAL = 3  # pieces of that model that NLLB replaces by its own
_M2M_LANGUAGE = re.compile(r"__(\w+)__")
_NLLB_LANGUAGE = re.compile(r"([a-z]{3}_[A-Z][a-z]{3})")
# The files that list the tokens of languages, the surest first, and the keys under which they do.
_LISTS = (_TOKENIZER, _TOKENIZER_CONFIG, "special_tokens_map.json")
_KEYS = ("additional_special_tokens", "extra_special_tokens")


def marian(folder: pathlib.Path, padding: int, end: int, start: int) -> list[Side]:
    """Returns the vocabularies of a MarianMT model.

    Args:
        folder: of the model.
        padding: its id.
        end: the id of EOS.
        start: the id that starts the decoder.
    """
    target_file = folder / "target_vocab.json"
    sides = []
    for side in ("source", "target"):
        is_own = side == "target" and target_file.is_file()
        path = target_file if is_own else folder / "vocab.json"
        pieces = pieces_by_id(path)
        needed = max(padding, end, start if side == "target" else 0)
        if needed >= len(pieces):
            raise DataError(
                f"{path} has {len(pieces)} pieces, and none of id {needed}, which "
                f"{folder / 'config.json'} names: the vocabulary is of another model, or lacks ids"
            )
        spm = _required(folder / f"{side}.spm")
        languages = language_labels(pieces)
        sides.append(
            Side.of(
                pieces,
                padding,
                end,
                _index(path, pieces, _UNKNOWN),
                spm,
                special=languages.values(),
                languages=languages if side == "source" else {},
                language_of=TRANSLATION,
                origin=str(path),
            )
        )
    return sides


def m2m100(folder: pathlib.Path, size: int, padding: int, end: int, default: Any) -> list[Side]:
    """Returns the vocabularies of an M2M100 model, NLLB-200 among them, which both sides share.

    Args:
        folder: of the model.
        size: of the vocabulary.
        padding: its id.
        end: the id of EOS.
        default: the id with which outputs begin unless one is chosen.
    """
    has_model = (folder / _SENTENCEPIECE).is_file() or not (folder / _TOKENIZER).is_file()
    model = _required(folder / _SENTENCEPIECE) if has_model else _merging_model(folder / _TOKENIZER)
    table = folder / "vocab.json"
    if table.is_file():
        pieces, language = pieces_by_id(table), _M2M_LANGUAGE
    else:
        own = spm_pieces(folder / _SENTENCEPIECE, model)[_SPM_SPECIAL:]
        pieces, language = [*_SPECIAL, *own], _NLLB_LANGUAGE
        _warn_of_legacy(folder / _TOKENIZER_CONFIG)
    text = len(pieces)
    tokens = _language_tokens(folder, language, text)
    if text + len(tokens) > size or not all(text <= id_ < size for id_ in tokens):
        raise DataError(
            f"{folder}: the vocabulary has {text} pieces and {len(tokens)} languages, and the "
            f"model {size} ids: the files are of different models"
        )
    # What is left means nothing, but has rows.
    pieces += [tokens.get(id_, f"<unused {id_}>") for id_ in range(text, size)]
    languages = {found[1]: id_ for id_, t in tokens.items() if (found := language.fullmatch(t))}
    chosen = next((code for code, id_ in languages.items() if id_ == default), "")
    if default is not None and not chosen:
        log.warning(
            "%s: forced_bos_token_id=%r is not a language: outputs may differ", folder, default
        )
    unknown = _index(folder, pieces, _UNKNOWN)
    special = {*range(text, size), *(pieces.index(s) for s in _SPECIAL if s in pieces)}
    return [
        Side.of(
            pieces,
            padding,
            end,
            unknown,
            model,
            special=special - {unknown, padding, end},
            languages=languages,
            language_of=TEXT,
            language=code,
            origin=str(table if table.is_file() else folder),
        )
        for code in ("", chosen)
    ]


def _warn_of_legacy(path: pathlib.Path) -> None:
    """Warns if texts are to have their language at the end, as in early releases for NLLB."""
    if path.is_file() and safe_files.read_json(path).get("legacy_behaviour"):
        log.warning(
            "%s: legacy_behaviour=True has no counterpart here: the token of the language begins a "
            "source instead of ending it, so that outputs may differ",
            path,
        )


def _language_tokens(folder: pathlib.Path, language: re.Pattern[str], first: int) -> dict[int, str]:
    """Returns the tokens of languages by id, from the first file that lists them."""
    for path in (folder / name for name in _LISTS):
        found = safe_files.read_json(path) if path.is_file() else {}
        by_id = {
            int(id_): content
            for id_, content in _added(found)
            if id_.isascii() and id_.isdecimal() and len(id_) < 10 and language.fullmatch(content)
        }
        if by_id:
            return by_id
        for key in _KEYS:
            listed = found.get(key)
            contents = map(_content, listed) if isinstance(listed, list) else ()
            if tokens := [text for text in contents if language.fullmatch(text)]:
                return dict(enumerate(tokens, first))
    raise UserError(
        f"{folder}: neither {' nor '.join(_LISTS)} lists the tokens of languages: download them"
    )


def _added(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    table, listed = found.get("added_tokens_decoder"), found.get("added_tokens")
    for id_, token in table.items() if isinstance(table, dict) else ():
        yield id_, _content(token)
    for token in listed if isinstance(listed, list) else ():
        if isinstance(token, dict):
            yield str(token.get("id")), _content(token)


def _content(token: Any) -> str:
    """Returns the text of a token, which some files describe by several fields."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""


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
        special = {content for _, content in _added(found)}  # those of languages come last
        pieces = [*_SPECIAL, *sorted(ids.keys() - special, key=ids.__getitem__)]
        merged = [
            merge.replace(" ", "") if isinstance(merge, str) else "".join(merge)
            for merge in settings["merges"]
        ]
        is_dense = all(ids.get(piece) == id_ for id_, piece in enumerate(pieces))
        if kinds != ("BPE", False, "Metaspace") or not is_dense:
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
