"""The Transformer as CTranslate2 knows it.

The logits are those of our model: CTranslate2 has the paper's layers, and the specification records
where T2T's conventions differ (positions count from 0, decoding starts from a zero vector).

Ids that are never output (`softmax_padding=False`, `suppressed_ids`) get a bias that no search
overcomes, so that every program that uses the model obeys it. CTranslate2 thus divides their
probability among the others; our search does not. That adds -log(1 - p) to the log-probability of
every token, where p is theirs together, and changes the output of no greedy search.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from t2t_lite.errors import UserError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import EncoderDecoderAttention, SelfAttention
from t2t_lite.layers.dense import FeedForward, Projection
from t2t_lite.layers.relative_attention import RelativeSelfAttention
from t2t_lite.layers.transformer_layers import LayerSteps, Position, Residual
from t2t_lite.models.plain_transformer import require_plain
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.models.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerEncoder,
    TransformerPart,
)
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID

if TYPE_CHECKING:
    from ctranslate2.specs import LayerSpec, TransformerSpec

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8")

# Rows of the position tables: no source or output can be longer. By default, CTranslate2 itself
# cuts sources at 1,024 subwords and outputs at 256.
POSITIONS = 2048

# The bias of ids that are never output: the least float16, which `EXCLUDED` is not.
_NEVER = -65504.0

# CTranslate2's names of `ffn_activation`.
_ACTIVATIONS = {
    "relu": "RELU",
    "swish": "SWISH",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "gelu_sigmoid": "GELUSigmoid",
}

# Residual steps, without dropout, before and after a sub-layer: the place of normalisation.
_PRE_NORM, _POST_NORM = ("n", "a"), ("", "an")


class Tokens(NamedTuple):
    """The pieces of text that a model's ids stand for.

    Attributes:
        sources: those of sources by id.
        targets: those of targets by id.
        unknown: that of all that is unknown in sources.
    """

    sources: Sequence[str]
    targets: Sequence[str]
    unknown: str


def convert(
    model: Seq2Seq,
    tokens: Tokens | None = None,
    quantization: str = "float32",
    is_for_engine: bool = False,
) -> "TransformerSpec":
    """Converts a model to CTranslate2's specification, whose `save` writes it into a folder.

    Args:
        model: a Transformer.
        tokens: CTranslate2's names of the ids; None: each id as text, and 0 is for what is unknown.
        quantization: how weights are stored: one of `QUANTIZATIONS`, or int16.
        is_for_engine: whether the caller forbids the ids that are never output by itself, and ends
            sources with EOS; then probabilities and attention are those of our model.

    Raises:
        UserError: ctranslate2 is not installed, or cannot compute the model.
    """
    try:
        from ctranslate2.specs import TransformerSpec, common_spec
    except ImportError:
        raise UserError("ctranslate2 is not installed: pip install '.[ct2]'") from None
    hparams = require_convertible(model)
    assert isinstance(model, Transformer)
    spec = TransformerSpec.from_config(
        (len(model.encoder.stack), len(model.decoder.stack)),
        hparams.num_heads,
        with_relative_position=_is_relative(model.encoder),
        no_final_norm="n" not in model.encoder.end.sequence,
        activation=common_spec.Activation[_ACTIVATIONS[hparams.ffn_activation]],
        # Their average is the attention, as ours.
        alignment_heads=1 if hparams.is_guided else hparams.num_heads,
    )
    # Not above: the specification of a post-norm model would have no room for a last norm.
    spec.encoder.pre_norm = spec.decoder.pre_norm = _is_pre_norm(hparams)
    _set_encoder(spec.encoder, model.encoder)
    _set_decoder(spec.decoder, model.decoder)
    _set_output(spec.decoder, model, () if is_for_engine else model.never_output)
    spec.config.layer_norm_epsilon = hparams.norm_epsilon
    _register_vocabularies(spec, model, tokens)
    spec.config.add_source_eos = not is_for_engine
    if quantization == "bfloat16":  # ctranslate2 itself can do this only with PyTorch
        _round_to_bfloat16(spec)
    spec.validate()
    spec.optimize(quantization)
    return spec


def require_convertible(model: Seq2Seq) -> TransformerHParams:
    """Returns the hyperparameters of a model that CTranslate2 can hold.

    Raises:
        UserError: it cannot; the message names the model, or the hparam.
    """
    hparams = require_plain(model, "CTranslate2")
    _refuse_other_layers(hparams)
    _is_pre_norm(hparams)
    return hparams


def _refuse_other_layers(h: TransformerHParams) -> None:
    """Raises UserError if CTranslate2 lacks a layer of the model."""
    for name in ("key_channels", "value_channels"):
        if getattr(h, name) != h.hidden_size:
            raise UserError(
                f"hparam attention_{name}={getattr(h, name)}: CTranslate2 supports attention only "
                f"over hidden_size={h.hidden_size} features; export a SavedModel "
                "(--format=savedmodel)"
            )
    if h.self_attention_type != "dot_product" and h.pos != "none":
        raise UserError(
            f"hparams self_attention_type={h.self_attention_type}, pos={h.pos}: CTranslate2 cannot "
            "combine these positions; export a SavedModel (--format=savedmodel)"
        )
    for name, known in (
        ("ffn_layer", "dense_relu_dense"),
        ("decoder_self", "attention"),
        ("attention_neighborhood", 0),
        ("end_ids", ""),
    ):
        if getattr(h, name) != known:
            raise UserError(
                f"hparam {name}={getattr(h, name)}: CTranslate2 supports only {known!r}; export a "
                "SavedModel (--format=savedmodel)"
            )


def _is_pre_norm(h: TransformerHParams) -> bool:
    """Returns whether the model normalises before its sub-layers, rather than after."""
    names = ("layer_preprocess_sequence", "layer_postprocess_sequence")
    steps = tuple(getattr(h, name).replace("none", "").replace("d", "") for name in names)
    if steps not in (_PRE_NORM, _POST_NORM):
        raise UserError(
            f"hparams {names[0]}={getattr(h, names[0])!r}, {names[1]}={getattr(h, names[1])!r}: "
            "CTranslate2 supports only n with da, or none with dan; export a SavedModel "
            "(--format=savedmodel)"
        )
    return steps == _PRE_NORM


def _set_encoder(spec: "LayerSpec", encoder: TransformerEncoder) -> None:
    spec.scale_embeddings = encoder.embedding.scaled
    spec.embeddings[0].weight = _array(encoder.embedding.matrix)
    if encoder.target_space is not None:  # its first row is added to all scaled embeddings
        spec.embeddings[0].weight += _array(encoder.target_space[0]) / encoder.embedding.scale
    if not _is_relative(encoder):
        spec.position_encodings.encodings = _position_table(encoder.position)
    for layer_spec, layer in zip(spec.layer, encoder.stack, strict=True):
        _set_self_attention(layer_spec.self_attention, layer.attention, layer.attention_residual)
        _set_feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_residual)
    _set_norm(spec, encoder.end)


def _set_decoder(spec: "LayerSpec", decoder: TransformerDecoder) -> None:
    spec.scale_embeddings = decoder.embedding.scaled
    spec.start_from_zero_embedding = not decoder.hparams.start_id
    spec.embeddings.weight = _array(decoder.embedding.matrix)
    if not _is_relative(decoder):
        spec.position_encodings.encodings = _position_table(decoder.position)
    for layer_spec, layer in zip(spec.layer, decoder.stack, strict=True):
        _set_self_attention(layer_spec.self_attention, layer.attention, layer.attention_residual)
        _set_source_attention(layer_spec.attention, layer.source_attention, layer.source_residual)
        _set_feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_residual)
    _set_norm(spec, decoder.end)


def _set_output(spec: "LayerSpec", model: Transformer, never: Sequence[int]) -> None:
    """Sets the softmax's weights and bias, with `_NEVER` for padding and these ids."""
    spec.projection.weight = _array(model.softmax_embedding.matrix)
    projection = model.output_projection
    excluded = [*never, *([] if projection.has_padding else [PAD_ID])]
    if projection.bias is not None or excluded:
        nothing = np.zeros(model.targets_vocab_size, np.float32)
        bias = nothing if projection.bias is None else _array(projection.bias)
        bias[excluded] = _NEVER
        spec.projection.bias = bias


def _set_self_attention(spec: "LayerSpec", layer: SelfAttention, residual: Residual) -> None:
    _set_projection(spec.linear[0], layer.qkv)
    _set_projection(spec.linear[1], layer.output_projection)
    if isinstance(layer, RelativeSelfAttention):
        spec.relative_position_keys = _array(layer.relative_keys)
        spec.relative_position_values = _array(layer.relative_values)
    _set_sublayer_norm(spec, residual)


def _set_source_attention(
    spec: "LayerSpec", layer: EncoderDecoderAttention, residual: Residual
) -> None:
    _set_projection(spec.linear[0], layer.query)
    _set_projection(spec.linear[1], layer.kv)
    _set_projection(spec.linear[2], layer.output_projection)
    _set_sublayer_norm(spec, residual)


def _set_feed_forward(spec: "LayerSpec", layer: FeedForward, residual: Residual) -> None:
    _set_projection(spec.linear_0, layer.expand)
    _set_projection(spec.linear_1, layer.contract)
    _set_sublayer_norm(spec, residual)


def _set_projection(spec: "LayerSpec", layer: Projection) -> None:
    spec.weight = np.ascontiguousarray(_array(layer.kernel).T)  # [outputs, inputs]
    if layer.bias is not None:
        spec.bias = _array(layer.bias)


def _set_sublayer_norm(spec: "LayerSpec", residual: Residual) -> None:
    _set_norm(spec, residual.before)
    _set_norm(spec, residual.after)


def _set_norm(spec: "LayerSpec", steps: LayerSteps) -> None:
    if "n" in steps.sequence:
        spec.layer_norm.gamma = _array(steps.norm.gamma)
        spec.layer_norm.beta = _array(steps.norm.beta)


def _position_table(layer: Position) -> np.ndarray:
    """Returns what the layer adds to the embeddings of each position, [POSITIONS, D]."""
    nothing = ops.zeros((1, POSITIONS, layer.channels))
    return _array(layer(nothing, ops.arange(POSITIONS))[0])


def limits_positions(model: Transformer) -> bool:
    """Whether the model in CTranslate2 reads and writes at most `POSITIONS` ids."""
    return not _is_relative(model.encoder)


def _is_relative(part: TransformerPart) -> bool:
    return isinstance(part.stack[0].attention, RelativeSelfAttention)


def _array(values: keras.KerasTensor) -> np.ndarray:
    return ops.convert_to_numpy(values).copy()  # the result may be quantised in place


def _register_vocabularies(
    spec: "TransformerSpec", model: Transformer, tokens: Tokens | None
) -> None:
    if tokens is None:
        sources, targets = (
            [str(i) for i in range(size)]
            for size in (model.inputs_vocab_size, model.targets_vocab_size)
        )
        tokens = Tokens(sources, targets, sources[PAD_ID])
    spec.register_source_vocabulary(list(tokens.sources))
    spec.register_target_vocabulary(list(tokens.targets))
    spec.config.eos_token = tokens.targets[EOS_ID]
    # T2T's vocabularies have no id for the start.
    start_id = model.hparams.start_id or PAD_ID
    spec.config.bos_token = spec.config.decoder_start_token = tokens.targets[start_id]
    spec.config.unk_token = tokens.unknown


def _round_to_bfloat16(spec: "LayerSpec") -> None:
    """Rounds all arrays of a specification and of those inside it."""
    from ctranslate2.specs import LayerSpec

    for name, value in list(vars(spec).items()):
        if isinstance(value, np.ndarray):
            setattr(spec, name, tf.cast(value, tf.bfloat16).numpy())
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, LayerSpec):
                _round_to_bfloat16(part)
