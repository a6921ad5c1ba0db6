"""Reads what Hugging Face's tokenizers add to a vocabulary: languages, special and own tokens.

They are spread over four files, which must agree: tokenizer_config.json, tokenizer.json,
special_tokens_map.json and added_tokens.json.
"""

import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from t2t_lite.errors import DataError, UserError, quoted
from t2t_lite.interop.imports import hugging_face_keys as keys
from t2t_lite.interop.imports import safe_files
from t2t_lite.interop.imports.known_keys import Known
from t2t_lite.interop.layouts.hugging_face import M2M100, MARIAN, PEGASUS
from t2t_lite.text.added_tokens import FLAGS

TOKENIZER_CONFIG, TOKENIZER = "tokenizer_config.json", "tokenizer.json"
_MAP, _ADDED = "special_tokens_map.json", "added_tokens.json"
_SMALL100 = "small100"  # in the names of its tokenizer, which is in none of transformers' releases
_CLASSES = {
    MARIAN: ("MarianTokenizer",),
    PEGASUS: ("PreTrainedTokenizerFast", "TokenizersBackend"),
    M2M100: ("M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast", "SMALL100Tokenizer"),
}


class Token(NamedTuple):
    """A token besides those of the vocabulary.

    Attributes:
        content: its text.
        is_special: whether decoded text leaves it out.
        flags: how it is found in a text; see `AddedTokens`.
    """

    content: str
    is_special: bool = True
    flags: tuple[str, ...] = ()


class Tokenizer(NamedTuple):
    """The settings of a folder's tokenizer.

    Attributes:
        settings: those of tokenizer_config.json.
        named: the special tokens, such as `eos_token`, that the files name.
        by_id: tokens whose ids are known.
        listed: special tokens, which follow all others unless their ids are known.
        is_small100: whether sources begin with the language of the target.
    """

    settings: Mapping[str, Any]
    named: Mapping[str, str]
    by_id: Mapping[int, Token]
    listed: Sequence[str]
    is_small100: bool

    @property
    def end(self) -> str:
        """The name of EOS, which ends sources."""
        return self.named.get("eos_token", "</s>")

    @property
    def unknown(self) -> str:
        """The name of the piece for all that is unknown."""
        return self.named.get("unk_token", "<unk>")

    @property
    def cleans_spaces(self) -> bool:
        """Whether decoded text loses the spaces before punctuation."""
        return bool(self.settings.get("clean_up_tokenization_spaces"))

    def placed(self, path: pathlib.Path, pieces: Sequence[str]) -> dict[int, Token]:
        """Returns all tokens by id; those that are only listed follow the others.

        Args:
            path: the file of the vocabulary, for errors.
            pieces: the vocabulary.

        Raises:
            DataError: the files are of different models.
        """
        ids = {piece: id_ for id_, piece in enumerate(pieces)}
        found = dict(self.by_id)
        for id_, token in found.items():
            piece = pieces[id_] if id_ < len(pieces) else token.content
            if piece != token.content or ids.get(piece, id_) != id_:
                raise DataError(
                    f"{path}: the token {quoted(token.content)} has id {id_}, which is "
                    f"{quoted(piece)} in the vocabulary, or another id there: the files are of "
                    "different models"
                )
        known = ids.keys() | {token.content for token in found.values()}
        new = dict.fromkeys([*self.listed, *self.named.values()]).keys() - known
        following = [text for text in (*self.listed, *self.named.values()) if text in new]
        for number, content in enumerate(dict.fromkeys(following), len(known)):
            if found.setdefault(number, Token(content)).content != content:
                raise DataError(
                    f"{path}: the token {quoted(content)} has no id: list it in {_ADDED}"
                )
        return found


def read_tokenizer(folder: pathlib.Path, model_type: str) -> Tokenizer:
    """Reads the files of a tokenizer; a folder may have none of them.

    Raises:
        UserError: a setting is not known, or the files do not agree.
    """
    settings = _object(folder / TOKENIZER_CONFIG, keys.TOKENIZER)
    special = _object(folder / _MAP, keys.SPECIAL_TOKENS_MAP)
    fast = _object(folder / TOKENIZER, keys.FAST_TOKENIZER)
    is_small100 = (folder / "tokenization_small100.py").is_file() or any(
        _SMALL100 in str(settings.get(name)).lower() for name in ("tokenizer_class", "auto_map")
    )
    _check_class(folder, settings, model_type, is_small100)
    named: dict[str, str] = {}
    listed: dict[str, None] = {}
    for found, file in ((settings, TOKENIZER_CONFIG), (special, _MAP)):
        for name in keys.SPECIAL_TOKENS:
            if (value := found.get(name)) is None:
                continue
            text = _content(folder / file, name, value)
            if named.setdefault(name, text) != text:
                raise DataError(
                    f"{folder}: {name} is {quoted(named[name])} in {TOKENIZER_CONFIG} and "
                    f"{quoted(text)} in {_MAP}: correct one of them"
                )
        for name in keys.TOKEN_LISTS:
            listed |= dict.fromkeys(_listed(folder / file, name, found.get(name)))
    specials = {*named.values(), *listed}
    by_id: dict[int, Token] = {}
    ids: dict[str, int] = {}
    for path, id_, token in (
        *_of_config(folder / TOKENIZER_CONFIG, settings.get("added_tokens_decoder")),
        *_of_fast(folder / TOKENIZER, fast.get("added_tokens")),
        *_of_added(folder / _ADDED, specials),
    ):
        known = by_id.setdefault(id_, token)
        if known.content != token.content or ids.setdefault(token.content, id_) != id_:
            raise DataError(
                f"{path}: the token {quoted(token.content)} has id {id_}, which other files of "
                f"the folder have as {quoted(known.content)}, or by another id: the files are of "
                "different models"
            )
    return Tokenizer(settings, named, by_id, [*listed], is_small100)


def _check_class(
    folder: pathlib.Path, settings: Mapping[str, Any], model_type: str, is_small100: bool
) -> None:
    """Refuses tokenizers of another class, or with a setting that changes what they do."""
    path = folder / TOKENIZER_CONFIG
    kind, known = settings.get("tokenizer_class"), _CLASSES[model_type]
    if kind is not None and kind not in known:
        raise UserError(
            f"{path}: tokenizer_class={quoted(kind)} has no counterpart here (only "
            f"{', '.join(known)}): such a model cannot be imported"
        )
    if settings.get("auto_map") and not is_small100:
        raise UserError(
            f"{path}: auto_map={quoted(settings['auto_map'])}: the tokenizer has code of its own, "
            "which is never run: such a model cannot be imported"
        )
    if settings.get("legacy_behaviour"):
        raise UserError(
            f"{path}: legacy_behaviour=True has no counterpart here, where the token of the "
            "language begins a source instead of ending it: set it to false, if the model was "
            "trained so"
        )
    for name in ("clean_up_tokenization_spaces", "separate_vocabs"):
        if not isinstance(settings.get(name, False), bool | None):
            raise DataError(f"{path}: {name}={quoted(settings[name])}: expected true or false")


def _object(path: pathlib.Path, known: Known) -> dict[str, Any]:
    """Returns the settings in a file, all of which are known; {} without the file."""
    if not path.is_file():
        return {}
    found = safe_files.read_json(path)
    known.require(str(path), found)
    return found


def _listed(path: pathlib.Path, name: str, value: Any) -> Iterator[str]:
    """Yields the tokens of a list, or of an object with a name for each."""
    if isinstance(value, dict):
        value = [*value.values()]
    if value is not None and not isinstance(value, list):
        raise DataError(f"{path}: {name}={quoted(value)}: expected a list of tokens")
    for token in value or ():
        yield _content(path, name, token)


def _of_config(path: pathlib.Path, value: Any) -> Iterator[tuple[pathlib.Path, int, Token]]:
    """Yields the tokens of `added_tokens_decoder`, which has them by id."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise DataError(f"{path}: added_tokens_decoder={quoted(value)}: expected tokens by id")
    for id_, token in value.items():
        yield path, _id(path, id_), _token(path, token)


def _of_fast(path: pathlib.Path, value: Any) -> Iterator[tuple[pathlib.Path, int, Token]]:
    """Yields the tokens of the list `added_tokens`."""
    if value is None:
        return
    if not isinstance(value, list) or not all(isinstance(token, dict) for token in value):
        raise DataError(f"{path}: added_tokens={quoted(value)}: expected a list of objects")
    for token in value:
        yield path, _id(path, token.get("id")), _token(path, token)


def _of_added(path: pathlib.Path, special: set[str]) -> Iterator[tuple[pathlib.Path, int, Token]]:
    """Yields the tokens of added_tokens.json, which has the id of each."""
    if path.is_file():
        for content, id_ in safe_files.read_json(path).items():
            yield (
                path,
                _id(path, id_),
                _as_token(_content(path, "a token", content), {"special": content in special}),
            )


def _id(path: pathlib.Path, value: Any) -> int:
    text = str(value)
    if isinstance(value, bool | float) or not re.fullmatch("[0-9]{1,9}", text):
        raise DataError(f"{path}: {quoted(value)} is not the id of a token")
    return int(text)


def _token(path: pathlib.Path, token: Any) -> Token:
    flags = token if isinstance(token, dict) else {}
    for name in ("special", *FLAGS):
        if not isinstance(flags.get(name, False), bool):
            raise DataError(f"{path}: {name}={quoted(flags[name])}: expected true or false")
    return _as_token(_content(path, "a token", token), flags)


def _as_token(content: str, flags: Mapping[str, bool]) -> Token:
    """Returns a token; without a word on it, all but special ones are found in normalized text."""
    is_special = flags.get("special", False)
    flags = {"normalized": not is_special, **flags}
    return Token(content, is_special, tuple(name for name in FLAGS if flags.get(name)))


def _content(path: pathlib.Path, name: str, token: Any) -> str:
    """Returns the text of a token, which some files describe by several fields."""
    text = token.get("content") if isinstance(token, dict) else token
    if not isinstance(text, str) or not text:
        raise DataError(f"{path}: {name}={quoted(token)}: expected a text")
    return text
