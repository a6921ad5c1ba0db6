"""A trained Transformer as a folder for Marian (https://marian-nmt.github.io).

The folder holds model.npz, decoder.yml, the vocabulary, and a README.md with usage.
"""

import json
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t_lite.errors import UserError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.export.counterparts import explicit_hparams, require_same
from t2t_lite.interop.export.exported import Exported
from t2t_lite.interop.export.folder import new_folders
from t2t_lite.interop.export.marian_vocabularies import MarianSide, allowed, marian_sides
from t2t_lite.interop.export.search_settings import average_exponent, not_carried
from t2t_lite.interop.imports.marian_settings import find_hparams
from t2t_lite.interop.layouts.marian import (
    ACTIVATIONS,
    DECODER_SELF,
    RECURRENT,
    SETTINGS,
    SIZES,
    STEPS,
    TIES,
    Embeddings,
    MarianNames,
    marian_shape,
    settings_array,
)
from t2t_lite.interop.layouts.parts import embedding_parts, transformer_parts, values_of
from t2t_lite.layers.dense import EXCLUDED
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.language_tokens import LanguageTokens
from t2t_lite.text.languages import speaking
from t2t_lite.text.text_encoder import PAD_ID, TextEncoder

log = logging.getLogger(__name__)

MARIAN = "marian"
_MODEL = "model.npz"
# The release whose computation the model has: since 1.12.3, GELU is exact.
_VERSION = "v1.12.42"
# What Marian writes into every Transformer of this kind.
_OF_ALL = {
    "type": "transformer",
    "enc-type": "bidirectional",
    "input-types": "[]",
    "lemma-dim-emb": "0",
    "output-omit-bias": "false",
    "transformer-decoder-dim-ffn": "0",
    "transformer-ffn-depth": "2",
    "transformer-guided-alignment-layer": "last",
    "transformer-no-projection": "false",
    "transformer-postprocess-emb": "d",
    "transformer-tied-layers": "[]",
    "transformer-train-position-embeddings": "false",
}
# What the model has as other values, as rows, or as settings of the search.
_FREE = ("attention_bias", "softmax_bias", "softmax_padding", "suppressed_ids")
_USUAL_FACTOR = 3  # Marian's greatest length of outputs, in lengths of the source

_README = """\
# {problem} for Marian

{origin} In this folder, with Marian 1.12:

    marian-decoder -c decoder.yml < source.txt > target.txt
    marian-scorer -m {model} -v {vocabularies} -t source.txt target.txt

{text}{languages}{pre_norm}
An output has at most {factor} times the subwords of its source (`max-length-factor`). Outputs are
ranked by their log-probability, divided by length^{exponent:g} (`normalize`){differs}.
{never}
`t2t-import --model_dir=.` makes a run folder of this folder again.
"""
_AS_TEXT = """\
Marian splits the text and joins the outputs.
"""
_AS_PIECES = """\
Marian reads and writes pieces, joined by spaces: split the text by `source.spm`
(`spm_encode --model=source.spm`), and join the outputs by `target.spm` (`spm_decode`).
"""
_LANGUAGES = """
Begin each source with the piece of a language: {pieces}.
"""
_AS_WORDS = """\
Marian reads and writes words, joined by spaces.
"""
_AS_IDS = """\
Marian reads and writes the ids of t2t_lite's own vocabulary, joined by spaces:
`RunFolder.open(...).encoders` encodes and decodes them.
"""
_PRE_NORM = """
**This model is pre-norm.** Marian 1.11 and 1.12 train and score such models as t2t_lite does, but
decode them otherwise: they do not normalize keys and values. For use in Marian, train a post-norm
model (`layer_preprocess_sequence=none,layer_postprocess_sequence=dan`).
"""
_NO_PADDING = """
Padding has no row here, so that other pieces share its probability.
"""


def export(
    run: RunFolder, checkpoint: str | None, export_dir: str, hparams: DecodeHParams | None = None
) -> None:
    """Writes `export_dir/marian/VERSION`, whole or not at all.

    Args:
        run: an opened run folder.
        checkpoint: prefix of a checkpoint; None: the newest.
        export_dir: the parent of all exports.
        hparams: the search and the languages; None: the run's.

    Raises:
        UserError: Marian cannot compute the model; the message names what it lacks.
    """
    search = DecodeHParams.of(run) if hparams is None else hparams
    exported = Exported.load(run, checkpoint)
    model = exported.model
    h = explicit_hparams(model, "Marian")
    has_padding = h.softmax_padding and PAD_ID not in h.never_output
    encoders = speaking(run.encoders, search.languages)
    sides = marian_sides(encoders, has_padding)
    decoder = _decoder(search, h, sides)
    arrays: dict[str, Any] = {
        **marian_arrays(model, sides),
        SETTINGS: settings_array(_settings(h, sides)),
    }
    with new_folders(export_dir, [MARIAN]) as folders:
        folder = folders[MARIAN]
        np.savez(folder / _MODEL, **arrays)
        decoder["vocabs"] = _write_vocabularies(folder, sides)
        lines = [f"{name}: {json.dumps(value)}\n" for name, value in decoder.items()]
        (folder / "decoder.yml").write_text("".join(lines), encoding="utf-8")
        usage = _README.format(
            problem=run.problem.name,
            origin=exported.origin,
            languages=_languages(sides[0], encoders["inputs"]),
            **_usage(search, h, sides, decoder),
        )
        exported.write_card(folder, MARIAN, usage)
    log.info("wrote %s", export_dir)


def marian_arrays(model: Seq2Seq, sides: Sequence[MarianSide]) -> dict[str, np.ndarray]:
    """Returns the weights of a model by Marian's names and in its shapes.

    Biases that our model lacks are 0.

    Args:
        model: a plain Transformer.
        sides: the vocabularies of source and target.
    """
    h = explicit_hparams(model, "Marian").copy(attention_bias=True, softmax_bias=True)
    names = Embeddings.of(
        both=model.inputs_embedding is model.targets_embedding,
        softmax=model.softmax_embedding is model.targets_embedding,
    )
    sizes = (model.inputs_vocab_size, model.targets_vocab_size)
    parts = [*embedding_parts(h, sizes, *names), *transformer_parts(h, MarianNames())]
    arrays = dict(values_of(model, parts))
    rows = dict.fromkeys(names[1:], sides[1].ids) | {names.source: sides[0].ids}
    for name, ids in rows.items():
        arrays[name] = arrays[name][np.asarray(ids)]  # a copy
    if not h.softmax_padding and PAD_ID in sides[1].ids:
        arrays[names.bias][sides[1].ids.index(PAD_ID)] = EXCLUDED
    return {name: values.reshape(marian_shape(values.shape)) for name, values in arrays.items()}


def _settings(h: TransformerHParams, sides: Sequence[MarianSide]) -> dict[str, str]:
    """Returns the settings inside the model, as text of YAML.

    Raises:
        UserError: Marian computes something else than the model.
    """
    steps = {name: getattr(h, steps.hparam) for name, steps in STEPS.items()}
    for name, (hparam, known) in STEPS.items():
        if steps[name] != "none" and not {*steps[name]} <= {*known}:
            raise UserError(
                f"hparam {hparam}={steps[name]}: Marian has only the steps {' '.join(known)}; "
                "export a SavedModel (--format=savedmodel)"
            )
    activations = {ours: name for name, ours in ACTIVATIONS.items()}
    settings = _OF_ALL | {name: str(getattr(h, hparam)) for name, hparam in SIZES.items()}
    settings |= {name: str(getattr(h, hparam)).lower() for name, hparam in TIES.items()}
    settings |= {name: "" if value == "none" else value for name, value in steps.items()}
    kinds = {ours: name for name, ours in DECODER_SELF.items()}
    settings |= {"transformer-decoder-autoreg": kinds[h.decoder_self]}
    settings |= RECURRENT if h.decoder_self == "ssru" else {}
    settings |= {
        "transformer-ffn-activation": activations.get(h.ffn_activation, "relu"),
        "version": _VERSION,
    }
    if h.hidden_size % 2:
        raise UserError(
            f"hparam hidden_size={h.hidden_size}: with an odd number, Marian's sinusoids are "
            "others; export a SavedModel (--format=savedmodel)"
        )
    written = find_hparams(
        settings | {"input-types": "", "transformer-tied-layers": ""}, (), pathlib.Path(_MODEL)
    )
    require_same(h, written, "Marian", _FREE)
    sizes = [len(side.ids) for side in sides]
    quoted = {name: value or '""' for name, value in settings.items()}
    return dict(sorted((quoted | {"dim-vocabs": str(sizes)}).items()))


def _decoder(
    search: DecodeHParams, h: TransformerHParams, sides: Sequence[MarianSide]
) -> dict[str, Any]:
    """Returns the settings of Marian's decoder, except for the files of the vocabularies."""
    has_factor = search.extra_length == 0 and search.length_factor > 0
    return {
        "relative-paths": True,
        "models": [_MODEL],
        "vocabs": [],
        "beam-size": search.beam_size,
        "normalize": average_exponent(search),
        "word-penalty": 0,
        "max-length-factor": search.length_factor if has_factor else _USUAL_FACTOR,
        **allowed(sides[1], h.never_output),
    }


def _write_vocabularies(folder: pathlib.Path, sides: Sequence[MarianSide]) -> list[str]:
    """Writes the files of both sides, once if they are the same; returns their names."""
    ending = "yml" if sides[0].is_table else "spm"
    is_one = sides[0].pieces == sides[1].pieces and (
        sides[0].is_table or sides[0].spm == sides[1].spm
    )
    names = [f"vocab.{ending}"] * 2 if is_one else [f"vocab.{side}.{ending}" for side in _SIDES]
    for name, side, own in zip(names, _SIDES, sides, strict=True):
        if own.is_table:
            (folder / name).write_text(own.table(), encoding="utf-8")
            if own.spm:
                (folder / f"{side}.spm").write_bytes(own.spm)
        else:
            (folder / name).write_bytes(own.spm)
    return names


_SIDES = ("source", "target")


def _languages(side: MarianSide, encoder: TextEncoder) -> str:
    """Returns what README.md says of the piece with which a source begins, if it has one."""
    if not isinstance(encoder, LanguageTokens) or not encoder.languages:
        return ""
    starts = (
        [encoder.start_ids()] if encoder.language else [[i] for i in encoder.languages.values()]
    )
    pieces = [" ".join(side.pieces[side.ids.index(id_)] for id_ in start) for start in starts]
    return _LANGUAGES.format(pieces=", ".join(f"`{piece}`" for piece in pieces))


def _usage(
    search: DecodeHParams,
    h: TransformerHParams,
    sides: Sequence[MarianSide],
    decoder: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns what README.md says of text and search, by field."""
    if not sides[0].is_table:
        text = _AS_TEXT
    elif sides[0].spm:
        text = _AS_PIECES
    else:
        text = _AS_IDS if str(len(sides[0].ids) - 1) in sides[0].pieces else _AS_WORDS
    others = not_carried(search)
    return {
        "model": _MODEL,
        "vocabularies": " ".join(decoder["vocabs"]),
        "text": text,
        "pre_norm": _PRE_NORM if "n" in h.layer_preprocess_sequence.replace("none", "") else "",
        "factor": decoder["max-length-factor"],
        "exponent": decoder["normalize"],
        "differs": f". Marian does not obey {', '.join(others)}" if others else "",
        "never": "" if PAD_ID in sides[1].ids else _NO_PADDING,
    }
