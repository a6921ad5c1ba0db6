"""Finds and loads the trained models of a decoding run."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.decoding.config import CTRANSLATE2, JSON, TEXT, DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.engines import open_ctranslate2, open_tensorflow
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UsageError, UserError
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.runs.checkpoint_names import named_model

if TYPE_CHECKING:
    from t2t_lite.decoding.quality import QualityModel

log = logging.getLogger(__name__)


def find_models(config: DecoderConfig) -> list[TrainedModel]:
    """Returns the checkpoints to decode with, all of one problem and vocabulary, fingerprinted.

    Raises:
        UserError: a run folder or checkpoint is missing, or problems or vocabularies differ.
        UsageError: a setting contradicts a run folder.
    """
    given = config.checkpoint_path
    if isinstance(given, str):
        given = tuple(checkpoint_files.split_checkpoints(given, config.output_dir))
    trained = [_find(name, config) for name in given or [""]]
    first = trained[0].run
    for other in trained[1:]:
        if other.run.problem.name != first.problem.name:
            raise UserError(
                f"{other.run.folder} was trained on problem {other.run.problem.name}, "
                f"{first.folder} on {first.problem.name}: the models of an ensemble must have the "
                "same problem"
            )
        if _vocabulary(other.run) != _vocabulary(first):
            raise UserError(
                f"the vocabularies in {other.run.folder} and {first.folder} differ: the models of "
                "an ensemble must be trained on the same --data_dir"
            )
    return trained


def load_decoder(
    config: DecoderConfig, trained: Sequence[TrainedModel]
) -> tuple[Decoder, list[TrainedModel]]:
    """Returns the decoder of a run, with the engine of the flags; and what was loaded.

    Raises:
        UserError: a checkpoint cannot be read, or a device is missing.
        UsageError: an unknown decode hparam, or one that does not fit the problem or engine.
    """
    run = trained[0].run
    hparams = config.search_settings(run)
    quality = opened_quality(config.quality_run)  # its faults are named before a translator loads
    with_details = config.output_format != TEXT
    if config.engine == CTRANSLATE2:
        shows_scores = (
            config.output_format == JSON or hparams.return_beams or hparams.write_beam_scores
        )
        opened = open_ctranslate2(
            trained,
            hparams,
            config.worker_gpu,
            config.compute_type,
            with_scores=shows_scores,
            has_many_lines=not config.decode_interactive,
        )
    else:
        from t2t_lite.decoding.devices import decoding_devices  # loads TensorFlow

        opened = open_tensorflow(trained, hparams, decoding_devices(config.worker_gpu))
    for one in opened.trained:
        one.require_same_vocabulary()
    decoder = Decoder(opened.engine, run.problem, config.long_input, with_details, quality)
    return decoder, opened.trained


def opened_quality(folder: str) -> "QualityModel | None":
    """Returns the quality model of a run folder; "": none."""
    if not folder:
        return None
    from t2t_lite.decoding.quality import QualityModel  # loads TensorFlow

    return QualityModel(folder)


def _find(name: str, config: DecoderConfig) -> TrainedModel:
    """Opens the run folder of a checkpoint, and applies the flags to it; see `named_model`."""
    run, path = named_model(name, config.output_dir)
    recorded = {
        "problem": run.problem.name,
        "model": run.model_name,
        "hparams_set": run.hparams_set,
    }
    for name, value in recorded.items():
        given = getattr(config, name)
        meant = registry.problem(given).name if given and name == "problem" else given
        if meant and meant != value:
            raise UsageError(
                f"--{name}={given}, but {run.folder} was trained with {value}: leave the flag out, "
                "or name another run folder"
            )
    hparams = run.hparams.override(config.hparams).freeze()
    for field, (own, trained) in hparams.computed_otherwise(run.hparams).items():
        log.warning(
            "--hparams=%s=%s: %s was trained with %s, and its weights compute something else",
            *(field, own, run.folder, trained),
        )
    run = dataclasses.replace(run, hparams=hparams)
    return TrainedModel(run, path or "").fingerprinted()


def _vocabulary(run: run_folder.RunFolder) -> list[tuple[str, bytes]]:
    return [(name, (run.folder / name).read_bytes()) for name in run.problem.vocab_files()]
