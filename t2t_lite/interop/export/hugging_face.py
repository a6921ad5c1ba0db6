"""A trained Transformer as a folder for Hugging Face's transformers.

Post-norm models become MarianMT, pre-norm ones Pegasus, and those that came from M2M100 or NLLB-200
go back to that. The folder holds the weights, the settings, the tokenizer, and a README.md.
"""

import json
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from t2t_lite import extras
from t2t_lite.errors import UserError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.export.counterparts import explicit_hparams, require_same
from t2t_lite.interop.export.exported import Exported
from t2t_lite.interop.export.folder import new_folders
from t2t_lite.interop.export.hugging_face_tokenizers import (
    HuggingFaceSide,
    chosen_language,
    language_ids,
    speaks_as_m2m100,
    tokenizer_files,
)
from t2t_lite.interop.export.search_settings import average_exponent, not_carried
from t2t_lite.interop.imports.hugging_face_settings import (
    CONFIG,
    EPSILON,
    GENERATION_CONFIG,
    NORM_EPSILON,
    find_hparams,
)
from t2t_lite.interop.layouts import hugging_face as layout
from t2t_lite.interop.layouts.hugging_face import FAMILIES, M2M100, MARIAN, PEGASUS
from t2t_lite.interop.layouts.parts import embedding_parts, transformer_parts, values_of
from t2t_lite.json_files import Fields
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.language_tokens import LanguageTokens
from t2t_lite.text.languages import speaking
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, TextEncoder

log = logging.getLogger(__name__)

HUGGING_FACE = "huggingface"
_PROGRAM = "transformers"
_WEIGHTS = "model.safetensors"
_CLASSES = {
    MARIAN: "MarianMTModel",
    PEGASUS: "PegasusForConditionalGeneration",
    M2M100: "M2M100ForConditionalGeneration",
}
_POSITIONS = 1024  # rows of a table of sinusoids, unless the model says more
# What the folder has as weights, as rows, or as settings of its generations.
_FREE = (
    *("attention_bias", "softmax_padding", "suppressed_ids", "end_ids", "start_id", "max_length"),
)
_OF_TABLE = ("pos", "position_offset", "softmax_bias")
_EARLY_STOPPING: Mapping[str, bool | str] = {"true": True, "never": "never"}

_README = """\
# {problem} for transformers

{origin} It is a `{model}`. In this folder, after `pip install transformers torch sentencepiece`:

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("."{languages})
model = AutoModelForSeq2SeqLM.from_pretrained(".")
batch = tokenizer(["{label}A sentence."], return_tensors="pt", padding=True)
outputs = model.generate(**batch{forced})
print(tokenizer.batch_decode(outputs, skip_special_tokens=True))
```

`generation_config.json` has the search settings of the run. Outputs are ranked by their
log-probability, divided by length^{exponent:g} (`length_penalty`). An output has at most {longest}
subwords{differs}.
{positions}
`t2t-import --model_dir=.` makes a run folder of this folder again.
"""
_NOT_SAVED = """
**Do not save the model again with transformers**: `save_pretrained` leaves the position table of a
MarianMT model out. A copy without it computes the paper's sinusoids, which are not those of this
model. Keep `model.safetensors`, or train with `pos=timing_paper`.
"""


def export(
    run: RunFolder, checkpoint: str | None, export_dir: str, hparams: DecodeHParams | None = None
) -> None:
    """Writes `export_dir/huggingface/VERSION`, whole or not at all.

    Args:
        run: an opened run folder.
        checkpoint: prefix of a checkpoint; None: the newest.
        export_dir: the parent of all exports.
        hparams: the search and the languages; None: the run's.

    Raises:
        UserError: transformers cannot compute the model; the message names what it lacks.
    """
    extras.require(extras.IMPORT, f"writing {_WEIGHTS}", "safetensors")
    from safetensors.numpy import save_file

    search = DecodeHParams.of(run) if hparams is None else hparams
    exported = Exported.load(run, checkpoint)
    model = exported.model
    h = explicit_hparams(model, _PROGRAM)
    encoders = speaking(run.encoders, search.languages)
    kind = _model_type(h, speaks_as_m2m100(encoders))
    sides = _sides(model, h, kind, encoders)
    config = _config(h, kind, sides)
    languages = language_ids(sides[1], encoders["targets"])
    generation = _generation(h, search, config, sides[1], starts=int(bool(languages)))
    if languages and (code := chosen_language(encoders["targets"])):
        generation["forced_bos_token_id"] = languages[code]
    files = tokenizer_files(kind, sides, encoders)
    files |= {
        CONFIG: _json(config),
        GENERATION_CONFIG: _json(generation),
    }
    arrays = hugging_face_arrays(model, h, config, sides)
    usage = _README.format(
        problem=run.problem.name,
        origin=exported.origin,
        model=_CLASSES[kind],
        **_spoken(encoders, kind),
        exponent=average_exponent(search),
        longest=_longest(search, config),
        differs="".join(
            f"; transformers does not obey {x}" for x in not_carried(search, *_CARRIED)
        ),
        positions=_NOT_SAVED if kind == MARIAN and not _is_papers(h) else "",
    )
    with new_folders(export_dir, [HUGGING_FACE]) as folders:
        folder = folders[HUGGING_FACE]
        save_file(arrays, folder / _WEIGHTS, metadata={"format": "pt"})
        for name, contents in files.items():
            (folder / name).write_bytes(contents)
        exported.write_card(folder, _PROGRAM, usage)
    log.info("wrote %s", export_dir)


def _sides(
    model: Seq2Seq, h: TransformerHParams, kind: str, encoders: Mapping[str, TextEncoder]
) -> list[HuggingFaceSide]:
    """Returns the vocabularies of source and target.

    transformers looks up what starts the decoder, where ours has a zero vector. If padding has
    another one, as softmax weights, a row of zeros is added; sides of one vocabulary or of one
    matrix stay so.
    """
    found = [HuggingFaceSide.of(encoders[side], kind) for side in ("inputs", "targets")]
    if h.start_id or not np.any(model.targets_embedding.matrix[PAD_ID]):
        return found
    has_one = model.inputs_embedding is model.targets_embedding
    is_one = has_one or found[0].pieces == found[1].pieces
    return [side.with_start() if is_one or side is found[1] else side for side in found]


_CARRIED = ("min_length", "no_repeat_ngram_size", "end_at_limit")


def _spoken(encoders: Mapping[str, TextEncoder], kind: str) -> dict[str, str]:
    """Returns what the example of the README says of languages, by field."""
    chosen = {
        side: encoder.symbol(encoder.languages[encoder.language or min(encoder.languages)])
        for side, encoder in encoders.items()
        if isinstance(encoder, LanguageTokens) and encoder.languages
    }
    if kind != M2M100:
        label = f"{chosen['inputs']} " if chosen else ""
        return {"languages": "", "forced": "", "label": label}
    source, target = (chosen[side] for side in ("inputs", "targets"))
    return {
        "languages": f', src_lang="{source.strip("_")}"',
        "forced": f', forced_bos_token_id=tokenizer.convert_tokens_to_ids("{target}")',
        "label": "",
    }


def _is_papers(h: TransformerHParams) -> bool:
    return h.pos == "timing_paper" and not h.position_offset


def _model_type(h: TransformerHParams, speaks_as_m2m100: bool) -> str:
    """Returns the type of models that has the place of the norms."""
    if "n" not in h.layer_preprocess_sequence.replace("none", ""):
        return MARIAN
    return M2M100 if speaks_as_m2m100 else PEGASUS


def _config(h: TransformerHParams, kind: str, sides: Sequence[HuggingFaceSide]) -> dict[str, Any]:
    """Returns config.json.

    Raises:
        UserError: transformers computes something else than the model.
    """
    family = FAMILIES[kind]
    activations = {ours: name for name, ours in reversed(layout.ACTIVATIONS.items())}
    target = sides[1]
    is_one = h.shared_embedding or h.shared_embedding_and_softmax_weights
    is_made = family.has_table and h.pos != "emb"  # the table, from sinusoids
    config = {
        "model_type": kind,
        "architectures": [_CLASSES[kind]],
        "is_encoder_decoder": True,
        **{name: getattr(h, hparam) for name, hparam in layout.SIZES.items()},
        "activation_function": activations.get(h.ffn_activation, family.activation),
        "scale_embedding": h.multiply_embedding_mode == layout.scaling(is_scaled=True),
        "max_position_embeddings": max(h.max_length, _POSITIONS if is_made else 0),
        "vocab_size": len(sides[0].pieces),
        "tie_word_embeddings": h.shared_embedding_and_softmax_weights,
        "pad_token_id": target.ids.index(PAD_ID),
        "eos_token_id": target.ids.index(EOS_ID),
        "decoder_start_token_id": _start(h, target),
        "dropout": h.layer_prepostprocess_dropout,
        "attention_dropout": h.attention_dropout,
        "activation_dropout": h.relu_dropout,
    }
    if family.can_split:
        config |= {
            "share_encoder_decoder_embeddings": is_one,
            "decoder_vocab_size": len(target.pieces),
        }
    if family.has_table and h.hidden_size % 2:
        raise UserError(
            f"hparam hidden_size={h.hidden_size}: t2t-import reads a {_CLASSES[kind]} only with an "
            "even number; export a SavedModel (--format=savedmodel)"
        )
    if not family.can_split and len(sides[0].pieces) != len(target.pieces):
        raise UserError(
            f"source and target have vocabularies of {len(sides[0].ids)} and {len(target.ids)} "
            f"ids: a {_CLASSES[kind]} has only one; export for CTranslate2 (--format=ctranslate2)"
        )
    written = find_hparams(
        pathlib.Path(),
        Fields(pathlib.Path(CONFIG), config),
        shared_embedding_and_softmax_weights=h.shared_embedding_and_softmax_weights,
        shared_embedding=h.shared_embedding,
        shared_target_and_softmax_weights=h.shared_target_and_softmax_weights,
    )
    require_same(h, written, _CLASSES[kind], (*_FREE, *(_OF_TABLE if family.has_table else ())))
    return config if h.norm_epsilon == EPSILON else config | {NORM_EPSILON: h.norm_epsilon}


def _start(h: TransformerHParams, target: HuggingFaceSide) -> int:
    """Returns the id that starts the decoder: a zero vector, unless the model says another."""
    if h.start_id or len(target.pieces) == len(target.ids):
        return target.ids.index(h.start_id)
    return len(target.ids)


def _longest(search: DecodeHParams, config: Mapping[str, Any]) -> int:
    positions = config["max_position_embeddings"] - 1
    has_limit = not search.length_factor and search.extra_length > 0
    return min(search.extra_length, positions) if has_limit else positions


def _generation(
    h: TransformerHParams,
    search: DecodeHParams,
    config: Mapping[str, Any],
    target: HuggingFaceSide,
    starts: int,
) -> dict[str, Any]:
    """Returns generation_config.json; outputs begin with so many tokens of languages."""
    ends = [target.ids.index(id_) for id_ in (EOS_ID, *h.other_ends)]
    suppressed = sorted(target.ids.index(id_) for id_ in h.never_output)
    has_table = FAMILIES[config["model_type"]].has_table
    renormalizes = not h.softmax_padding and not has_table
    if renormalizes and suppressed:
        raise UserError(
            f"hparams softmax_padding=false, suppressed_ids={h.suppressed_ids}: transformers can "
            "exclude padding from the probabilities, or other ids from outputs, but not both; "
            "export a SavedModel (--format=savedmodel)"
        )
    if renormalizes:
        suppressed = [config["pad_token_id"]]
    return {
        **{f"{name}_token_id": config[f"{name}_token_id"] for name in ("pad", "decoder_start")},
        "eos_token_id": ends if len(ends) > 1 else ends[0],
        "forced_eos_token_id": ends[0] if search.end_at_limit else None,
        "num_beams": search.beam_size,
        "length_penalty": average_exponent(search),
        "early_stopping": _EARLY_STOPPING.get(search.stopping, False),
        "max_new_tokens": _longest(search, config),
        # Ours does not count the token of a language.
        **({"min_new_tokens": search.min_length + starts} if search.min_length else {}),
        "no_repeat_ngram_size": search.no_repeat_ngram_size,
        **({"suppress_tokens": suppressed} if suppressed else {}),
        **({"renormalize_logits": True} if renormalizes else {}),
    }


def hugging_face_arrays(
    model: Seq2Seq,
    h: TransformerHParams,
    config: Mapping[str, Any],
    sides: Sequence[HuggingFaceSide],
) -> dict[str, np.ndarray]:
    """Returns the weights of a model by the names and in the shapes of transformers.

    Biases that ours lacks are 0, and so is the row of what starts the decoder.

    Args:
        model: a plain Transformer.
        h: its hyperparameters, explicit.
        config: its config.json.
        sides: the vocabularies of source and target.
    """
    family = FAMILIES[config["model_type"]]
    # The softmax has a name of its own, unless one matrix is for all.
    added = {"attention_bias": True, "softmax_bias": family.has_table}
    full = h.copy(**added, shared_target_and_softmax_weights=False)
    is_tied, is_one = h.shared_embedding_and_softmax_weights, h.shared_embedding
    source, target, softmax = (
        (layout.SHARED,) * 3
        if is_tied
        else (layout.SHARED, layout.SHARED, layout.SOFTMAX)
        if is_one
        else (layout.SOURCE, layout.TARGET, layout.SOFTMAX)
    )
    sizes = (model.inputs_vocab_size, model.targets_vocab_size)
    rows = [*embedding_parts(full, sizes, source, target, softmax, layout.BIAS)]
    arrays = dict(values_of(model, rows))
    for name, values in arrays.items():
        side = sides[0] if name == source != target else sides[1]
        nothing = np.zeros((len(side.pieces) - len(side.ids), *values.shape[1:]), np.float32)
        arrays[name] = np.concatenate([values[np.asarray(side.ids)], nothing])
    if family.has_table:
        bias = arrays[layout.BIAS][None]  # [1, V]
        bias[:, len(sides[1].ids) :] = layout.IMPOSSIBLE
        if not h.softmax_padding:
            bias[:, config["pad_token_id"]] = layout.IMPOSSIBLE
        arrays[layout.BIAS] = bias
        arrays |= _positions(model, config["max_position_embeddings"])
    if is_one:  # transformers ties them only where the softmax is tied, too
        arrays |= dict.fromkeys((layout.SOURCE, layout.TARGET), arrays[layout.SHARED])
    elif not is_tied and not family.can_split:
        arrays[layout.SHARED] = arrays[layout.SOURCE]
    names = layout.HuggingFaceNames()
    for name, values in values_of(model, transformer_parts(full, names)):
        arrays[name] = values.T
    return {name: np.ascontiguousarray(values, np.float32) for name, values in arrays.items()}


def _positions(model: Seq2Seq, rows: int) -> dict[str, np.ndarray]:
    """Returns what each side adds to the embeddings of each position, [rows, D]."""
    found = {}
    for side, part in (("encoder", model.encoder), ("decoder", model.decoder)):
        nothing = ops.zeros((1, rows, part.position.channels))
        table = part.position(nothing, ops.arange(rows))[0]
        found[layout.POSITIONS[side]] = ops.convert_to_numpy(table)
    return found


def _json(value: Any) -> bytes:
    return f"{json.dumps(value, indent=1)}\n".encode()
