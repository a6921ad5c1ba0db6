"""Reads the settings of Hugging Face's MarianMT, Pegasus, M2M100 and NLLB-200."""

import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.errors import DataError, UsageError, UserError, quoted
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.imports import safe_files
from t2t_lite.interop.imports.hugging_face_keys import CONFIG as CONFIG_KEYS
from t2t_lite.interop.imports.hugging_face_keys import GENERATION
from t2t_lite.interop.layouts.hugging_face import (
    ACTIVATIONS,
    FAMILIES,
    M2M100,
    MARIAN,
    PEGASUS,
    SIZES,
    scaling,
)
from t2t_lite.json_files import Fields, is_number
from t2t_lite.search.decode_hparams import LONGEST, DecodeHParams

log = logging.getLogger(__name__)

CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"

# What t2t-exporter notes of other models: transformers always takes EPSILON, and ignores the key.
NORM_EPSILON, EPSILON = "t2t_lite_norm_epsilon", 1e-5
# What transformers takes where config.json lacks it.
_USUAL = {
    "d_model": 1024,
    "max_position_embeddings": 1024,
    **{f"{side}_layers": 12 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 4096 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 16 for side in ("encoder", "decoder")},
}
_SIZES = ("d_model", "encoder_layers", "decoder_layers", "vocab_size", "max_position_embeddings")
# Sizes that encoder and decoder must share here.
_SHARED_SIZES = ("ffn_dim", "attention_heads")
# Settings of a generation that are read, with transformers' defaults; 0: not set.
_SEARCH = {
    "num_beams": 1,
    "length_penalty": 1.0,
    "max_length": 0,
    "max_new_tokens": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "no_repeat_ngram_size": 0,
}
_MOST_ENDS = 100  # ids that may end an output
_END = "eos_token_id"
_IDS = ("decoder_start_token_id", _END)  # of config.json, if generations lack them
_STOPPING = {"True": "true", "never": "never"}  # by `early_stopping`
_SWITCHES = ("scale_embedding", "tie_word_embeddings", "share_encoder_decoder_embeddings")


def read_settings(folder: pathlib.Path) -> tuple[Fields, dict[str, Any]]:
    """Returns the settings of a model, and those of its generations.

    Raises:
        UserError: a file is missing or damaged, or the model is of another kind.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise UserError(f"{path} is missing: correct --model_dir, or download it")
    read = Fields(path, safe_files.read_json(path))
    family = FAMILIES.get(str(read["model_type"]))
    usual = {**_USUAL, "activation_function": family.activation} if family else {}
    config = Fields(path, {**usual, **read})
    _check_config(folder, config)
    own = folder / GENERATION_CONFIG
    others = {name: value for name, value in config.items() if not GENERATION.covers(name)}
    CONFIG_KEYS.require(str(path), others)
    if not own.is_file():  # older releases keep the settings of a generation in config.json
        generation = {name: value for name, value in config.items() if name not in others}
        GENERATION.require(str(path), generation)
        return config, generation
    generation = safe_files.read_json(own)
    GENERATION.require(str(own), generation)
    return config, {**generation, **_ids_of_config(own, config, generation)}


def _ids_of_config(
    path: pathlib.Path, config: Fields, generation: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the ids that the settings of generations in a file lack, if the config has them."""
    ids = {name: config.get(name) for name in _IDS if generation.get(name) is None}
    if ids.get(_END) is not None:
        log.warning(
            "%s has no %s: outputs end with that of %s, %s; in transformers they would go on until "
            "max_length",
            path,
            _END,
            CONFIG,
            quoted(ids[_END]),
        )
    return ids


def _check_config(folder: pathlib.Path, config: Fields) -> None:
    """Refuses other kinds of models."""
    path, kind = folder / CONFIG, config["model_type"]
    if not isinstance(kind, str) or kind not in FAMILIES:
        mixtures = " (mixtures of experts have no counterpart here)" if "moe" in str(kind) else ""
        raise UserError(
            f"{path}: model_type={quoted(kind)}{mixtures}: only {MARIAN} (MarianMT, OPUS-MT), "
            f"{M2M100} (M2M100, NLLB-200) and {PEGASUS} (as t2t-exporter writes it) can be imported"
        )
    if config.get("quantization_config"):
        raise UserError(f"{path}: quantized models cannot be imported: use the original")
    for name in _SHARED_SIZES:
        sizes = [config[f"{side}_{name}"] for side in ("encoder", "decoder")]
        if sizes[0] != sizes[1]:
            raise UserError(
                f"{path}: encoder_{name}={quoted(sizes[0])} and decoder_{name}={quoted(sizes[1])}: "
                "different ones have no counterpart here"
            )
    config.check(dict.fromkeys([*_SIZES, *(f"encoder_{name}" for name in _SHARED_SIZES)], int))
    if not is_number(config.get(NORM_EPSILON, EPSILON)):
        raise DataError(f"{path}: {NORM_EPSILON}={quoted(config[NORM_EPSILON])}: expected a number")
    for name in _SWITCHES:
        if not isinstance(config.get(name), bool | None):
            raise DataError(f"{path}: {name}={quoted(config[name])}: expected true or false")


def check_sizes(folder: pathlib.Path, config: Fields, rows: Sequence[int]) -> None:
    """Checks that the embeddings of source and target have as many rows as the config says.

    Raises:
        DataError: they have another number.
    """
    size = config["vocab_size"]
    of_target = config.get("decoder_vocab_size")
    of_target = (
        size if of_target is None or not FAMILIES[config["model_type"]].can_split else of_target
    )
    if [*rows] != [size, of_target]:
        raise DataError(
            f"{folder / CONFIG}: the vocabularies of source and target have {size} and "
            f"{quoted(of_target)} ids, and the embeddings {rows[0]} and {rows[1]} rows: the files "
            "are of different models"
        )


def find_id(folder: pathlib.Path, settings: Mapping[str, Any], name: str, size: int) -> int:
    """Returns an id among the settings of a folder.

    Raises:
        DataError: it is missing, not a number, or too large.
    """
    ids = find_ids(folder, settings, name, size)
    if len(ids) != 1:
        raise DataError(
            f"{folder}: {name}={quoted(settings.get(name))} in its settings: expected one id below "
            f"{size}"
        )
    return ids[0]


def find_ids(folder: pathlib.Path, settings: Mapping[str, Any], name: str, size: int) -> list[int]:
    """Returns different ids among the settings of a folder: one alone, or a list.

    Raises:
        DataError: one is missing, not a number, or too large.
    """
    value = settings.get(name)
    ids = value if isinstance(value, list) and value else [value]
    if not all(type(id_) is int and 0 <= id_ < size for id_ in ids) or len(ids) > _MOST_ENDS:
        raise DataError(
            f"{folder}: {name}={quoted(value)} in its settings: expected one id below {size}"
        )
    return [*dict.fromkeys(ids)]


def find_hparams(folder: pathlib.Path, config: Fields, **others: Any) -> TransformerHParams:
    """Returns the hyperparameters of a model; `others`: those that the config does not tell.

    Raises:
        UserError: the model has no counterpart here.
        DataError: the config is damaged.
    """
    path, family = folder / CONFIG, FAMILIES[config["model_type"]]
    named = config["activation_function"]
    activation = ACTIVATIONS.get(str(named))
    if activation is None:
        raise UserError(
            f"{path}: activation_function={quoted(named)} has no counterpart here: only "
            f"{', '.join(ACTIVATIONS)}"
        )
    if family.has_table and config["d_model"] % 2:
        raise UserError(f"{path}: d_model={config['d_model']}: an odd number cannot be imported")
    found: dict[str, Any] = {hparam: config[name] for name, hparam in SIZES.items()}
    if config["model_type"] == M2M100:
        found["position_offset"] = config.get("pad_token_id", 1) + 1
    try:
        return TransformerHParams(
            **found,
            ffn_activation=activation,
            attention_bias=True,
            norm_epsilon=config.get(NORM_EPSILON, EPSILON),
            multiply_embedding_mode=scaling(config.get("scale_embedding", family.is_scaled)),
            max_length=config["max_position_embeddings"],
            **{**family.hparams, **others},
        )
    except UsageError as error:
        raise DataError(f"{path}: {error}") from error


def decode_hparams(
    folder: pathlib.Path, config: Fields, generation: Mapping[str, Any], starts: int
) -> str:
    """Returns the search with which a model is published.

    Args:
        folder: of the model.
        config: its settings.
        generation: those of its generations.
        starts: tokens with which outputs begin and that `min_length` counts.

    Raises:
        UserError: a setting has no counterpart here.
        DataError: a setting is damaged.
    """
    forced, ends = (
        value if isinstance(value, list) else [value]
        for value in (generation.get("forced_eos_token_id"), generation.get("eos_token_id"))
    )
    if forced != [None] and not {*map(str, forced)} <= {*map(str, ends)}:
        raise UserError(
            f"{folder}: forced_eos_token_id={quoted(generation['forced_eos_token_id'])} has no "
            f"counterpart here (only {quoted(generation.get('eos_token_id'))}, the eos_token_id): "
            "remove it from generation_config.json; outputs may then differ"
        )
    early = generation.get("early_stopping")
    if early not in (None, True, False, "never"):
        raise DataError(
            f'{folder}: early_stopping={quoted(early)}: expected true, false or "never"'
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
        # The start of the decoder counts here, too.
        "min_length": max(read["min_new_tokens"] or read["min_length"] - 1, starts) - starts,
        "end_at_limit": str(forced != [None]).lower(),
    }
    text = ",".join(f"{name}={value}" for name, value in changes.items())
    try:
        DecodeHParams().override(text)
    except UsageError as error:
        raise DataError(f"{folder}: the settings of generations: {error}") from error
    return text


def never_output(
    folder: pathlib.Path, generation: Mapping[str, Any], order: Sequence[int], ends: Sequence[int]
) -> list[int]:
    """Returns our ids that generations exclude.

    Args:
        folder: of the model.
        generation: the settings of its generations.
        order: its ids, by ours.
        ends: its ids that end an output, which transformers does not count as bad words.

    Raises:
        UserError: sequences of ids are excluded, which has no counterpart here.
    """
    words, ids = (generation.get(name) or [] for name in ("bad_words_ids", "suppress_tokens"))
    if isinstance(words, list):
        words = [word for word in words if word not in [[end] for end in ends]]
    ours = {id_: our_id for our_id, id_ in reversed([*enumerate(order)])}  # the first of equal ones
    found = []
    for word in [*words, *([id_] for id_ in ids)] if _are_lists(words, ids) else [None]:
        id_ = word[0] if isinstance(word, list) and len(word) == 1 else None
        if type(id_) is not int or id_ not in ours:
            raise UserError(
                f"{folder}: bad_words_ids or suppress_tokens has {quoted(word)}: expected ids, "
                "one each; sequences have no counterpart here"
            )
        found.append(ours[id_])
    return sorted({*found})


def _are_lists(*values: Any) -> bool:
    return all(isinstance(value, list) for value in values)
