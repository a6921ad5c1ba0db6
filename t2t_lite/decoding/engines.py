"""The engines by name: opens the one that decodes with trained models."""

import importlib.util
import logging
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from t2t_lite import processor
from t2t_lite.decoding.config import AUTO, FLOAT32, INT8, TENSORFLOW
from t2t_lite.decoding.engine import Engine
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UsageError, UserError
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.alignment.shortlist import Shortlist

if TYPE_CHECKING:
    from t2t_lite.search.parts import SearchPart

log = logging.getLogger(__name__)

# Batches that CTranslate2 decodes at a time on a CPU, if there are as many cores: its products are
# too small to occupy many cores. Each takes memory.
_TRANSLATORS = 4


class Opened(NamedTuple):
    """An engine, and the models that it decodes with."""

    engine: Engine
    trained: list[TrainedModel]


def open_tensorflow(
    trained: Sequence[TrainedModel],
    hparams: DecodeHParams,
    devices: Sequence[str] = ("",),
    parts: "Sequence[SearchPart]" = (),
) -> Opened:
    """Loads models, several of which are an ensemble.

    Args:
        trained: the models.
        hparams: search settings.
        devices: names of the devices to decode on; "": TensorFlow's choice.
        parts: constraints, and at most one penalty or sampler, for the search.

    Raises:
        UserError: a checkpoint cannot be read.
        UsageError: a setting does not fit the devices or the models.
    """
    from t2t_lite.decoding.devices import on_device
    from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine

    with on_device(devices[0]):
        models, found = zip(*(one.load(hparams.dtype) for one in trained), strict=True)
    dtype = hparams.dtype or found[0].run.hparams.dtype
    if _computes_on_cpu(devices) and (line := processor.slow_dtype(dtype)):
        log.warning("%s", line)
    names = [one.checkpoint for one in found]
    encoders = found[0].run.encoders
    engine = TensorFlowEngine(models, encoders, hparams, devices, names, parts)
    return Opened(engine, list(found))


def open_ctranslate2(
    trained: Sequence[TrainedModel],
    hparams: DecodeHParams,
    worker_gpu: int | None = None,
    compute_type: str = FLOAT32,
    parts: "Sequence[SearchPart]" = (),
    with_scores: bool = True,
    has_many_lines: bool = False,
) -> Opened:
    """Loads the export of a model for CTranslate2, which is made if the run folder lacks it.

    Args:
        trained: the model.
        hparams: search settings.
        worker_gpu: 0: the CPU; a number of GPUs: one of them, on which CTranslate2 decodes; None:
            a GPU, if CTranslate2 sees one.
        compute_type: one of `config.COMPUTE_TYPES`.
        parts: must be empty.
        with_scores: see `CTranslate2Engine`.
        has_many_lines: whether the cores share the batches, rather than each batch's products.

    Raises:
        UserError: CTranslate2 is missing, cannot hold the model, or lacks the type here.
        UsageError: a setting has no counterpart, or there are fewer GPUs.
    """
    from t2t_lite.decoding.ctranslate2_engine import (
        CTranslate2Engine,
        refuse_settings,
        refuse_short_list,
    )
    from t2t_lite.decoding.kept_export import kept_export

    try:
        import ctranslate2
    except ImportError:
        raise UserError(
            "--engine=ctranslate2: ctranslate2 is not installed: pip install '.[ct2]'"
        ) from None
    if len(trained) > 1:
        raise UsageError(
            f"--engine=ctranslate2 decodes with one model, not with {len(trained)}; use "
            "--engine=tensorflow for an ensemble, or average the checkpoints"
        )
    refuse_settings(hparams, parts)
    gpus = ctranslate2.get_cuda_device_count()
    if (worker_gpu or 0) > gpus:
        raise UsageError(
            f"--worker_gpu={worker_gpu} with --engine=ctranslate2, which sees {gpus or 'no'} "
            f"GPU{'s' * (gpus != 1)}: leave the flag out, or use --engine=tensorflow"
        )
    device = "cpu" if worker_gpu == 0 or not gpus else "cuda"
    kind = _compute_type(compute_type, device, ctranslate2.get_supported_compute_types(device))
    path, encoders = hparams.shortlist, trained[0].run.encoders
    shortlist = Shortlist.read(path, encoders) if path else None
    with kept_export(trained[0], kind, shortlist) as (export, found):
        if shortlist:
            refuse_short_list(shortlist, hparams, export.never_output)
        many = has_many_lines and device == "cpu"
        translators = min(_TRANSLATORS, processor.cores()) if many else 1
        translator = ctranslate2.Translator(
            str(export.folder),
            device,
            compute_type=kind,
            inter_threads=translators,
            intra_threads=processor.cores() // translators,
        )
    log.info("decoding with CTranslate2 in %s: %s", kind, found.checkpoint)
    run, name = found.run, pathlib.Path(found.checkpoint).name
    others = (run.hparams, name, with_scores)
    engine = CTranslate2Engine(translator, export, run.encoders, hparams, *others)
    return Opened(engine, [found])


def faster_engine(engine: Engine) -> str:
    """Returns a line for the log if CTranslate2 could decode in this engine's place; else ""."""
    if engine.kind != TENSORFLOW:
        return ""  # and TensorFlow need not be loaded
    from t2t_lite.decoding.ctranslate2_engine import refuse_settings
    from t2t_lite.decoding.ctranslate2_model import require_convertible
    from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine

    assert isinstance(engine, TensorFlowEngine)
    if len(engine.models) > 1:
        return ""
    try:
        refuse_settings(engine.hparams)
        require_convertible(engine.models[0])
    except UserError:
        return ""
    if not _computes_on_cpu(engine.devices):
        return ""
    remedy = "" if importlib.util.find_spec("ctranslate2") else ": pip install '.[ct2]'"
    return f"--engine=ctranslate2 decodes faster on most processors{remedy}"


def _computes_on_cpu(devices: Sequence[str]) -> bool:
    import tensorflow as tf

    if not all(devices):  # TensorFlow chooses
        return not tf.config.list_logical_devices("GPU")
    return all("CPU" in name for name in devices)


def _compute_type(asked: str, device: str, supported: set[str]) -> str:
    """Returns the type to compute in.

    8-bit products saturate without instructions of their own, so that `auto` does not take them
    there; float32 gives the outputs of TensorFlow.
    """
    if asked == AUTO:
        if device == "cuda":
            return "float16" if "float16" in supported else FLOAT32
        return INT8 if processor.has_8_bit_products() else FLOAT32
    if asked not in supported:
        raise UserError(
            f"--compute_type={asked}: CTranslate2 cannot compute in it here; choose from "
            f"{', '.join(sorted({AUTO, *supported}))}"
        )
    return asked
