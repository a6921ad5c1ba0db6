"""A student as a folder for Bergamot's engine, which translates in Firefox.

The folder holds the model in 8 bits and in float32, the vocabulary, the short list if there is one,
and the files by which translateLocally knows a model. The engine runs one kind of Transformer;
whatever differs is refused by name.
"""

import json
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t_lite.data.example_reader import ExampleReader, eval_examples
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.errors import UsageError, UserError
from t2t_lite.interop.export.exported import Exported
from t2t_lite.interop.export.firefox_model import (
    Side,
    arrays_of,
    engine_list,
    parts_of,
    require_runnable,
    side_of,
)
from t2t_lite.interop.export.folder import new_folders, require_code
from t2t_lite.interop.export.input_multipliers import input_multipliers
from t2t_lite.interop.layouts import marian_binary, marian_shortlist
from t2t_lite.interop.layouts.marian import SOURCE
from t2t_lite.interop.layouts.parts import Part
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.text_encoder import EOS_ID
from t2t_lite.text.text_files import read_lines

log = logging.getLogger(__name__)

FIREFOX = "firefox"

_SEARCH = "beam_size=1,length_factor=2,extra_length=4"  # the engine's
_CALIBRATED = 500  # sentences whose translation tells how large the inputs of products are
_BEST = 50  # in the name of every short list for the engine, whatever the list has
_USUAL_CODES = ("src", "trg")
_WIDEST_TINY = 256  # features of Bergamot's tiny students; base ones have 512

_CONFIG = """\
relative-paths: true
models:
  - {model}
vocabs:
  - {vocabularies[0]}
  - {vocabularies[1]}
{shortlist}beam-size: 1
normalize: 1.0
word-penalty: 0
max-length-break: 128
max-length-factor: 2.0
mini-batch-words: 1024
workspace: 128
skip-cost: true
cpu-threads: 0
quiet: true
quiet-translation: true
gemm-precision: int8shiftAlphaAll
alignment: soft
"""
_README = """\
# {name} for Bergamot's engine

{origin}

| file | what |
|---|---|
| {model} | the model in 8 bits, with the quantization of activations |
| {float32} | the same in float32 |
| {vocabulary_files} | SentencePiece |
{shortlist_row}| config.intgemm8bitalpha.yml, model_info.json | for translateLocally |

It runs in fxtranslate, in Bergamot's engine (C++ or WebAssembly), and in translateLocally, where
you import the folder:

    import fxtranslate
    names = [{arguments}]
    engine = fxtranslate.Translator(*(open(name, "rb").read() for name in names))
    print(engine.translate("A sentence."))

Firefox itself takes models only from Mozilla's own servers.

The engine decodes greedily, as `t2t-decoder --decode_hparams={search}` does. In float32 its
outputs are the same; in 8 bits they may differ: compare the quality on text of yours. In web pages
and translateLocally, an output has at most twice the subwords of its source (`extra_length=0`).
{pair}`t2t-import --model_dir=.` makes a run folder of the float32 form again.
"""
_PAIR = """\
Since source and target have a matrix each, fxtranslate 0.5 reads only the 8-bit form.
"""


def export(
    run: RunFolder,
    checkpoint: str | None,
    export_dir: str,
    hparams: DecodeHParams,
    codes: tuple[str, str] = ("", ""),
    dev_file: str = "",
) -> None:
    """Writes `export_dir/firefox/VERSION`, whole or not at all.

    Args:
        run: an opened run folder.
        checkpoint: prefix of a checkpoint; None: the newest.
        export_dir: the parent of all exports.
        hparams: names the short list, if there is one.
        codes: of the source's and the target's language, for the names of files; "": the problem's.
        dev_file: sources, one per line, that tell how activations are quantized; "": the dev split.

    Raises:
        UserError: the engine does not run the model; the message names what it lacks.
        UsageError: the hparams change the search, which is the engine's own.
    """
    if hparams.copy(shortlist="") != DecodeHParams.of(run).copy(shortlist=""):
        raise UsageError(
            "--decode_hparams: Bergamot's engine searches with settings of its own; with "
            "--format=firefox, set only shortlist"
        )
    named = (run.problem.source_language, run.problem.target_language)
    languages = [code or own for code, own in zip(codes, named, strict=True)]
    pair = [code or usual for code, usual in zip(languages, _USUAL_CODES, strict=True)]
    for flag, code in zip(("from_code", "to_code"), pair, strict=True):
        require_code(flag, code)
    exported = Exported.load(run, checkpoint)
    model = exported.model
    h = require_runnable(model)
    sides = [side_of(run.encoders[side]) for side in ("inputs", "targets")]
    shortlist = Shortlist.read(hparams.shortlist, run.encoders) if hparams.shortlist else None
    parts = parts_of(model, h)
    search = DecodeHParams.of(run.problem, f"{_SEARCH},dtype=float32")
    decoder = Decoder.from_run(run, exported.checkpoint, search, long_input="truncate")
    multipliers = _multipliers(decoder, parts, _sources(run, decoder, dev_file))
    arrays = arrays_of(model, parts, sides)
    with new_folders(export_dir, [FIREFOX]) as folders:
        usage = _write(folders[FIREFOX], arrays, multipliers, sides, shortlist, pair, exported)
        info = _model_info(pair, "tiny" if h.hidden_size <= _WIDEST_TINY else "base")
        (folders[FIREFOX] / "model_info.json").write_text(info, encoding="utf-8")
        exported.write_card(folders[FIREFOX], "fxtranslate", usage, languages)
    log.info("wrote %s", export_dir)


def _sources(run: RunFolder, decoder: Decoder, dev_file: str) -> list[Source]:
    """Returns the sources of a file, or of the dev split."""
    if dev_file:
        lines = [line for line in read_lines(pathlib.Path(dev_file)) if line.strip()]
        if not lines:
            raise UserError(f"{dev_file} has no text: expected sources, one per line")
        return decoder.text.encode(lines[:_CALIBRATED], name=f"{dev_file}, line")
    data_dir = str(run.settings.data_dir or "")
    try:
        paths = run.problem.existing_filepaths(data_dir, DatasetSplit.EVAL)
    except UserError as error:
        raise UserError(
            f"{error}; or name sources, one per line, with --dev_file: the quantization of "
            "activations is measured on them"
        ) from error
    reader = ExampleReader.of_decoding(run.problem, run.hparams)
    return [
        Source(decoder.text.source_text(ids), ids, number)
        for number, (ids, _) in enumerate(eval_examples(paths, reader, _CALIBRATED), 1)
    ]


def _multipliers(
    decoder: Decoder, parts: Sequence[Part], sources: Sequence[Source]
) -> dict[str, float]:
    """Returns the multipliers of the inputs of all matrices, measured on translations."""
    pairs = [
        (source.ids, [*beams[0].ids, EOS_ID])
        for source, beams in zip(sources, decoder.decode(sources), strict=True)
        if beams
    ]
    if not pairs:
        raise UserError(
            "the dev split is empty: name sources, one per line, with --dev_file, on which the "
            "quantization of activations is measured"
        )
    assert isinstance(decoder.engine, TensorFlowEngine)
    return input_multipliers(decoder.engine.models[0], parts, pairs)


def _write(
    folder: pathlib.Path,
    arrays: Mapping[str, np.ndarray],
    multipliers: Mapping[str, float],
    sides: Sequence[Side],
    shortlist: Shortlist | None,
    codes: Sequence[str],
    exported: Exported,
) -> str:
    """Writes all files but README.md and model_info.json; returns the usage for the former."""
    pair = "".join(codes)
    model, float32 = f"model.{pair}.intgemm.alphas.bin", f"model.{pair}.float32.bin"
    inputs = {
        f"{name}{marian_binary.INPUT_MULTIPLIER}": np.array([value], np.float32)
        for name, value in multipliers.items()
    }
    for name, tensors in ((model, {**arrays, **inputs}), (float32, arrays)):
        items = marian_binary.items_of(tensors, in_8_bits=name == model)
        (folder / name).write_bytes(marian_binary.written(items))
    one = sides[0].spm == sides[1].spm
    names = [f"vocab.{pair}.spm"] * 2 if one else [f"{s}vocab.{pair}.spm" for s in ("src", "trg")]
    for name, side in zip(names, sides, strict=True):
        (folder / name).write_bytes(side.spm)
    lex = f"lex.{_BEST}.{_BEST}.{pair}.s2t.bin"
    if shortlist:
        lists, first = engine_list(shortlist, *sides)
        (folder / lex).write_bytes(marian_shortlist.written(lists, first, _BEST))
    config = _CONFIG.format(
        model=model,
        vocabularies=names,
        shortlist=f"shortlist:\n  - {lex}\n  - false\n" if shortlist else "",
    )
    (folder / "config.intgemm8bitalpha.yml").write_text(config, encoding="utf-8")
    return _README.format(
        name="-".join(codes),
        origin=exported.origin,
        model=model,
        float32=float32,
        vocabulary_files=", ".join(dict.fromkeys(names)),
        shortlist_row=f"| {lex} | the short list |\n" if shortlist else "",
        arguments=", ".join(map(repr, [model, *names, *([lex] if shortlist else [])])),
        search=_SEARCH,
        pair=_PAIR if SOURCE in arrays else "",
    )


def _model_info(codes: Sequence[str], size: str) -> str:
    """Returns what translateLocally shows of a model; `size`: one of Bergamot's names of sizes."""
    source, target = codes
    info: dict[str, Any] = {
        "modelName": f"{source}-{target} {size}",
        "shortName": f"{source}-{target}-{size}",
        "type": size,
        "src": source,
        "trg": target,
        "srcTags": {source: source},
        "trgTag": target,
        "version": 1,
        "API": 1.0,
    }
    return json.dumps(info, indent=2) + "\n"
