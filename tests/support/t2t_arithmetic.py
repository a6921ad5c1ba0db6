"""T2T's models of one stack in NumPy: variables by T2T's names and shapes, and their logits.

These are the language models `attention_lm` (models/research/attention_lm.py) and `transformer` on
a problem without inputs (models/transformer.py), and the classifier `transformer_encoder` and the
regressor `transformer_regressor` (there); with sinusoids, and attention as dot products.
"""

from collections.abc import Callable, Mapping

import numpy as np

from t2t_lite.hparams.transformer import TransformerHParams

# The layers of the network after attention: dense ones, or convolutions of width 1.
_FEED_FORWARD = {
    "transformer": ("conv1", "conv2"),
    "attention_lm": ("conv_hidden_relu/conv1_single", "conv_hidden_relu/conv2_single"),
    "transformer_encoder": ("conv1", "conv2"),
    "transformer_regressor": ("conv1", "conv2"),
}
_STACK = {
    "transformer": "decoder",
    "attention_lm": "decoder",
    "transformer_encoder": "encoder",
    "transformer_regressor": "encoder",
}
_SPACES = 32  # rows of the target-space embedding


def draw_variables(
    model: str, h: TransformerHParams, vocab_size: int, shards: int = 1, classes: int = 0
) -> dict[str, np.ndarray]:
    """Returns random values for all variables of a model.

    Args:
        model: one of those above.
        h: its hparams.
        vocab_size: V.
        shards: T2T's `symbol_modality_num_shards`.
        classes: number of classes of `transformer_encoder`; 1 for `transformer_regressor`.
    """
    channels, wide = h.hidden_size, h.filter_size
    shapes: dict[str, tuple[int, ...]] = {}
    for kind in dict.fromkeys(_matrices(model, h)):
        for shard in range(shards):
            rows = vocab_size // shards + (shard < vocab_size % shards)
            name = f"{model}/symbol_modality_{vocab_size}_{channels}/{kind}/weights_{shard}"
            shapes[name] = (rows, channels)
    axes = (1, 1) if model == "attention_lm" else ()
    for number in range(h.num_hidden_layers):
        layer = f"{model}/body/{_STACK[model]}/layer_{number}"
        for name in ("q", "k", "v", "output_transform"):
            name = f"{layer}/self_attention/multihead_attention/{name}/kernel"
            shapes[name] = (channels, channels)
        sizes = ((channels, wide), (wide, channels))
        for name, size in zip(_FEED_FORWARD[model], sizes, strict=True):
            shapes[f"{layer}/ffn/{name}/kernel"] = (*axes, *size)
            shapes[f"{layer}/ffn/{name}/bias"] = size[1:]
    for norm in _norms(model, h):
        shapes[f"{norm}/layer_norm_scale"] = shapes[f"{norm}/layer_norm_bias"] = (channels,)
    if classes:
        shapes[f"{model}/body/target_space_embedding/kernel"] = (_SPACES, channels)
        dense = f"{model}/{2 * f'class_label_modality_{classes}_{channels}/'}dense"
        if model == "transformer_regressor":
            dense = f"{model}/reg_top_ffn/model_top"
        shapes |= {f"{dense}/kernel": (channels, classes), f"{dense}/bias": (classes,)}
    draw = np.random.RandomState(3)
    found = {}
    for name, shape in shapes.items():
        # T2T's standard deviation for embeddings; kernels have more, so that layers matter.
        scale = 1.5 / shape[-2] ** 0.5 if name.endswith("kernel") else channels**-0.5
        found[name] = np.float32(draw.normal(size=shape, scale=scale) + name.endswith("scale"))
    return found


def logits(
    model: str, h: TransformerHParams, arrays: Mapping[str, np.ndarray], targets: np.ndarray
) -> np.ndarray:
    """Returns the logits [B, T, V] of `targets` [B, T], in float64, using each variable once."""
    left = {name: np.float64(array) for name, array in arrays.items()}
    matrices = {kind: _take_matrix(left, kind) for kind in dict.fromkeys(_matrices(model, h))}
    embedding, softmax = (matrices[kind] for kind in _matrices(model, h))
    x = _embedded(h, embedding, targets)
    x = np.pad(x, [(0, 0), (1, 0), (0, 0)])[:, :-1] + _timing(*x.shape[1:])
    x = _run_stack(model, h, left, x)
    assert not left
    return x @ softmax.T


def class_logits(
    h: TransformerHParams,
    arrays: Mapping[str, np.ndarray],
    inputs: np.ndarray,
    space: int,
    model: str = "transformer_encoder",
) -> np.ndarray:
    """Returns `transformer_encoder`'s logits [B, classes] of `inputs` [B, S], without padding.

    Args:
        h: the hparams.
        arrays: the variables; each is used once.
        inputs: ids.
        space: T2T's id of the target space.
        model: or `transformer_regressor`, whose numbers [B, 1] these are.
    """
    left = {name: np.float64(array) for name, array in arrays.items()}
    (kind,) = _matrices(model, h)
    x = _embedded(h, _take_matrix(left, kind), inputs)
    x = x + left.pop(f"{model}/body/target_space_embedding/kernel")[space]
    x = _run_stack(model, h, left, x + _timing(*x.shape[1:]))
    (dense,) = (name.removesuffix("kernel") for name in left if name.endswith("/kernel"))
    found = x.mean(axis=1) @ left.pop(f"{dense}kernel") + left.pop(f"{dense}bias")
    assert not left
    return found


def _embedded(h: TransformerHParams, embedding: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Returns the embeddings [B, N, D] of `ids` [B, N]; padding has zeros, as in T2T."""
    return embedding[ids] * h.hidden_size**0.5 * (ids != 0)[..., None]


def _run_stack(
    model: str, h: TransformerHParams, left: dict[str, np.ndarray], x: np.ndarray
) -> np.ndarray:
    """Maps `x` [B, N, D] to the outputs of the last layer, taking the variables of all."""
    norms = iter([_take_norm(left, scope) for scope in _norms(model, h)])
    pre_norm = h.layer_preprocess_sequence == "n"
    causal = _STACK[model] == "decoder"

    def sublayer(x: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        norm = next(norms)
        return x + function(norm(x)) if pre_norm else norm(x + function(x))

    for number in range(h.num_hidden_layers):
        layer = f"{model}/body/{_STACK[model]}/layer_{number}"
        x = sublayer(x, _take_attention(left, f"{layer}/self_attention", h.num_heads, causal))
        x = sublayer(x, _take_network(left, [f"{layer}/ffn/{n}" for n in _FEED_FORWARD[model]]))
    return next(norms)(x) if pre_norm else x


def log_probs(
    model: str, h: TransformerHParams, arrays: Mapping[str, np.ndarray], ids: list[int]
) -> np.ndarray:
    """Returns the log-probabilities [T, V] of every id at each place of one text."""
    row = logits(model, h, arrays, np.array([ids]))[0]
    return row - np.log(np.exp(row).sum(-1, keepdims=True))


def _matrices(model: str, h: TransformerHParams) -> tuple[str, ...]:
    """Returns T2T's names of the embedding and of the softmax matrix (layers/modalities.py)."""
    if _STACK[model] == "encoder":
        is_shared = h.shared_embedding_and_softmax_weights or h.shared_embedding
        return ("shared" if is_shared else "input_emb",)
    if h.shared_embedding_and_softmax_weights:
        return "shared", "shared"
    return "shared" if h.shared_embedding else "target_emb", "softmax"


def _norms(model: str, h: TransformerHParams) -> list[str]:
    """Returns the scopes of all layer normalisations, in the order of the calculation."""
    pre_norm = h.layer_preprocess_sequence == "n"
    end = "layer_prepostprocess" if pre_norm else "layer_postprocess"
    stack = f"{model}/body/{_STACK[model]}"
    layers = range(h.num_hidden_layers)
    scopes = [f"{stack}/layer_{i}/{part}" for i in layers for part in ("self_attention", "ffn")]
    return [f"{scope}/{end}/layer_norm" for scope in scopes + [stack] * pre_norm]


def _take_matrix(left: dict[str, np.ndarray], kind: str) -> np.ndarray:
    """Joins the shards of a matrix."""
    names = [name for name in left if f"/{kind}/weights_" in name]
    names.sort(key=lambda name: int(name.rpartition("_")[2]))
    return np.concatenate([left.pop(name) for name in names])


def _timing(length: int, channels: int) -> np.ndarray:
    rates = np.exp(-np.log(1e4) / (channels // 2 - 1) * np.arange(channels // 2))
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _take_norm(left: dict[str, np.ndarray], scope: str) -> Callable[[np.ndarray], np.ndarray]:
    gamma, beta = (left.pop(f"{scope}/layer_norm_{name}") for name in ("scale", "bias"))

    def norm(x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * gamma + beta

    return norm


def _take_attention(
    left: dict[str, np.ndarray], scope: str, heads: int, causal: bool
) -> Callable[[np.ndarray], np.ndarray]:
    """Self-attention; `causal`: to this and earlier positions alone."""
    names = ("q", "k", "v", "output_transform")
    *projections, out = (left.pop(f"{scope}/multihead_attention/{name}/kernel") for name in names)

    def attend(x: np.ndarray) -> np.ndarray:
        results = []
        parts = [np.split(x @ kernel, heads, axis=-1) for kernel in projections]
        for q, k, v in zip(*parts, strict=True):
            weights = q @ np.swapaxes(k, 1, 2) / q.shape[-1] ** 0.5  # [B, T, T]
            if causal:
                weights = np.where(np.tri(x.shape[1], dtype=bool), weights, -1e9)
            shares = np.exp(weights - weights.max(-1, keepdims=True))
            results.append(shares / shares.sum(-1, keepdims=True) @ v)
        return np.concatenate(results, axis=-1) @ out

    return attend


def _take_network(
    left: dict[str, np.ndarray], scopes: list[str]
) -> Callable[[np.ndarray], np.ndarray]:
    kernels = [left.pop(f"{scope}/kernel") for scope in scopes]
    up, down = (kernel.reshape(kernel.shape[-2:]) for kernel in kernels)
    up_bias, bias = (left.pop(f"{scope}/bias") for scope in scopes)
    return lambda x: np.maximum(x @ up + up_bias, 0) @ down + bias
