"""The trained models that a decoding run is told to use."""

import dataclasses
import glob
import logging
import pathlib
from collections.abc import Sequence
from typing import Any

from t2t_lite import files
from t2t_lite.checkpoints.names import named_checkpoint
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.devices import decoding_devices, on_device
from t2t_lite.errors import UsageError, UserError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.search.decode_hparams import DecodeHParams

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Trained:
    """One checkpoint, and the run that it is of."""

    run: run_folder.RunFolder
    checkpoint: str

    def files(self) -> list[pathlib.Path]:
        """Returns the files that it is read from, and all others of the run folder's own."""
        path = pathlib.Path(self.checkpoint)
        return [*self.run.own_files(), *path.parent.glob(glob.escape(path.name) + ".*")]

    def load(self) -> Seq2Seq:
        """Builds the model and reads its weights.

        Raises:
            UserError: they cannot be read, or do not fit.
        """
        model, step = self.run.load_model(self.checkpoint)
        log.info("restored %s after step %d", self.checkpoint, step)
        return model

    def origin(self) -> dict[str, Any]:
        """Returns what decides what the model says, for JSON."""
        names = [self.run.folder / name for name in self.run.problem.vocab_files()]
        # A checkpoint's index has a checksum of every value.
        paths = [pathlib.Path(self.checkpoint + checkpoint_files.CHECKPOINT_INDEX), *names]
        return {"hparams": self.run.hparams.to_dict(), "files": [files.digest(p) for p in paths]}


def find_trained(config: DecoderConfig) -> list[Trained]:
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
                f"{other.run.folder} is of problem {other.run.problem.name}, {first.folder} of "
                f"{first.problem.name}: only models of one problem decode together"
            )
        if _vocabulary(other.run) != _vocabulary(first):
            raise UserError(
                f"the vocabularies in {other.run.folder} and {first.folder} differ: models decode "
                "together only if they were trained on the same --data_dir"
            )
    return trained


def load_decoder(config: DecoderConfig, trained: Sequence[Trained]) -> Decoder:
    """Returns the decoder of a run: its models on its devices.

    Raises:
        UserError: a checkpoint cannot be read, or a device is not there.
        UsageError: an unknown decode hparam, or one that does not fit the problem.
    """
    run = trained[0].run
    hparams = DecodeHParams.of(run.problem, config.decode_hparams)
    devices = decoding_devices(config.worker_gpu)
    with on_device(devices[0]):
        models = [one.load() for one in trained]
    return Decoder(
        models,
        run.problem,
        run.encoders,
        hparams,
        devices,
        config.long_input,
        with_details=config.output_format == "json",
        names=[one.checkpoint for one in trained],
    )


def _find(name: str, config: DecoderConfig) -> Trained:
    """Opens the run folder of a checkpoint, its own or else `output_dir`; "": the newest there."""
    folder = config.output_dir
    path = named_checkpoint(name, folder) if name else ""
    own = pathlib.Path(path).parent
    if path and (not folder or (own / run_folder.FLAGS).is_file()):
        folder = str(own)
    opened = run_folder.open_run(folder)
    there = {
        "problem": opened.problem.name,
        "model": opened.model_name,
        "hparams_set": opened.hparams_set,
    }
    for name, value in there.items():
        given = getattr(config, name)
        if given and given != value:
            raise UsageError(
                f"--{name}={given}, but {folder} was trained with {value}: leave the flag out, "
                "or name another run folder"
            )
    hparams = opened.hparams.override(config.hparams).freeze()
    opened = dataclasses.replace(opened, hparams=hparams)
    return Trained(opened, path or opened.latest_checkpoint())


def _vocabulary(run: run_folder.RunFolder) -> list[tuple[str, bytes]]:
    return [(name, (run.folder / name).read_bytes()) for name in run.problem.vocab_files()]
