"""Finds the largest `batch_size` that fits into memory by trial (`--find_batch_size`)."""

import dataclasses
import logging
import math
import pathlib
import time
from collections.abc import Callable

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.errors import UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.runs import opening
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.settings import split_assignments
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.preflight import memory
from t2t_lite.training.preflight.probe import Cost, DoesNotFitError, Request, measure
from t2t_lite.training.resolved_settings import resolve_hparams

log = logging.getLogger(__name__)

_MAX_BATCH_SIZE = 2**17  # subwords; more would not improve learning
_SECONDS = 300.0  # for a probe, including the start of its process
# The share of the largest batch that is used: batches of varying shapes fragment memory.
_SHARE = 0.9


def with_found_batch_size(
    config: TrainerConfig, t2t_usr_dir: str = "", memory_limit: int | None = None
) -> TrainerConfig:
    """Returns `config` with the largest `batch_size` whose steps fit into memory.

    A resumed run keeps the size that it was started with. Prints a table of the trials.

    Args:
        config: the run, whose `batch_size` is tried first.
        t2t_usr_dir: as for the command; empty: none.
        memory_limit: bytes of main memory to use at most; None: what is available now. On GPUs,
            their own memory is the limit.

    Raises:
        UserError: not even the smallest batch fits.
    """
    if opening.has_started(pathlib.Path(config.output_dir)):
        size = RunFolder.open(config.output_dir).hparams.batch_size
        log.info("%s is resumed with its batch_size=%d", config.output_dir, size)
        return _with_batch_size(config, size)
    limit = memory.available() if memory_limit is None else memory_limit
    hparams = resolve_hparams(config)
    try:
        replicas = measure(Request(config, t2t_usr_dir), _SECONDS).replicas
    except DoesNotFitError as error:
        raise UserError(f"the model alone does not fit into memory: {error}") from None
    most = _MAX_BATCH_SIZE
    if hparams.effective_batch_size:
        most = math.ceil(hparams.effective_batch_size / replicas)
    least = min(largest_shape(hparams, 1)[1], most)
    print(f"{'batch_size':>10}  {'largest batch':>14}  {'peak MiB':>9}  {'seconds':>7}")

    def fits(size: int) -> bool:
        shape = largest_shape(hparams, size)
        request = Request(
            _with_batch_size(config, size), t2t_usr_dir, shapes=[shape], memory_limit=limit
        )
        start = time.monotonic()
        cost: Cost | None = None
        reason = ""
        try:
            cost = measure(request, _SECONDS)
        except DoesNotFitError as error:
            reason = f"  does not fit: {error}"
        peak = f"{cost.peaks[0] / 2**20:,.0f}" if cost else "-"
        if cost and not (cost.on_gpu or memory.HAS_PROC) and cost.peaks[0] > limit:
            reason = f"  does not fit: the peak is above {limit / 2**20:,.0f} MiB"
        seconds = time.monotonic() - start
        shown = f"{shape[0]:,} × {shape[1]:,}"
        print(f"{size:>10,}  {shown:>14}  {peak:>9}  {seconds:>7.1f}{reason}", flush=True)
        return not reason

    found = largest_fitting(fits, least, hparams.batch_size, most)
    if found is None:
        raise UserError(
            f"not even batch_size={least} fits into memory: lower "
            f"max_length={hparams.max_length} with --hparams, or choose a smaller model"
        )
    # No reserve is needed if something other than memory set the limit.
    size = found if found == most else max(least, int(_SHARE * found))
    print(f"batch_size={size}; to use it in other runs: --hparams=batch_size={size}")
    return _with_batch_size(config, size)


def largest_fitting(fits: Callable[[int], bool], least: int, start: int, most: int) -> int | None:
    """Finds the largest number that fits, to within an eighth, by doubling and bisection.

    Args:
        fits: whether a number fits; if one does, so must all smaller ones.
        least: the smallest number to try.
        start: the first number to try.
        most: the largest number to try.

    Returns:
        A number that fits, while one greater by an eighth (or by 1) does not, or exceeds `most`;
        None if `least` does not fit.
    """
    fitting, failing = None, most + 1
    size = min(max(start, least), most)
    while True:
        if fits(size):
            fitting = size
        else:
            failing = size
        if fitting is None:
            size = max(least, failing // 2)
        elif failing > most:
            size = min(2 * fitting, most)
        elif failing - fitting <= fitting // 8:
            return fitting
        else:
            size = (fitting + failing) // 2
        if size in (fitting, failing):
            return fitting


def largest_shape(hparams: BasicHParams, batch_size: int) -> tuple[int, int]:
    """Returns (sentences, subwords) that bound every batch of `batch_size` in cells and length.

    Unlike `worst_bucket`, which rounds the number of sentences, it is monotonic in `batch_size`.
    """
    scheme = BatchingScheme.from_hparams(hparams.copy(batch_size=batch_size), training=True)
    return math.ceil(batch_size / scheme.max_length), scheme.max_length


def _with_batch_size(config: TrainerConfig, size: int) -> TrainerConfig:
    others = [
        change
        for change in split_assignments(config.hparams)
        if change.partition("=")[0].strip() != "batch_size"
    ]
    return dataclasses.replace(config, hparams=",".join([*others, f"batch_size={size}"]))
