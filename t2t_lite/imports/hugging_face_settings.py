"""Reads the settings of Hugging Face's MarianMT, M2M100 and NLLB-200."""

import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.errors import DataError, UsageError, UserError, quoted
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.imports import safe_files
from t2t_lite.json_files import Fields, is_number
from t2t_lite.search.decode_hparams import LONGEST, DecodeHParams

log = logging.getLogger(__name__)

MARIAN, _M2M = "marian", "m2m_100"
CONFIG, _GENERATION = "config.json", "generation_config.json"

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
_M2M_FIRST_POSITION = 2
# Settings of a generation that are read, with transformers' defaults; 0: not set.
_SEARCH = {
    "num_beams": 1,
    "length_penalty": 1.0,
    "max_length": 0,
    "max_new_tokens": 0,
    "no_repeat_ngram_size": 0,
}
_IDS = ("decoder_start_token_id", "eos_token_id")  # of generations, if these lack them
_STOPPING = {"True": "true", "never": "never"}  # by `early_stopping`
# Settings of a generation that change its outputs and are not read, with the values that do not.
_NO_EFFECT: Mapping[str, Any] = {
    "begin_suppress_tokens": [],
    "diversity_penalty": 0.0,
    "do_sample": False,
    "encoder_no_repeat_ngram_size": 0,
    "exponential_decay_length_penalty": None,
    "force_words_ids": None,
    "min_length": 0,
    "min_new_tokens": 0,
    "num_beam_groups": 1,
    "repetition_penalty": 1.0,
    "sequence_bias": None,
}


def read_settings(folder: pathlib.Path) -> tuple[Fields, dict[str, Any]]:
    """Returns the settings of a model, and those of its generations.

    Raises:
        UserError: a file is missing or damaged, or the model is of another kind.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise UserError(f"{path} is missing: correct --model_dir, or download it")
    config = Fields(path, safe_files.read_json(path))
    _check_config(folder, config)
    own = folder / _GENERATION
    if not own.is_file():  # older releases keep the settings of a generation in config.json
        return config, dict(config)
    ids = {name: config[name] for name in _IDS if name in config}
    return config, {**ids, **safe_files.read_json(own)}


def _check_config(folder: pathlib.Path, config: Fields) -> None:
    """Refuses other kinds of models."""
    path, kind = folder / CONFIG, config["model_type"]
    if kind not in (MARIAN, _M2M):
        mixtures = " (mixtures of experts have no counterpart here)" if "moe" in str(kind) else ""
        raise UserError(
            f"{path}: model_type={kind}{mixtures}: only {MARIAN} (MarianMT, OPUS-MT) and {_M2M} "
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


def find_id(folder: pathlib.Path, settings: Mapping[str, Any], name: str, size: int) -> int:
    """Returns an id among the settings of a folder."""
    value = settings.get(name)
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    if type(value) is not int or not 0 <= value < size:
        raise DataError(
            f"{folder}: {name}={quoted(value)} in its settings: expected one id below {size}"
        )
    return value


def find_hparams(folder: pathlib.Path, config: Fields, **others: Any) -> TransformerHParams:
    """Returns the hyperparameters of a model; `others`: those that the config does not tell."""
    path, is_marian = folder / CONFIG, config["model_type"] == MARIAN
    activation = _ACTIVATIONS.get(str(config["activation_function"]))
    if activation is None:
        raise UserError(
            f"{path}: activation_function={config['activation_function']} has no counterpart here: "
            f"only {', '.join(_ACTIVATIONS)}"
        )
    if is_marian and config["d_model"] % 2:
        raise UserError(f"{path}: d_model={config['d_model']}: an odd number cannot be imported")
    is_scaled = config.get("scale_embedding", not is_marian)
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
            multiply_embedding_mode="sqrt_depth" if is_scaled else "none",
            max_length=config["max_position_embeddings"],
            **{**family, **others},
        )
    except UsageError as error:
        raise DataError(f"{path}: {error}") from error


def decode_hparams(folder: pathlib.Path, config: Fields, generation: Mapping[str, Any]) -> str:
    """Returns the search with which a model is published."""
    # EOS at the limit ends what ends there anyway.
    no_effect = {**_NO_EFFECT, "forced_eos_token_id": generation.get("eos_token_id")}
    if config["model_type"] == MARIAN:
        no_effect["forced_bos_token_id"] = None  # elsewhere the language
    for name, value in no_effect.items():
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
        "extra_length": min(longest, LONGEST),
        "no_repeat_ngram_size": read["no_repeat_ngram_size"],
    }
    text = ",".join(f"{name}={value}" for name, value in changes.items())
    try:
        DecodeHParams().override(text)
    except UsageError as error:
        raise DataError(f"{folder}: the settings of generations: {error}") from error
    return text


def never_output(
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
