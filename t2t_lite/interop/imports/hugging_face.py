"""Reads folders of Hugging Face's transformers: MarianMT, Pegasus, M2M100, SMaLL-100, NLLB-200."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from t2t_lite.errors import DataError, UserError, quoted
from t2t_lite.interop.imports import hugging_face_keys as keys
from t2t_lite.interop.imports import hugging_face_settings as settings
from t2t_lite.interop.imports import hugging_face_vocabularies as vocabularies
from t2t_lite.interop.imports import safe_files
from t2t_lite.interop.imports.hugging_face_tokens import Tokenizer, read_tokenizer
from t2t_lite.interop.imports.open_model import OpenModel, Side
from t2t_lite.interop.imports.safe_files import Tensor
from t2t_lite.interop.imports.weights import check, in_order, require_floats
from t2t_lite.interop.layouts.hugging_face import (
    BIAS,
    FAMILIES,
    IMPOSSIBLE,
    M2M100,
    POSITIONS,
    SHARED,
    SOFTMAX,
    SOURCE,
    TARGET,
    HuggingFaceNames,
)
from t2t_lite.interop.layouts.parts import Part, embedding_parts, transformer_parts
from t2t_lite.json_files import Fields
from t2t_lite.layers.transformer_layers import sinusoids
from t2t_lite.text.text_encoder import EOS_ID

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first of them that exists is read
_INDEX = ".index.json"  # ends the name of the list of a model's shards

_NOT_READ = tuple(f"{name}s" for name in POSITIONS.values())  # M2M100 computes them anew
_MOST_IDS = 1 << 22
# Settings of a generation by which tokens are excluded for a step.
_EXCLUDING = ("min_length", "min_new_tokens", "no_repeat_ngram_size")


def is_hugging_face(path: pathlib.Path) -> bool:
    """Whether a path is a folder of a Hugging Face model."""
    return (path / settings.CONFIG).is_file()


def read(folder: pathlib.Path) -> OpenModel:
    """Reads a model in a folder as published.

    Raises:
        UserError: something is missing or damaged, or has no counterpart here.
    """
    config, generation = settings.read_settings(folder)
    tokenizer = read_tokenizer(folder, config["model_type"])
    files = _weight_files(folder)
    _check_files(folder, files)
    tensors = _tensors(files)
    require_floats(tensors, str(folder))
    source, target, softmax = _embeddings(folder, config, tensors)
    kinds, positions = _stored_positions(config, tensors)
    sides, start, ends = _sides(folder, config, generation, tokenizer, tensors, (source, target))
    order = sides[1].order
    has_start = start == len(order) - 1 and order.count(order[0]) > 1
    has_padding, suppressed = _excluded(folder, generation, order, ends)
    hparams = settings.find_hparams(
        folder,
        config,
        start_id=start,
        softmax_bias=FAMILIES[config["model_type"]].has_table or has_start,
        softmax_padding=has_padding,
        suppressed_ids="+".join(map(str, suppressed)),
        end_ids="+".join(map(str, ends)),
        shared_embedding_and_softmax_weights=source == target == softmax,
        shared_embedding=source == target and softmax != target,
        shared_target_and_softmax_weights=source != target and softmax == target,
        **kinds,
    )
    orders = {softmax: order, target: order, source: sides[0].order}
    kept = (*orders, *POSITIONS.values())
    ready = {name: t if name in kept else _in_our_form(t) for name, t in tensors.items()}
    for name, ids in orders.items():
        ready[name] = in_order(tensors[name], ids, f"{folder}: {name}")
    if hparams.softmax_bias:
        ready[BIAS] = _bias(tensors, order, has_start, folder)
    sizes = (len(sides[0].order), len(order))

    def parts() -> Iterator[Part]:
        yield from embedding_parts(hparams, sizes, source, target, softmax, BIAS)
        yield from transformer_parts(hparams, HuggingFaceNames())
        yield from positions

    check(parts(), ready, str(folder))
    return OpenModel(
        str(folder),
        hparams,
        sides[0].vocabulary,
        sides[1].vocabulary,
        list(parts()),
        ready,
        settings.decode_hparams(
            folder, config, generation, starts=int(bool(sides[1].vocabulary.languages))
        ),
    )


def _excluded(
    folder: pathlib.Path, generation: dict[str, Any], order: Sequence[int], ends: Sequence[int]
) -> tuple[bool, list[int]]:
    """Returns whether the softmax has padding, and our ids that outputs never have.

    Args:
        folder: of the model.
        generation: the settings of its generations.
        order: its ids, by ours.
        ends: our ids that end an output, without EOS.
    """
    never_output = settings.never_output(
        folder, generation, order, [order[id_] for id_ in (EOS_ID, *ends)]
    )
    if generation.get("renormalize_logits") is not True:
        return True, never_output
    others = [name for name in _EXCLUDING if generation.get(name)]
    if others or never_output not in ([], [0]):
        raise UserError(
            f"{folder}: renormalize_logits=True has no counterpart here if generations exclude "
            f"more than padding ({', '.join(others) or 'bad_words_ids or suppress_tokens'}): set "
            "it to false in generation_config.json; outputs may then differ"
        )
    # Renormalized without padding, probabilities are those of a softmax that lacks it.
    return not never_output, []


def _check_files(folder: pathlib.Path, weights: Iterable[pathlib.Path]) -> None:
    """Refuses a folder with a file that may change the model, and is not read.

    Args:
        folder: of the model.
        weights: the files of its weights.
    """
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        raise UserError(
            f"{adapter}: adapters such as LoRA's cannot be imported: merge it into the model "
            "(PeftModel.merge_and_unload, then save_pretrained), or move the adapter's files away "
            "to import the model without it"
        )
    others = {path for path in folder.iterdir() if not path.is_dir()}.difference(weights)
    names = sorted(path.name for path in others)
    for name in names:
        if name.endswith(".py") and not keys.FILES.knows(name):
            raise UserError(
                f"{folder / name}: the model has code of its own, which is never run: move the "
                "file away if the model computes as transformers does without it"
            )
    keys.FILES.require_files(str(folder), names)


# ---- weights


def _weight_files(folder: pathlib.Path) -> dict[pathlib.Path, set[str]]:
    """Returns the files with a model's weights, and the tensors that each must have."""
    for name in _WEIGHTS:
        path, index = folder / name, folder / f"{name}{_INDEX}"
        if path.is_file():
            return {path: set()}
        if index.is_file():
            return _shards(index)
    raise UserError(
        f"{folder} has no weights: expected {' or '.join(_WEIGHTS)}, or the list of their parts "
        f"({_INDEX})"
    )


def _tensors(files: Mapping[pathlib.Path, set[str]]) -> dict[str, Tensor]:
    """Returns all tensors of a model by name.

    Args:
        files: as `_weight_files` returns them.
    """
    found: dict[str, Tensor] = {}
    for path, names in files.items():
        is_torch = path.suffix == ".bin"
        contents = safe_files.read_torch(path) if is_torch else safe_files.read_safetensors(path)
        if missing := sorted(names - contents.keys()):
            raise DataError(f"{path} lacks {missing[0]}, which the list of parts says it has")
        found |= {name: contents[name] for name in names or contents}
    return {name: tensor for name, tensor in found.items() if name not in _NOT_READ}


def _shards(index: pathlib.Path) -> dict[pathlib.Path, set[str]]:
    """Returns the tensors in each of the files that a list of shards names."""
    table = safe_files.read_json(index).get("weight_map")
    if not isinstance(table, dict):
        raise DataError(f"{index}: expected the file of each tensor as 'weight_map'")
    shards: dict[pathlib.Path, set[str]] = {}
    for name, file in table.items():
        if not safe_files.is_name(file):
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
    several times. Files with one name, whichever it is, leave out those that the config says are
    the same. Names that are not needed are removed.
    """
    tied = config.get("tie_word_embeddings", True) is not False
    shared = config.get("share_encoder_decoder_embeddings", True) is not False
    source, target, softmax = [SOURCE, SHARED], [TARGET, SHARED], [SOFTMAX]
    if shared:
        source.append(TARGET)
        target.append(SOURCE)
    if tied:
        softmax += target
        target.append(SOFTMAX)
    if shared and tied:
        source.append(SOFTMAX)
    chosen: list[str] = []
    for names in (source, target, softmax):
        there = [name for name in names if name in tensors]
        if not there:
            raise DataError(f"{folder}: {names[0]} is missing")
        same = (name for name in chosen if _are_equal(tensors[name], tensors[there[0]]))
        chosen.append(next(same, there[0]))
    for name in (SOURCE, TARGET, SHARED, SOFTMAX):
        if name not in chosen:
            tensors.pop(name, None)
    return chosen[0], chosen[1], chosen[2]


def _stored_positions(
    config: Fields, tensors: dict[str, Tensor]
) -> tuple[dict[str, str], list[Part]]:
    """Returns what the positions of a model say of hparams, and their parts if they are learned.

    transformers reads a table in a file, which may have been rounded to 16 bits. Tables of
    sinusoids are removed.
    """
    size = config["d_model"]
    rows = config["max_position_embeddings"]
    there = {side: tensors[name] for side, name in POSITIONS.items() if name in tensors}
    has_table = FAMILIES[config["model_type"]].has_table
    kinds = {_kind_of_sinusoids(tensor) for tensor in there.values()} if has_table else set()
    if len(kinds) > 1 or kinds == {""}:
        return {"pos": "emb"}, [
            Part(f"{side}.position.table", (name,), (rows, size))
            for side, name in POSITIONS.items()
        ]
    for name in POSITIONS.values():
        tensors.pop(name, None)
    return {"pos": kinds.pop()} if kinds else {}, []


def _kind_of_sinusoids(tensor: Tensor) -> str:
    """Returns the value of the hparam pos that computes these positions; "" if none does."""
    if len(tensor.shape) != 2 or tensor.shape[1] < 2:
        return ""
    values = tensor.read()
    positions = np.arange(tensor.shape[0])
    allowed = 1e-6 + 2e-7 * positions[:, None]  # float32 rounds the angles, which grow
    for kind in ("timing_paper", "timing"):
        expected = sinusoids(positions, tensor.shape[1], paper=kind == "timing_paper")
        if np.all(np.abs(values - ops.convert_to_numpy(expected)) <= allowed):
            return kind
    return ""


def _are_equal(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.shape == other.shape and np.array_equal(one.read(), other.read()))


def _in_our_form(tensor: Tensor) -> Tensor:
    """Returns a tensor of PyTorch's, whose matrices are [outputs, inputs], in our form."""
    return tensor.transposed() if len(tensor.shape) == 2 else tensor


def _bias(
    tensors: Mapping[str, Tensor], order: Sequence[int], has_start: bool, folder: pathlib.Path
) -> Tensor:
    """Returns the bias of the logits; the decoder's start is not an output."""
    size = max(order) + 1
    bias = tensors.get(BIAS, Tensor((1, size), "float32", lambda: np.zeros(size, np.float32)))
    if bias.shape != (1, size):
        raise DataError(f"{folder}: {BIAS} is {list(bias.shape)}, not {[1, size]}")
    arranged = in_order(bias.reshaped(size), order, f"{folder}: {BIAS}")

    def read() -> np.ndarray:
        values = arranged.read()
        values[-1] = IMPOSSIBLE
        return values

    return arranged._replace(read=read) if has_start else arranged


# ---- vocabularies


def _sides(
    folder: pathlib.Path,
    config: Fields,
    generation: Mapping[str, Any],
    tokenizer: Tokenizer,
    tensors: Mapping[str, Tensor],
    embeddings: Sequence[str],
) -> tuple[list[Side], int, list[int]]:
    """Returns the vocabularies of both sides, what starts the decoder, and what ends it but EOS."""
    for name in embeddings:
        if not tensors[name].shape or tensors[name].shape[0] > _MOST_IDS:
            raise DataError(f"{folder}: {name} is {list(tensors[name].shape)}: expected [V, D]")
    source, target = embeddings
    sizes = [tensors[name].shape[0] for name in embeddings]
    settings.check_sizes(folder, config, sizes)
    size = sizes[1]
    padding, start = (
        settings.find_id(folder, fields, f"{name}_token_id", size)
        for fields, name in ((config, "pad"), (generation, "decoder_start"))
    )
    ends = settings.find_ids(folder, generation, "eos_token_id", size)
    default = generation.get("forced_bos_token_id")
    if config["model_type"] != M2M100:
        if default is not None:
            raise UserError(
                f"{folder}: forced_bos_token_id={quoted(default)} has no counterpart here: remove "
                "it from generation_config.json; outputs may then differ"
            )
        sides = vocabularies.marian(folder, tokenizer, sizes, padding, ends, start)
    else:
        sides = vocabularies.m2m100(folder, tokenizer, size, padding, ends, default)
    order = sides[1].order
    if padding == order[1]:
        raise UserError(
            f"{folder / settings.CONFIG}: pad_token_id and eos_token_id are both {padding}"
        )
    others = [order.index(id_) for id_ in ends if id_ != order[1]]
    if start != padding:
        return sides, order.index(start), others
    if not tensors[target].read()[padding].any():
        return sides, 0, others  # a zero vector starts ours, too
    # Training further has moved the vector of padding, which is zero here.
    sides[1] = sides[1].with_start(padding)
    if source == target:
        sides[0] = sides[0].with_start(padding)
    return sides, len(sides[1].order) - 1, others
