"""One trial of a search, in a process of its own, so that it may run out of memory.

`python -m t2t_lite.bin.console t2t_lite.training.tuning.trial` reads a `Request` as JSON from the
first line of its input, trains, and tells the study what has become of the trial. It ends with its
parent, whose end closes the input.
"""

import logging
import os
import pathlib
import sys
import threading
import traceback
from collections.abc import Callable

import optuna
import tensorflow as tf

from t2t_lite import t2t_flags, usr_dirs
from t2t_lite.errors import UntrainableError, UsageError, UserError, first_line
from t2t_lite.progress import log_lines
from t2t_lite.runs.search_folder import REASON, SearchFolder
from t2t_lite.training import trainer
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.tuning.process import INTERRUPTED, Request
from t2t_lite.training.tuning.pruning import Pruning

log = logging.getLogger(__name__)


def run(request: Request) -> None:
    """Trains, or goes on, and tells the study the outcome.

    Raises:
        UserError: the hyperparameters are not to blame: the data is damaged or has
            changed, a disk is full, a callback has failed, or SIGTERM arrived
            (`PreemptionError`). The trial can go on once that is mended.
        OSError: the same.
    """
    if request.t2t_usr_dir:
        t2t_flags.publish(request.flags)
        usr_dirs.import_usr_dir(request.t2t_usr_dir)
    search, number = SearchFolder.open(pathlib.Path(request.search)), request.number
    study = search.study
    pruning = Pruning(search, number, request.config.train_steps)
    is_pruned = False

    def ends() -> bool:
        nonlocal is_pruned
        is_pruned = is_pruned or pruning.is_due()  # for good: other trials may end meanwhile
        return is_pruned

    reason = _train(request.config, ends)
    best = search.best(number)
    if not reason and best is None:
        reason = f"no evaluation has a finite {search.criterion.name}"
    if reason or best is None:
        log.error("%s", reason)
        search.note(number, REASON, reason)
        study.tell(number, state=optuna.trial.TrialState.FAIL)
    elif is_pruned:
        log.info("ended early: the evaluation is worse than the median of the finished trials")
        study.tell(number, state=optuna.trial.TrialState.PRUNED)
    else:
        study.tell(number, best[1])


def _train(config: TrainerConfig, ends: Callable[[], bool]) -> str:
    """Trains until the end, or until `ends` says so; returns why that failed, or ""."""
    try:
        if not ends():
            trainer.run(config, ends=ends)
    except (UsageError, UntrainableError) as error:
        return str(error)
    except (UserError, OSError):
        raise
    except tf.errors.ResourceExhaustedError:
        return "the model does not fit into memory"
    except Exception as error:  # what a model or library makes of hparams that do not go together
        traceback.print_exc()
        return f"{type(error).__name__}: {first_line(error)}"
    return ""


def _end_with_parent() -> None:
    """Ends this process when its input ends; otherwise a killed search would leave trainers."""
    os.read(sys.stdin.fileno(), 1)  # not `sys.stdin.read`, whose lock would outlive this thread
    os._exit(INTERRUPTED)


def main() -> int:
    """Runs the trial of the request; returns the exit code."""
    request = Request.from_json(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with log_lines():
            run(request)
    except KeyboardInterrupt:
        return INTERRUPTED
    except UserError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
