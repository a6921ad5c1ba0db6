"""Maps the variables of T2T's Transformer, and of models made of its layers, to ours."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import keras
import numpy as np

from t2t_lite.errors import UsageError, UserError
from t2t_lite.layers.attention import EncoderDecoderAttention, SelfAttention
from t2t_lite.layers.dense import FeedForward, Projection
from t2t_lite.layers.relative_attention import RelativeSelfAttention
from t2t_lite.layers.transformer_layers import (
    DecoderLayer,
    EncoderLayer,
    LayerSteps,
    Position,
    Residual,
)
from t2t_lite.models.attention_lm import AttentionLM
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_encoder import MeanOfEncoder, TransformerClassifier
from t2t_lite.models.universal_transformer import (
    AdaptiveSteps,
    UniversalSteps,
    UniversalTransformer,
)
from t2t_lite.names import snake_case
from t2t_lite.systems.convolution import Convolution, SeparableConvolution
from t2t_lite.systems.evolved_transformer import EvolvedDecoderLayer, EvolvedEncoderLayer

# Some rows of an embedding matrix: `.../symbol_modality_VOCABULARY_CHANNELS/KIND/weights_NUMBER`.
_SHARD = re.compile(r"(?P<matrix>\w+/symbol_modality_\d+_\d+/\w+)/weights_(?P<number>\d{1,6})")
# The linear layer to the classes; T2T repeats the name of its modality. Or that to the number.
_CLASSES = re.compile(
    r"\w+/(?:(?:class_label_modality_\d+_\d+/)+dense|(?:\w+/)*reg_top_ffn/model_top)"
    r"/(?P<kind>kernel|bias)"
)
# Variables with axes more than ours: the Universal Transformer's signals of the recurrent steps,
# [steps, 1, 1, D], and the kernels of convolutions.
_STEP_SIGNALS = "/layer_embedding"
_MORE_AXES = re.compile(
    rf".*({_STEP_SIGNALS}|_kernel|/standard_conv_3x1/kernel|/conv[12]_single/kernel)"
)
# The two layers of a feed-forward network, which are convolutions of width 1 in attention_lm.
_FEED_FORWARD = ("ffn/conv1", "ffn/conv2")
_CONVOLUTIONS = ("ffn/conv_hidden_relu/conv1_single", "ffn/conv_hidden_relu/conv2_single")


# What can be imported.
Model = Transformer | MeanOfEncoder


class Part(NamedTuple):
    """A variable of ours, and T2T's variables that form its columns."""

    variable: keras.Variable
    columns: Mapping[str, int]  # T2T's names, from the left, with their numbers of columns


def assign(model: Model, arrays: Mapping[str, np.ndarray], target_space_id: int = 0) -> None:
    """Assigns T2T's values to every variable of a model; see `matched`."""
    for variable, value in matched(model, arrays, target_space_id):
        variable.assign(value)


def matched(
    model: Model, arrays: Mapping[str, np.ndarray], target_space_id: int = 0
) -> list[tuple[keras.Variable, np.ndarray]]:
    """Returns every variable of a model with T2T's values for it.

    Our model adds row 0 of the target-space embedding to its encoder's inputs, whatever the
    problem; T2T adds the row of its problem. The rows are therefore rotated until that one is row
    0.

    Args:
        model: has the hparams and vocabulary sizes of T2T's model.
        arrays: the values by T2T's names, embeddings in any number of shards.
        target_space_id: the row of the target-space embedding, if there is one.

    Raises:
        UserError: variables are missing, unknown or of another shape; all are named.
        UsageError: there is no such row.
    """
    left = _with_joined_shards(arrays)
    left |= {name: _flat(a) for name, a in left.items() if _MORE_AXES.fullmatch(name)}
    left = {_CLASSES.sub(r"classes/\g<kind>", name): array for name, array in left.items()}
    target_space = _target_space(_body(model))
    if target_space in left:
        rows = len(left[target_space])
        if target_space_id >= rows:
            raise UsageError(f"target_space_id={target_space_id}: expected a number below {rows}")
        left[target_space] = np.roll(left[target_space], -target_space_id, axis=0)
    parts = list(parts_of(model))
    values: list[list[np.ndarray]] = []
    wrong = []
    for variable, columns in parts:
        values.append([])
        for name, width in columns.items():
            wanted = (*variable.shape[:-1], width)
            array = left.pop(name, None)
            if array is None:
                wrong.append(f"{name} {list(wanted)} is missing")
            elif array.shape != wanted:
                wrong.append(f"{name} is {list(array.shape)}, not {list(wanted)}")
            else:
                values[-1].append(array)
    wrong += [f"{name} {list(array.shape)} is unknown here" for name, array in left.items()]
    if wrong:
        raise UserError(f"variables do not fit the hparams and vocabularies: {'; '.join(wrong)}")
    return [
        (part.variable, np.concatenate(found, axis=-1))
        for part, found in zip(parts, values, strict=True)
    ]


def embedding_rows(arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Returns the number of rows of each embedding matrix: `shared`, or `input_emb` etc.

    Raises:
        UserError: shards of a matrix are missing; they are named.
    """
    rows: dict[str, int] = {}
    for matrix, names in _shards(arrays).items():
        if len(names) <= max(names):
            missing = (number for number in itertools.count() if number not in names)
            raise UserError(
                f"variables are missing: {matrix}/weights_{next(missing)}, as there is "
                f"{matrix}/weights_{max(names)}"
            )
        kind = matrix.rpartition("/")[2]
        rows[kind] = sum(len(arrays[name]) for name in names.values())
    return rows


def parts_of(model: Model) -> Iterator[Part]:
    """Yields every trainable variable of a model once, with the names of T2T's parts of it.

    An embedding matrix has the name of its kind, because T2T splits it into shards.
    """
    body = _body(model)
    yield from _embeddings(model, body)
    feed_forward = _CONVOLUTIONS if isinstance(model, AttentionLM) else _FEED_FORWARD
    for side in _sides(model):
        part, scope = getattr(model, side), f"{body}/{side}"
        prefix = f"{scope}/layer_"
        if isinstance(model, UniversalTransformer):
            recurrence = f"{scope}/universal_transformer_{model.hparams.recurrence_type}"
            yield from _steps(part.steps, recurrence)
            prefix = f"{recurrence}/rec_layer_"
        for number, layer in enumerate(part.stack):
            layer_scope = f"{prefix}{number}"
            if isinstance(layer, EvolvedEncoderLayer):
                yield from _evolved_encoder_layer(layer, layer_scope)
            elif isinstance(layer, EvolvedDecoderLayer):
                yield from _evolved_decoder_layer(layer, layer_scope)
            else:
                yield from _layer(layer, layer_scope, feed_forward)
        yield from _norm(part.end, f"{scope}/layer_prepostprocess")
    if isinstance(model, MeanOfEncoder):
        yield from _dense(model.class_projection, "classes")


def _sides(model: Model) -> tuple[str, ...]:
    """Returns the stacks of layers that a model has."""
    if isinstance(model, MeanOfEncoder):
        return ("encoder",)
    return ("encoder", "decoder") if model.has_inputs else ("decoder",)


def _body(model: Model) -> str:
    """Returns the scope of all variables but the embedding matrices and the classes."""
    if isinstance(model, TransformerClassifier):
        return "transformer_encoder/body"
    return f"{snake_case(type(model).__name__)}/body"


def _target_space(body: str) -> str:
    return f"{body}/target_space_embedding/kernel"


def _shards(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[int, str]]:
    """Returns the names of all shards, by embedding matrix and number."""
    shards: dict[str, dict[int, str]] = {}
    for name in arrays:
        if found := _SHARD.fullmatch(name):
            shards.setdefault(found["matrix"], {})[int(found["number"])] = name
    return shards


def _with_joined_shards(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Joins the rows of each embedding matrix in the order of their numbers, 10 after 9.

    Shards that do not form one matrix keep their names.
    """
    joined = dict(arrays)
    for matrix, names in _shards(arrays).items():
        rows = [joined.pop(names[number]) for number in sorted(names)]
        kind = matrix.rpartition("/")[2]
        if kind in joined or len({array.shape[1:] for array in rows}) > 1:
            joined |= {name: arrays[name] for name in names.values()}
        else:
            joined[kind] = np.concatenate(rows)
    return joined


def _flat(array: np.ndarray) -> np.ndarray:
    """Returns an array of three or more axes as a matrix like ours, with the same elements."""
    if array.shape[-1] == 1:  # a depthwise kernel [k, inputs, 1]
        array = array[..., 0]
    return array.reshape(-1, array.shape[-1])


def _whole(variable: keras.Variable, name: str) -> Part:
    return Part(variable, {name: variable.shape[-1]})


def _embeddings(model: Model, body: str) -> Iterator[Part]:
    h, targets, softmax = model.hparams, model.targets_embedding, model.softmax_embedding
    named_shared = h.shared_embedding_and_softmax_weights or h.shared_embedding
    if isinstance(model, MeanOfEncoder):
        yield _whole(model.inputs_embedding.matrix, "shared" if named_shared else "input_emb")
        yield from _of_sources(model, body)
        return
    is_shared = model.inputs_embedding is targets if model.has_inputs else named_shared
    yield _whole(targets.matrix, "shared" if is_shared else "target_emb")
    if model.has_inputs and not is_shared:
        yield _whole(model.inputs_embedding.matrix, "input_emb")
    if softmax is not targets:
        yield _whole(softmax.matrix, "softmax")
    if model.has_inputs:
        yield from _of_sources(model, body)
    yield from _positions(model.decoder.position, f"{body}/targets_positional_embedding")


def _of_sources(model: Model, body: str) -> Iterator[Part]:
    """Yields what is added to the embeddings of a source."""
    if model.encoder.target_space is not None:
        yield _whole(model.encoder.target_space, _target_space(body))
    yield from _positions(model.encoder.position, f"{body}/inputs_positional_embedding")


def _positions(position: Position, name: str) -> Iterator[Part]:
    if position.kind == "emb":
        yield _whole(position.table, name)


def _steps(steps: UniversalSteps, scope: str) -> Iterator[Part]:
    yield _whole(steps.step_signals, f"{scope}{_STEP_SIGNALS}")
    if isinstance(steps, AdaptiveSteps):
        dense = f"{scope}/sigmoid_activation_for_pondering/dense"
        yield _whole(steps.kernel, f"{dense}/kernel")
        yield _whole(steps.halting_bias, f"{dense}/bias")


def _layer(
    layer: EncoderLayer | DecoderLayer, scope: str, feed_forward: tuple[str, str]
) -> Iterator[Part]:
    ffn = layer.feed_forward
    if not isinstance(ffn, FeedForward):
        raise UserError("only models with hparam ffn_layer=dense_relu_dense can be imported")
    if not isinstance(layer.attention, SelfAttention):
        raise UserError(
            "hparam decoder_self=ssru: tensor2tensor has no such layer; set decoder_self=attention"
        )
    yield from _self_attention(layer.attention, f"{scope}/self_attention")
    yield from _residual(layer.attention_residual, f"{scope}/self_attention")
    if isinstance(layer, DecoderLayer) and layer.source_attention is not None:
        yield from _source_attention(layer.source_attention, f"{scope}/encdec_attention")
        yield from _residual(layer.source_residual, f"{scope}/encdec_attention")
    for projection, name in zip((ffn.expand, ffn.contract), feed_forward, strict=True):
        yield from _dense(projection, scope, name)
    yield from _residual(layer.feed_forward_residual, f"{scope}/ffn")


def _evolved_encoder_layer(layer: EvolvedEncoderLayer, scope: str) -> Iterator[Part]:
    gated, branches = f"{scope}/gated_linear_unit", f"{scope}/conv_branches"
    yield from _dense(layer.gated, gated, "dense", "dense_1")
    yield from _residual(layer.gated_residual, gated)
    yield from _dense(layer.wide, branches, "dense")
    yield from _convolution(layer.narrow, f"{branches}/standard_conv_3x1")
    yield from _norm(layer.middle, f"{branches}/layer_prepostprocess_1")
    yield from _convolution(layer.joined, f"{branches}/separable_conv_9x1")
    yield from _residual(layer.branches_residual, branches)
    yield from _self_attention(layer.attention, f"{scope}/self_attention")
    yield from _residual(layer.attention_residual, f"{scope}/self_attention")
    yield from _evolved_feed_forward(layer, f"{scope}/dense_layers")


def _evolved_decoder_layer(layer: EvolvedDecoderLayer, scope: str) -> Iterator[Part]:
    wide, branches = f"{scope}/16_head_self_attention", f"{scope}/conv_branches"
    own, second = f"{scope}/self_attention", f"{scope}/second_attend_to_encoder"
    yield from _self_attention(layer.wide_attention, wide)
    yield from _norm(layer.first, f"{wide}/layer_prepostprocess")
    yield from _source_attention(layer.first_source_attention, f"{scope}/first_attend_to_encoder")
    yield from _convolution(layer.wide, f"{branches}/separable_conv11x1")
    yield from _convolution(layer.narrow, f"{branches}/separable_conv_7x1_1")
    yield from _norm(layer.middle, f"{branches}/layer_prepostprocess_1")
    yield from _convolution(layer.joined, f"{branches}/separable_conv_7x1_2")
    yield from _residual(layer.branches_residual, branches)
    yield from _self_attention(layer.attention, own)
    yield from _residual(layer.attention_residual, own)
    yield from _source_attention(layer.source_attention, second)
    yield from _residual(layer.source_residual, second)
    ffn = f"{scope}/dense_layers"
    yield from _norm(layer.feed_forward.middle, f"{ffn}/layer_prepostprocess_1")
    yield from _evolved_feed_forward(layer, ffn)


def _evolved_feed_forward(layer: EncoderLayer | DecoderLayer, scope: str) -> Iterator[Part]:
    yield from _dense(layer.feed_forward.expand, scope, "dense")
    yield from _dense(layer.feed_forward.contract, scope, "dense_1")
    yield from _residual(layer.feed_forward_residual, scope)


def _self_attention(layer: SelfAttention, scope: str) -> Iterator[Part]:
    heads, keys = f"{scope}/multihead_attention", layer.key_channels
    yield _side_by_side(layer.qkv, heads, q=keys, k=keys, v=layer.value_channels)
    yield _side_by_side(layer.output_projection, heads, output_transform=layer.channels)
    if isinstance(layer, RelativeSelfAttention):
        relative = f"{heads}/dot_product_attention_relative/relative_positions"
        yield _whole(layer.relative_keys, f"{relative}_keys/embeddings")
        yield _whole(layer.relative_values, f"{relative}_values/embeddings")


def _source_attention(layer: EncoderDecoderAttention, scope: str) -> Iterator[Part]:
    heads, keys = f"{scope}/multihead_attention", layer.key_channels
    yield _side_by_side(layer.query, heads, q=keys)
    yield _side_by_side(layer.kv, heads, k=keys, v=layer.value_channels)
    yield _side_by_side(layer.output_projection, heads, output_transform=layer.channels)


def _dense(projection: Projection, scope: str, *names: str) -> Iterator[Part]:
    """Yields kernel and bias of a dense layer, which holds several of T2T's side by side.

    Args:
        projection: the layer.
        scope: T2T's scope of its layers, or of the only one.
        *names: T2T's names in that scope, from the left.
    """
    scopes = [f"{scope}/{name}" for name in names] or [scope]
    widths = dict(zip(scopes, projection.widths, strict=True))
    for variable, kind in ((projection.kernel, "kernel"), (projection.bias, "bias")):
        yield Part(variable, {f"{layer}/{kind}": width for layer, width in widths.items()})


def _convolution(layer: Convolution | SeparableConvolution, scope: str) -> Iterator[Part]:
    """Yields the variables of a convolution; T2T's kernels have an axis more."""
    if isinstance(layer, SeparableConvolution):
        yield _whole(layer.depthwise_kernel, f"{scope}/depthwise_kernel")
        yield _whole(layer.kernel, f"{scope}/pointwise_kernel")
    else:
        yield _whole(layer.kernel, f"{scope}/kernel")
    yield _whole(layer.bias, f"{scope}/bias")


def _side_by_side(projection: Projection, scope: str, **widths: int) -> Part:
    """Returns a kernel that holds several of T2T's side by side, from the left."""
    return Part(projection.kernel, {f"{scope}/{name}/kernel": w for name, w in widths.items()})


def _residual(residual: Residual, scope: str) -> Iterator[Part]:
    yield from _norm(residual.before, f"{scope}/layer_prepostprocess")
    yield from _norm(residual.after, f"{scope}/layer_postprocess")


def _norm(steps: LayerSteps, scope: str) -> Iterator[Part]:
    if "n" in steps.sequence:
        yield _whole(steps.norm.gamma, f"{scope}/layer_norm/layer_norm_scale")
        yield _whole(steps.norm.beta, f"{scope}/layer_norm/layer_norm_bias")
