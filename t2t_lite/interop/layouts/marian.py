"""Marian's names, shapes and settings of a Transformer.

They are those of Marian's models/transformer.h and layers/generic.h. Matrices are as ours; vectors
are [1, N].
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

SETTINGS = "special:model.yml"  # the array of a model file that holds its settings

# The settings that are hyperparameters of ours as they are.
SIZES = {
    "dim-emb": "hidden_size",
    "transformer-dim-ffn": "filter_size",
    "transformer-heads": "num_heads",
    "enc-depth": "num_encoder_layers",
    "dec-depth": "num_decoder_layers",
}


class Steps(NamedTuple):
    """Steps around sub-layers; Marian writes an empty text if there are none, ours is none.

    Attributes:
        hparam: its name here.
        known: the letters that mean the same on both sides.
    """

    hparam: str
    known: str


STEPS = {
    "transformer-preprocess": Steps("layer_preprocess_sequence", "dn"),
    "transformer-postprocess": Steps("layer_postprocess_sequence", "dan"),
    "transformer-postprocess-top": Steps("layer_final_sequence", "n"),
}
# What a decoder reads earlier targets with, by Marian's names.
DECODER_SELF = {"self-attention": "attention", "rnn": "ssru"}
# What the unit of a recurrent decoder must be.
RECURRENT = {
    "dec-cell": "ssru",
    "layer-normalization": "false",
    "transformer-rnn-projection": "false",
}
# By Marian's names; before 1.12.3, its gelu was another function.
ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu"}
# What Marian ties by each setting, and our hyperparameter for it; of ours, a model has at most one.
TIES = {
    "tied-embeddings-all": "shared_embedding_and_softmax_weights",
    "tied-embeddings-src": "shared_embedding",
    "tied-embeddings": "shared_target_and_softmax_weights",
}

# Pieces of control characters, which Marian does not output.
_CONTROL = re.compile(r"<0x[01][0-9A-F]>")

# The matrix of both sides, and those of one.
_BOTH, SOURCE, _TARGET = "Wemb", "encoder_Wemb", "decoder_Wemb"
# The softmax matrix where it is not an embedding; that of old releases is [D, V].
_SOFTMAX, UNTRANSPOSED = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W"
SOFTMAX_BIAS = "decoder_ff_logit_out_b"


class Embeddings(NamedTuple):
    """The names of what has a row for each id; equal names are of one matrix."""

    source: str
    target: str
    softmax: str
    bias: str = SOFTMAX_BIAS

    @classmethod
    def of(cls, *, both: bool, softmax: bool, is_untransposed: bool = False) -> "Embeddings":
        """Names the matrices of a model.

        Args:
            both: whether source and target have one.
            softmax: whether the target's is that of the softmax, too.
            is_untransposed: whether a softmax of its own is [D, V].
        """
        source, target = (_BOTH, _BOTH) if both else (SOURCE, _TARGET)
        own = UNTRANSPOSED if is_untransposed else _SOFTMAX
        return cls(source, target, target if softmax else own)


class MarianNames:
    """Marian's names, see `parts.Names`."""

    def attention(self, side: str, layer: int, block: str, part: str, kind: str) -> str:
        """See `parts.Names`."""
        return f"{side}_l{layer + 1}_{_BLOCKS[block]}_{_KINDS[kind]}{part}"

    def feed_forward(self, side: str, layer: int, part: str, kind: str) -> str:
        """See `parts.Names`."""
        number = 1 if part == "expand" else 2
        return f"{side}_l{layer + 1}_ffn_{_KINDS[kind]}{number}"

    def norm(self, side: str, layer: int, block: str, place: str, kind: str) -> str:
        """See `parts.Names`."""
        ssru = "rnn" if place == "before" else "rnn_ffn"
        block = {"ffn": "ffn_ffn", "ssru": ssru}.get(block) or f"{_BLOCKS[block]}_Wo"
        end = "_pre" if place == "before" else ""
        return f"{side}_l{layer + 1}_{block}_ln_{_KINDS[kind]}{end}"

    def end(self, side: str, kind: str) -> str:
        """See `parts.Names`."""
        return f"{side}_top_ln_{_KINDS[kind]}"


_BLOCKS = {"self": "self", "source": "context", "ssru": "rnn"}
_KINDS = {"kernel": "W", "bias": "b", "gamma": "scale", "beta": "bias"}


def never_output(
    pieces: Sequence[str], unknown: int, *, allows_unknown: bool, allows_special: bool
) -> list[int]:
    """Returns the ids that Marian's decoder does not output.

    Args:
        pieces: by id.
        unknown: the id of what is unknown.
        allows_unknown: Marian's setting allow-unk.
        allows_special: its setting allow-special.
    """
    ids = [] if allows_unknown else [unknown]
    if not allows_special:
        ids += [id_ for id_, piece in enumerate(pieces) if _CONTROL.fullmatch(piece)]
    return sorted(ids)


def marian_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns Marian's shape of a tensor of ours."""
    return (1, *shape) if len(shape) == 1 else shape


def settings_array(settings: Mapping[str, str]) -> np.ndarray:
    """Returns the array that holds a model's settings, lines of YAML that end with NUL."""
    text = "".join(f"{name}: {value}\n" for name, value in settings.items())
    return np.frombuffer(f"{text}\0".encode(), np.int8)
