"""Reads folders of Hugging Face's transformers: MarianMT, M2M100 and NLLB-200.

The names and the computation are those of its modeling_marian.py and modeling_m2m_100.py.
"""

import logging
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_lite.errors import DataError, UsageError, UserError, quoted
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.imports import hugging_face_vocabularies as vocabularies
from t2t_lite.imports import safe_files
from t2t_lite.imports.open_model import OpenModel, Side
from t2t_lite.imports.safe_files import Tensor
from t2t_lite.imports.weights import (
    Part,
    check,
    embedding_parts,
    in_order,
    require_floats,
    transformer_parts,
)
from t2t_lite.json_files import Fields, is_number
from t2t_lite.search.decode_hparams import DecodeHParams

log = logging.getLogger(__name__)

_MARIAN, _M2M = "marian", "m2m_100"
_CONFIG, _GENERATION = "config.json", "generation_config.json"
# Files of weights, the first of which that exists is read, with the function that reads it.
_WEIGHTS = {
    "model.safetensors": safe_files.read_safetensors,
    "pytorch_model.bin": safe_files.read_torch,
}
_INDEX = ".index.json"  # ends the name of the list of a model's shards

_ACTIVATIONS = {
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
_SIZES = ("d_model", "encoder_layers", "decoder_layers", "vocab_size", "max_position_embeddings")
# Sizes that encoder and decoder must share here.
_SHARED_SIZES = ("ffn_dim", "attention_heads")
_POSITIONS = {side: f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
_NOT_READ = tuple(f"{name}s" for name in _POSITIONS.values())  # M2M100 computes them anew
_SHARED, _SOURCE, _TARGET, _SOFTMAX = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
_BIAS = "final_logits_bias"
_MOST_IDS = 1 << 22
_M2M_FIRST_POSITION = 2
_IMPOSSIBLE = -1e4  # a logit whose probability is 0 in every dtype
# Settings of a generation that are read, with transformers' defaults; 0: not set.
_SEARCH = {
    "num_beams": 1,
    "length_penalty": 1.0,
    "max_length": 0,
    "max_new_tokens": 0,
    "no_repeat_ngram_size": 0,
}
_STOPPING = {"True": "true", "never": "never"}  # by `early_stopping`
# Settings of a generation that change its outputs and are not read, with the values that do not.
_NO_EFFECT: Mapping[str, Any] = {
    "diversity_penalty": 0.0,
    "do_sample": False,
    "encoder_no_repeat_ngram_size": 0,
    "exponential_decay_length_penalty": None,
    "force_words_ids": None,
    "min_length": 0,
    "num_beam_groups": 1,
    "repetition_penalty": 1.0,
    "sequence_bias": None,
}


def is_hugging_face(path: pathlib.Path) -> bool:
    """Whether a path is a folder of a Hugging Face model."""
    return (path / _CONFIG).is_file()


def read(folder: pathlib.Path) -> OpenModel:
    """Reads a model in a folder as published.

    Raises:
        UserError: something is missing or damaged, or has no counterpart here.
    """
    if not is_hugging_face(folder):
        raise UserError(f"{folder / _CONFIG} is missing: correct --model_dir, or download it")
    config = Fields(folder / _CONFIG, safe_files.read_json(folder / _CONFIG))
    _check_config(folder, config)
    # Older releases keep the settings of a generation in config.json.
    generation = {**config, **_read_if_there(folder / _GENERATION)}
    tensors = _tensors(folder)
    require_floats(tensors, str(folder))
    source, target, softmax = _embeddings(folder, config, tensors)
    positions = _stored_positions(config, tensors)
    sides, start = _sides(folder, config, generation, tensors, (source, target))
    never_output = _never_output(folder, generation, sides[1].order)
    has_start = start == len(sides[1].order) - 1 and sides[1].order.count(sides[1].order[0]) > 1
    # Without padding, as generations that renormalize probabilities have it.
    excludes_padding = generation.get("renormalize_logits") is True and never_output == [0]
    hparams = _hparams(
        folder,
        config,
        start_id=start,
        softmax_bias=config["model_type"] == _MARIAN or has_start,
        softmax_padding=not excludes_padding,
        suppressed_ids="" if excludes_padding else "+".join(map(str, never_output)),
        shared_embedding_and_softmax_weights=source == target == softmax,
        shared_embedding=source == target and softmax != target,
        **({"pos": "emb"} if positions else {}),
    )
    orders = {softmax: sides[1].order, target: sides[1].order, source: sides[0].order}
    kept = (*orders, *_POSITIONS.values())
    ready = {name: t if name in kept else _in_our_form(t) for name, t in tensors.items()}
    for name, order in orders.items():
        ready[name] = in_order(tensors[name], order, f"{folder}: {name}")
    if hparams.softmax_bias:
        ready[_BIAS] = _bias(tensors, sides[1].order, has_start, folder)
    sizes = (len(sides[0].order), len(sides[1].order))

    def parts() -> Iterator[Part]:
        yield from embedding_parts(hparams, sizes, source, target, softmax, _BIAS)
        yield from transformer_parts(hparams, _Names())
        yield from positions

    check(parts(), ready, str(folder))
    return OpenModel(
        str(folder),
        hparams,
        sides[0].vocabulary,
        sides[1].vocabulary,
        list(parts()),
        ready,
        _decode_hparams(folder, config, generation),
    )


# ---- weights


def _tensors(folder: pathlib.Path) -> dict[str, Tensor]:
    """Returns all tensors of a model by name."""
    for name, read_file in _WEIGHTS.items():
        path, index = folder / name, folder / f"{name}{_INDEX}"
        if path.is_file():
            found = read_file(path)
        elif index.is_file():
            found = {}
            for shard, names in _shards(index).items():
                contents = read_file(shard)
                if missing := sorted(names - contents.keys()):
                    raise DataError(f"{shard} lacks {missing[0]}, which {index} says it has")
                found |= {name: contents[name] for name in names}
        else:
            continue
        return {name: tensor for name, tensor in found.items() if name not in _NOT_READ}
    raise UserError(
        f"{folder} has no weights: expected {' or '.join(_WEIGHTS)}, or the list of their parts "
        f"({_INDEX})"
    )


def _shards(index: pathlib.Path) -> dict[pathlib.Path, set[str]]:
    """Returns the tensors in each of the files that a list of shards names."""
    table = safe_files.read_json(index).get("weight_map")
    if not isinstance(table, dict):
        raise DataError(f"{index}: expected the file of each tensor as 'weight_map'")
    shards: dict[pathlib.Path, set[str]] = {}
    for name, file in table.items():
        if not isinstance(file, str) or pathlib.PurePath(file).name != file or file == "..":
            raise DataError(f"{index}: {quoted(file)} is not the name of a file beside it")
        shards.setdefault(index.with_name(file), set()).add(name)
    for path in shards:
        if not path.is_file():
            raise UserError(f"{path}, a part of the model, is missing: download it")
    return shards


def _embeddings(
    folder: pathlib.Path, config: Mapping[str, Any], tensors: dict[str, Tensor]
) -> tuple[str, str, str]:
    """Returns the names of the matrices of source, target and softmax.

    Matrices with the same values are one: files with all names, as of older releases, hold it
    several times. Names that are not needed are removed.
    """
    tied = config.get("tie_word_embeddings", True) is not False
    candidates = (
        (_SOURCE, _SHARED),
        (_TARGET, _SHARED),
        (_SOFTMAX, *((_TARGET, _SHARED) if tied else ())),
    )
    chosen: list[str] = []
    for names in candidates:
        there = [name for name in names if name in tensors]
        if not there:
            raise DataError(f"{folder}: {names[0]} is missing")
        same = (name for name in chosen if _are_equal(tensors[name], tensors[there[0]]))
        chosen.append(next(same, there[0]))
    for name in (_SOURCE, _TARGET, _SHARED, _SOFTMAX):
        if name not in chosen:
            tensors.pop(name, None)
    source, target, softmax = chosen
    return source, target, softmax


def _stored_positions(config: Fields, tensors: dict[str, Tensor]) -> list[Part]:
    """Returns the parts of MarianMT's positions, if they are not just sinusoids.

    transformers reads those in a file, which may have been rounded to 16 bits. Others are removed.
    """
    size = config["d_model"]
    rows = config["max_position_embeddings"]
    there = {side: tensors[name] for side, name in _POSITIONS.items() if name in tensors}
    if config["model_type"] == _MARIAN and not all(map(_are_sinusoids, there.values())):
        return [
            Part(f"{side}.position.table", (name,), (rows, size))
            for side, name in _POSITIONS.items()
        ]
    for name in _POSITIONS.values():
        tensors.pop(name, None)
    return []


def _are_sinusoids(tensor: Tensor) -> bool:
    """Whether positions are what `pos=timing_paper` computes."""
    if len(tensor.shape) != 2:
        return False
    rows, half = tensor.shape[0], tensor.shape[1] // 2
    angles = np.arange(rows)[:, None] * 10_000.0 ** -(np.arange(half) / max(half, 1))
    expected = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    values = tensor.read()
    return values.shape == expected.shape and bool(np.allclose(values, expected, atol=1e-6, rtol=0))


def _are_equal(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.shape == other.shape and np.array_equal(one.read(), other.read()))


def _in_our_form(tensor: Tensor) -> Tensor:
    """Returns a tensor of PyTorch's, whose matrices are [outputs, inputs], in our form."""
    return tensor.transposed() if len(tensor.shape) == 2 else tensor


def _bias(
    tensors: Mapping[str, Tensor], order: Sequence[int], has_start: bool, folder: pathlib.Path
) -> Tensor:
    """Returns the bias of the logits; the decoder's start is no output."""
    size = max(order) + 1
    bias = tensors.get(_BIAS, Tensor((1, size), "float32", lambda: np.zeros(size, np.float32)))
    if bias.shape != (1, size):
        raise DataError(f"{folder}: {_BIAS} is {list(bias.shape)}, not {[1, size]}")
    arranged = in_order(bias.reshaped(size), order, f"{folder}: {_BIAS}")

    def read() -> np.ndarray:
        values = arranged.read()
        values[-1] = _IMPOSSIBLE
        return values

    return arranged._replace(read=read) if has_start else arranged


# ---- vocabularies


def _sides(
    folder: pathlib.Path,
    config: Fields,
    generation: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    embeddings: Sequence[str],
) -> tuple[list[Side], int]:
    """Returns the vocabularies of source and target, and the id that starts the decoder."""
    for name in embeddings:
        if not tensors[name].shape or tensors[name].shape[0] > _MOST_IDS:
            raise DataError(f"{folder}: {name} is {list(tensors[name].shape)}: expected [V, D]")
    source, target = embeddings
    size = tensors[target].shape[0]
    padding, end, start = (
        _id(folder, settings, f"{name}_token_id", size)
        for settings, name in ((config, "pad"), (config, "eos"), (generation, "decoder_start"))
    )
    if config["model_type"] == _MARIAN:
        sides = vocabularies.marian(folder, padding, end)
    else:
        default = generation.get("forced_bos_token_id")
        sides = vocabularies.m2m100(folder, size, padding, end, default)
    if padding == end:
        raise UserError(f"{folder / _CONFIG}: pad_token_id and eos_token_id are both {end}")
    if start != padding:
        return sides, sides[1].order.index(start)
    if not tensors[target].read()[padding].any():
        return sides, 0  # a zero vector starts ours, too
    # Training further has moved the vector of padding, which is zero here.
    sides[1] = sides[1].with_start(padding)
    if source == target:
        sides[0] = sides[0].with_start(padding)
    return sides, len(sides[1].order) - 1


def _never_output(
    folder: pathlib.Path, generation: Mapping[str, Any], order: Sequence[int]
) -> list[int]:
    """Returns our ids that generations exclude."""
    words, ids = (generation.get(name) or [] for name in ("bad_words_ids", "suppress_tokens"))
    found = []
    for word in [*words, *([id_] for id_ in ids)] if _are_lists(words, ids) else [None]:
        if not isinstance(word, list) or len(word) != 1 or word[0] not in order:
            raise UserError(
                f"{folder}: bad_words_ids or suppress_tokens has {quoted(word)}: expected ids, "
                "one each; sequences have no counterpart here"
            )
        found.append(order.index(word[0]))
    return sorted({*found})


def _are_lists(*values: Any) -> bool:
    return all(isinstance(value, list) for value in values)


# ---- settings


def _read_if_there(path: pathlib.Path) -> dict[str, Any]:
    return safe_files.read_json(path) if path.is_file() else {}


def _check_config(folder: pathlib.Path, config: Fields) -> None:
    """Refuses other kinds of models."""
    path, kind = folder / _CONFIG, config["model_type"]
    if kind not in (_MARIAN, _M2M):
        mixtures = " (mixtures of experts have no counterpart here)" if "moe" in str(kind) else ""
        raise UserError(
            f"{path}: model_type={kind}{mixtures}: only {_MARIAN} (MarianMT, OPUS-MT) and {_M2M} "
            "(M2M100, NLLB-200) can be imported"
        )
    if config.get("quantization_config"):
        raise UserError(f"{path}: quantized models cannot be imported: use the original")
    for name in _SHARED_SIZES:
        sizes = [config[f"{side}_{name}"] for side in ("encoder", "decoder")]
        if sizes[0] != sizes[1]:
            raise UserError(
                f"{path}: encoder_{name}={sizes[0]} and decoder_{name}={sizes[1]}: different ones "
                "have no counterpart here"
            )
    config.check(dict.fromkeys([*_SIZES, *(f"encoder_{name}" for name in _SHARED_SIZES)], int))


def _id(folder: pathlib.Path, settings: Mapping[str, Any], name: str, size: int) -> int:
    """Returns an id among the settings of a folder."""
    value = settings.get(name)
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    if type(value) is not int or not 0 <= value < size:
        raise DataError(
            f"{folder}: {name}={quoted(value)} in its settings: expected one id below {size}"
        )
    return value


def _hparams(folder: pathlib.Path, config: Fields, **others: Any) -> TransformerHParams:
    """Returns the hyperparameters of a model; `others`: those that the config does not tell."""
    path, is_marian = folder / _CONFIG, config["model_type"] == _MARIAN
    activation = _ACTIVATIONS.get(str(config["activation_function"]))
    if activation is None:
        raise UserError(
            f"{path}: activation_function={config['activation_function']} has no counterpart here: "
            f"only {', '.join(_ACTIVATIONS)}"
        )
    if is_marian and config["d_model"] % 2:
        raise UserError(f"{path}: d_model={config['d_model']}: an odd number cannot be imported")
    family: dict[str, Any] = {
        "pos": "timing_paper",
        "layer_preprocess_sequence": "none",
        "layer_postprocess_sequence": "dan",
        "layer_final_sequence": "none",
    }
    if not is_marian:
        family = {
            "pos": "timing",
            "position_offset": _M2M_FIRST_POSITION,
            "layer_preprocess_sequence": "n",
            "layer_postprocess_sequence": "da",
            "layer_final_sequence": "n",
        }
    try:
        return TransformerHParams(
            hidden_size=config["d_model"],
            filter_size=config["encoder_ffn_dim"],
            num_heads=config["encoder_attention_heads"],
            num_encoder_layers=config["encoder_layers"],
            num_decoder_layers=config["decoder_layers"],
            ffn_activation=activation,
            attention_bias=True,
            norm_epsilon=1e-5,
            multiply_embedding_mode="sqrt_depth" if config.get("scale_embedding") else "none",
            max_length=config["max_position_embeddings"],
            **{**family, **others},
        )
    except UsageError as error:
        raise DataError(f"{path}: {error}") from error


def _decode_hparams(folder: pathlib.Path, config: Fields, generation: Mapping[str, Any]) -> str:
    """Returns the search with which a model is published."""
    for name, value in _NO_EFFECT.items():
        if generation.get(name, value) not in (value, None):
            log.warning(
                "%s: %s=%r has no counterpart here: outputs may differ",
                *(folder, name, generation[name]),
            )
    given = {name: generation.get(name) for name in _SEARCH}
    read = {name: _SEARCH[name] if value is None else value for name, value in given.items()}
    if not all(map(is_number, read.values())):
        raise DataError(f"{folder}: the settings of generations: expected numbers, got {read}")
    # The start of the decoder counts.
    longest = read["max_new_tokens"] or read["max_length"] - 1
    if longest < 1:
        longest = config["max_position_embeddings"] - 1
    changes = {
        "beam_size": read["num_beams"],
        "alpha": read["length_penalty"],
        "length_penalty": "average",
        "stopping": _STOPPING.get(str(generation.get("early_stopping")), "false"),
        "length_factor": 0,
        "extra_length": longest,
        "no_repeat_ngram_size": read["no_repeat_ngram_size"],
    }
    text = ",".join(f"{name}={value}" for name, value in changes.items())
    try:
        DecodeHParams().override(text)
    except UsageError as error:
        raise DataError(f"{folder}: the settings of generations: {error}") from error
    return text


class _Names:
    """The names of transformers, see `weights.Names`."""

    def attention(self, side: str, layer: int, block: str, part: str, kind: str) -> str:
        block = {"self": "self_attn", "source": "encoder_attn"}[block]
        part = "out" if part == "o" else part
        return f"model.{side}.layers.{layer}.{block}.{part}_proj.{_KINDS[kind]}"

    def feed_forward(self, side: str, layer: int, part: str, kind: str) -> str:
        number = 1 if part == "expand" else 2
        return f"model.{side}.layers.{layer}.fc{number}.{_KINDS[kind]}"

    def norm(self, side: str, layer: int, block: str, place: str, kind: str) -> str:
        block = {"self": "self_attn", "source": "encoder_attn", "ffn": "final"}[block]
        return f"model.{side}.layers.{layer}.{block}_layer_norm.{_KINDS[kind]}"

    def end(self, side: str, kind: str) -> str:
        return f"model.{side}.layer_norm.{_KINDS[kind]}"


_KINDS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
