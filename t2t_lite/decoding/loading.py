"""Finds and loads the trained models of a decoding run."""

import dataclasses
import glob
import logging
import pathlib
from collections.abc import Sequence
from typing import Any

from t2t_lite import files
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.devices import decoding_devices, on_device
from t2t_lite.decoding.engine import Engine
from t2t_lite.errors import UsageError, UserError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.runs.checkpoint_names import named_model
from t2t_lite.search.decode_hparams import DecodeHParams

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """One checkpoint, and the run that wrote it."""

    run: run_folder.RunFolder
    checkpoint: str  # its prefix; "" until the newest readable one is loaded

    def files(self) -> list[pathlib.Path]:
        """Returns the files of the checkpoint and all files that belong to the run folder."""
        path = pathlib.Path(self.checkpoint)
        return [*self.run.own_files(), *path.parent.glob(glob.escape(path.name) + ".*")]

    def load(self, dtype: str = "") -> tuple[Seq2Seq, "TrainedModel"]:
        """Builds the model and reads its weights; `dtype`: see `RunFolder.load_model`.

        Returns:
            The model; this, with the checkpoint that was read.

        Raises:
            UserError: the weights cannot be read or do not fit.
        """
        model, step, checkpoint = self.run.load_model(self.checkpoint or None, dtype)
        log.info("restored %s after step %d", checkpoint, step)
        return model, dataclasses.replace(self, checkpoint=checkpoint)

    def origin(self) -> dict[str, Any]:
        """Returns everything that determines the model's outputs, for JSON."""
        names = [self.run.folder / name for name in self.run.problem.vocab_files()]
        # A checkpoint's index holds a checksum of every value.
        paths = [pathlib.Path(self.checkpoint + checkpoint_files.CHECKPOINT_INDEX), *names]
        return {"hparams": self.run.hparams.to_dict(), "files": [files.digest(p) for p in paths]}


def find_models(config: DecoderConfig) -> list[TrainedModel]:
    """Returns the checkpoints to decode with, all of one problem and vocabulary.

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
    """Returns the decoder of a run, with its models on its devices; and what was loaded.

    Raises:
        UserError: a checkpoint cannot be read, or a device is missing.
        UsageError: an unknown decode hparam, or one that does not fit the problem.
    """
    run = trained[0].run
    hparams = DecodeHParams.of(run, config.decode_hparams)
    devices = decoding_devices(config.worker_gpu)
    with on_device(devices[0]):
        models, trained = zip(*(one.load(hparams.dtype) for one in trained), strict=True)
    names = [one.checkpoint for one in trained]
    engine = Engine(models, run.encoders, hparams, devices, names)
    with_details = config.output_format == "json"
    decoder = Decoder(engine, run.problem, config.long_input, with_details)
    return decoder, list(trained)


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
        if given and given != value:
            raise UsageError(
                f"--{name}={given}, but {run.folder} was trained with {value}: leave the flag out, "
                "or name another run folder"
            )
    hparams = run.hparams.override(config.hparams).freeze()
    run = dataclasses.replace(run, hparams=hparams)
    return TrainedModel(run, path or "")


def _vocabulary(run: run_folder.RunFolder) -> list[tuple[str, bytes]]:
    return [(name, (run.folder / name).read_bytes()) for name in run.problem.vocab_files()]
