"""Makes a run folder of a model from elsewhere: Marian, Hugging Face, tensor2tensor."""

import dataclasses
import logging
import os
import pathlib

import tensorflow as tf

from t2t_lite import files, registry
from t2t_lite.errors import UserError, first_line
from t2t_lite.interop.imports import HUGGING_FACE, IS_8_BITS, MARIAN, T2T, hugging_face, marian
from t2t_lite.interop.imports.open_model import OpenModel
from t2t_lite.interop.imports.run import save
from t2t_lite.interop.imports.weights import assign
from t2t_lite.layers.base import without_initial_values
from t2t_lite.runs import run_creation
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.languages import Languages, speaking

log = logging.getLogger(__name__)

_SIDES = {"inputs": "source", "targets": "target"}
_SHORTLIST = "shortlist.txt"  # in the run folder
_PROBLEM, _MODEL, _SET = "translate_imported", "transformer", "transformer_finetune"


def kind_of(model_dir: str) -> str:
    """Returns the kind of a model: `MARIAN`, `HUGGING_FACE` or `T2T`.

    Raises:
        UserError: there is nothing.
    """
    path = pathlib.Path(model_dir)
    if not path.exists():
        raise UserError(f"{path} does not exist: correct --model_dir")
    if hugging_face.is_hugging_face(path):
        return HUGGING_FACE
    return MARIAN if marian.is_marian(path) else T2T


def import_run(
    model_dir: str,
    output_dir: str,
    *,
    kind: str = "",
    checkpoint_path: str = "",
    source_language: str = "",
    target_language: str = "",
) -> None:
    """Converts a model of Marian or Hugging Face to a run folder.

    The new folder is for decoding, evaluation, export and warm starts. It appears whole or not at
    all.

    Args:
        model_dir: the folder of the model, as downloaded, or the model of Marian in it.
        output_dir: the run folder to create; must be missing or empty.
        kind: marian or huggingface; "": as `kind_of` finds.
        checkpoint_path: as for `marian.read`.
        source_language: the default of a model of several, by its code.
        target_language: the same.

    Raises:
        UserError: something is missing, damaged, or has no counterpart here.
    """
    kind = kind or kind_of(model_dir)
    path = pathlib.Path(model_dir)
    log.info("%s holds a model of %s", path, kind)
    model = marian.read(path, checkpoint_path) if kind == MARIAN else hugging_face.read(path)
    try:
        with files.whole_folder(output_dir) as new:
            encoders = _write_vocabularies(model, new, Languages(source_language, target_language))
            if model.shortlist:
                model.shortlist.write(str(new / _SHORTLIST), encoders)
            _write(model, new, output_dir)
    except tf.errors.OpError as error:
        raise UserError(f"cannot write {output_dir}: {first_line(error)}") from error
    log.info("wrote run folder %s", output_dir)
    if model.shortlist:
        log.info("it has the model's short list: --shortlist=%s/%s", output_dir, _SHORTLIST)


def _write_vocabularies(
    model: OpenModel, folder: pathlib.Path, languages: Languages
) -> dict[str, ImportedEncoder]:
    """Writes the vocabularies, with the default languages if they are known; returns encoders."""
    paths = {name: folder / f"vocab.imported.{side}.json" for name, side in _SIDES.items()}
    for vocabulary, path in zip((model.source, model.target), paths.values(), strict=True):
        vocabulary.write(path)
    encoders = {name: ImportedEncoder(path) for name, path in paths.items()}
    for vocabulary, (name, encoder) in zip(
        (model.source, model.target), speaking(encoders, languages).items(), strict=True
    ):
        if isinstance(encoder, ImportedEncoder) and encoder is not encoders[name]:
            dataclasses.replace(vocabulary, language=encoder.language).write(paths[name])
    return encoders


def _write(model: OpenModel, folder: pathlib.Path, output_dir: str) -> None:
    settings = RunSettings(
        problem=_PROBLEM,
        model=_MODEL,
        hparams_set=_SET,
        data_dir=os.path.abspath(output_dir),  # where the vocabulary is
        output_dir=os.path.abspath(output_dir),
        published_decode_hparams=model.decode_hparams,
        # Every run has these; they mean nothing without training.
        random_seed=0,
        parts=1,
        others={
            "hparams": "",
            "imported_from": os.path.abspath(model.path),
            IS_8_BITS: model.is_8_bits,
        },
    )
    with without_initial_values():
        transformer = registry.model(_MODEL)(
            model.hparams, len(model.source.pieces), len(model.target.pieces)
        )
    assign(transformer, model.parts, model.tensors, model.path)
    run_creation.write_run(folder, settings, model.hparams, str(folder))
    save(transformer, 0, folder)
    log.info("%s: %s parameters", model.path, f"{transformer.count_params():,}")
