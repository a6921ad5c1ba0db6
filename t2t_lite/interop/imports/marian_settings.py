"""Reads the settings inside Marian's models; what has no counterpart here is refused by name."""

import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.errors import DataError, UsageError, UserError, quoted
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.imports import safe_files
from t2t_lite.interop.imports.marian_keys import MODEL
from t2t_lite.interop.imports.safe_files import Tensor
from t2t_lite.interop.layouts.marian import (
    ACTIVATIONS,
    DECODER_SELF,
    RECURRENT,
    SETTINGS,
    SIZES,
    STEPS,
    TIES,
)

_LARGEST_SETTINGS = 1 << 20  # bytes
_DEEPEST = 1000  # layers that may be listed
_MAX_LENGTH = 512  # of the examples that training keeps, and of the sources that are not split

# Before this release, GELU was computed as x·σ(1.702 x).
_FIRST_EXACT_GELU = (1, 12, 3)
# Before this release, a norm before self-attention was only of the queries.
_FIRST_PRE_NORM = (1, 11, 0)


def read_settings(path: pathlib.Path, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Returns the settings in a model by name, as text; those of a list joined by +.

    Raises:
        UserError: there are none, or one has no counterpart here.
    """
    where = f"{path}, {SETTINGS}"
    if SETTINGS not in tensors:
        raise UserError(
            f"{path} has no {SETTINGS}: expected a model of Marian's, not the state of an optimizer"
        )
    array = tensors[SETTINGS]
    if array.dtype not in ("int8", "uint8") or math.prod(array.shape) > _LARGEST_SETTINGS:
        raise DataError(f"{where} is {array.dtype} {list(array.shape)}: expected a short text")
    text = array.read().tobytes().rstrip(b"\0 \n")
    found = safe_files.parse_yaml(text, where)
    if not isinstance(found, dict):
        raise DataError(f"{where}: expected settings by name, got {quoted(found)}")
    settings: dict[str, str] = {}
    for name, value in found.items():
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in items):
            raise DataError(f"{where}: expected a text or numbers as {name}, got {quoted(value)}")
        settings[name] = "+".join(items)
    MODEL.require(where, settings)
    return settings


def sizes_of_vocabularies(settings: Mapping[str, str]) -> tuple[int, int]:
    """Returns how many pieces of source and target a model has, as it says; 0: all."""
    texts = settings.get("dim-vocabs", "").split("+")
    first, last = (
        int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
        for text in (texts[0], texts[-1])
    )
    return first, last


def is_setting(name: str) -> bool:
    """Whether a setting is of models: those in a model file replace those of decoder.yml."""
    return MODEL.covers(name)


def find_hparams(
    settings: Mapping[str, str], never_output: Sequence[int], path: pathlib.Path
) -> TransformerHParams:
    """Returns the hyperparameters of a model.

    Raises:
        DataError: a setting is damaged.
    """
    reader = _Reader(settings, f"{path}, {SETTINGS}")
    filter_size = reader.number("transformer-dim-ffn")
    if reader.number("transformer-decoder-dim-ffn", "0") not in (0, filter_size):
        raise reader.refuse("transformer-decoder-dim-ffn", "only that of the encoder")
    layers = reader.number("dec-depth")
    if reader.text("transformer-tied-layers", "") not in (
        "",
        "+".join(str(layer + 1) for layer in range(layers)) if layers < _DEEPEST else "",
    ):
        raise reader.refuse("transformer-tied-layers", "only layers of their own")
    if reader.number("dim-emb") % 2:  # Marian's sinusoids are others then
        raise reader.refuse("dim-emb", "only even numbers")
    if not {*reader.text("input-types", "").split("+")} <= {"", "sequence"}:
        raise reader.refuse("input-types", "only sequences")
    if "n" in reader.text("transformer-preprocess", "") and not reader.is_since(_FIRST_PRE_NORM):
        raise reader.refuse(
            "transformer-preprocess",
            "before 1.11, Marian normalizes queries of self-attention, but not keys and values",
        )
    softmax, both = reader.is_on("tied-embeddings"), reader.is_on("tied-embeddings-src")
    every = reader.is_on("tied-embeddings-all") or (softmax and both)
    ties = (every, both and not every, softmax and not every)
    found: dict[str, Any] = {hparam: reader.number(name) for name, hparam in SIZES.items()}
    found |= {steps.hparam: reader.steps(name, steps.known) for name, steps in STEPS.items()}
    found |= zip(TIES.values(), ties, strict=True)
    try:
        return TransformerHParams(
            **found,
            ffn_activation=reader.activation(),
            decoder_self=reader.decoder_self(),
            attention_bias=True,
            softmax_bias=not reader.is_on("output-omit-bias"),
            softmax_padding=False,
            suppressed_ids="+".join(map(str, never_output)),
            max_length=_MAX_LENGTH,
        )
    except UsageError as error:
        raise DataError(f"{path}, {SETTINGS}: {error}") from error


class _Reader:
    """Reads settings, which are text.

    Args:
        settings: by name.
        where: they are, for errors.
    """

    def __init__(self, settings: Mapping[str, str], where: str) -> None:
        self._settings = settings
        self._where = where

    def text(self, name: str, default: str | None = None) -> str:
        """Returns a setting; without a default, a model must have it."""
        value = self._settings.get(name, default)
        if value is None:
            raise DataError(f"{self._where} has no setting {name}")
        return value

    def number(self, name: str, default: str | None = None) -> int:
        """Returns a size."""
        text = self.text(name, default)
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise DataError(f"{self._where}: expected a number as {name}, got {quoted(text)}")
        return int(text)

    def is_on(self, name: str) -> bool:
        """Returns a switch."""
        text = self.text(name, "false")
        if text not in ("true", "false"):
            raise DataError(f"{self._where}: expected true or false as {name}, got {quoted(text)}")
        return text == "true"

    def steps(self, name: str, known: str) -> str:
        """Returns a sequence of steps as ours; `known`: those that are the same here."""
        text = self.text(name, "")
        if not {*text} <= {*known}:
            raise self.refuse(name, f"only the steps {' '.join(known)}")
        return text or "none"

    def activation(self) -> str:
        """Returns the activation of the feed-forward layers."""
        name = self.text("transformer-ffn-activation")
        if name not in ACTIVATIONS:
            raise self.refuse("transformer-ffn-activation", "only relu, swish and gelu")
        old = name == "gelu" and not self.is_since(_FIRST_EXACT_GELU)
        return "gelu_sigmoid" if old else ACTIVATIONS[name]

    def decoder_self(self) -> str:
        """Returns what a decoder reads earlier targets with."""
        found = DECODER_SELF[self.text("transformer-decoder-autoreg", "self-attention")]
        if found == "ssru":
            for name, value in RECURRENT.items():
                if self.text(name, "false") != value:
                    raise self.refuse(name, f"only {value} in a recurrent decoder")
        return found

    def is_since(self, release: tuple[int, int, int]) -> bool:
        """Whether a release of Marian, or a later one, has written the model."""
        version = re.match(r"v(\d+)\.(\d+)\.(\d+)", self.text("version", ""))
        return version is not None and tuple(map(int, version.groups())) >= release

    def refuse(self, name: str, known: str) -> UserError:
        """Returns the error of a setting that has no counterpart."""
        return UserError(
            f"{self._where}: {name}={self.text(name)} has no counterpart here ({known}): such a "
            "model cannot be imported"
        )
