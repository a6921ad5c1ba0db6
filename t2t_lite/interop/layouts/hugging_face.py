"""The names, shapes and settings of a Transformer in Hugging Face's transformers.

They are those of its modeling_marian.py, modeling_pegasus.py and modeling_m2m_100.py. Matrices are
[outputs, inputs], where ours are [inputs, outputs]; the bias of the logits is [1, V].
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

MARIAN, PEGASUS, M2M100 = "marian", "pegasus", "m2m_100"  # values of model_type


class Family(NamedTuple):
    """What all models of a type have in common.

    Attributes:
        hparams: our hyperparameters of them.
        activation: that of a model whose settings do not name it.
        is_scaled: whether embeddings are scaled if the settings do not say so.
        has_table: whether positions are a table in the file, which may hold anything, and logits
            have a bias.
        can_split: whether source and target may have vocabularies of their own.
    """

    hparams: Mapping[str, Any]
    activation: str
    is_scaled: bool
    has_table: bool
    can_split: bool


_POST_NORM = {
    "layer_preprocess_sequence": "none",
    "layer_postprocess_sequence": "dan",
    "layer_final_sequence": "none",
}
_PRE_NORM = {
    "layer_preprocess_sequence": "n",
    "layer_postprocess_sequence": "da",
    "layer_final_sequence": "n",
}
FAMILIES = {
    MARIAN: Family({"pos": "timing_paper", **_POST_NORM}, "gelu", False, True, True),
    PEGASUS: Family({"pos": "timing_paper", **_PRE_NORM}, "gelu", False, True, False),
    # Positions follow the id of padding: see `find_hparams`.
    M2M100: Family({"pos": "timing", **_PRE_NORM}, "relu", True, False, False),
}
# Ours by transformers' names, of which the first is written.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
    "silu": "swish",
    "swish": "swish",
}
# Settings that are hyperparameters of ours as they are.
SIZES = {
    "d_model": "hidden_size",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    **{f"{side}_ffn_dim": "filter_size" for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": "num_heads" for side in ("encoder", "decoder")},
}

POSITIONS = {side: f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
SHARED, SOURCE, TARGET, SOFTMAX = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
BIAS = "final_logits_bias"
IMPOSSIBLE = -1e4  # a logit whose probability is 0 in every dtype


class HuggingFaceNames:
    """The names of transformers, see `parts.Names`."""

    def attention(self, side: str, layer: int, block: str, part: str, kind: str) -> str:
        """See `parts.Names`."""
        block = {"self": "self_attn", "source": "encoder_attn"}[block]
        part = "out" if part == "o" else part
        return f"model.{side}.layers.{layer}.{block}.{part}_proj.{_KINDS[kind]}"

    def feed_forward(self, side: str, layer: int, part: str, kind: str) -> str:
        """See `parts.Names`."""
        number = 1 if part == "expand" else 2
        return f"model.{side}.layers.{layer}.fc{number}.{_KINDS[kind]}"

    def norm(self, side: str, layer: int, block: str, place: str, kind: str) -> str:
        """See `parts.Names`."""
        block = {"self": "self_attn", "source": "encoder_attn", "ffn": "final"}[block]
        return f"model.{side}.layers.{layer}.{block}_layer_norm.{_KINDS[kind]}"

    def end(self, side: str, kind: str) -> str:
        """See `parts.Names`."""
        return f"model.{side}.layer_norm.{_KINDS[kind]}"


_KINDS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def scaling(is_scaled: bool) -> str:
    """Returns our `multiply_embedding_mode` for the setting scale_embedding."""
    return "sqrt_depth" if is_scaled else "none"
