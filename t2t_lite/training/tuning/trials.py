"""The trials of a search: draws them, runs each in a process of its own, notes what becomes of it.

A trial is recorded with its hyperparameters before it is run, and its process tells the study what
has become of it. So a search that was killed begins by going on with the trials that ran.
"""

import dataclasses
import logging
import signal
import time
from collections.abc import Mapping, Sequence

import optuna

from t2t_lite.errors import UserError
from t2t_lite.hparams.ranges import Range
from t2t_lite.runs.search_folder import HPARAMS, REASON, SearchFolder, State
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.preemption import PreemptionError, StopSignals
from t2t_lite.training.tuning import proposals, summary
from t2t_lite.training.tuning.config import TuningConfig
from t2t_lite.training.tuning.process import INTERRUPTED, Request, TrialProcess

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
# A process that died without having saved anything is started this often.
_ATTEMPTS = 2


@dataclasses.dataclass
class Trials:
    """The trials of a search.

    Attributes:
        config: the training that trials vary.
        tuning: the search.
        t2t_usr_dir: as for the command.
        search: its folder.
        ranges: what is varied.
        gpus: what CUDA_VISIBLE_DEVICES is for each of the trials at the same time; "": as it is.
    """

    config: TrainerConfig
    tuning: TuningConfig
    t2t_usr_dir: str
    search: SearchFolder
    ranges: Mapping[str, Range]
    gpus: Sequence[str]

    def __post_init__(self) -> None:
        self._running: dict[int, TrialProcess] = {}  # by slot
        self._deaths: dict[int, tuple[int, int]] = {}  # by trial: newest step, and how often there

    def run(self) -> None:
        """Runs the trials that are missing."""
        with StopSignals() as stop, stop.held():
            try:
                self._start_next()
                while self._running and not stop.received:
                    time.sleep(_POLL_SECONDS)
                    for slot, process in [*self._running.items()]:
                        if (code := process.code()) is not None:
                            del self._running[slot]
                            self._end(process, code)
                            self._start_next()
            finally:
                self._stop_all()

    def _stop_all(self) -> None:
        if self._running:
            log.info("waiting until %d trial(s) have saved", len(self._running))
        for process in self._running.values():
            process.stop()
        for process in self._running.values():
            process.wait()

    def _start_next(self) -> None:
        """Starts as many trials as may run: first those that a killed search has left."""
        for slot, gpus in enumerate(self.gpus):
            if slot in self._running:
                continue
            number = self._next()
            if number is None:
                return
            config = self._config_of(number)
            request = Request(str(self.search.folder), number, config, self.t2t_usr_dir)
            self._running[slot] = TrialProcess(request, gpus)
            log.info("trial %d: %s", number, self._hparams_of(number))

    def _next(self) -> int | None:
        """Returns the number of a trial to run, which is drawn if need be; None: there is none."""
        trials = self.search.study.get_trials(deepcopy=False)
        busy = {process.number for process in self._running.values()}
        for trial in trials:
            if not trial.state.is_finished() and trial.number not in busy:
                return trial.number
        if len(trials) >= self.tuning.autotune_max_trials:
            return None
        among = proposals.distributions(self.ranges)
        is_parallel = len(self.gpus) > 1
        seed = self.search.settings["random_seed"]
        drawn = proposals.draw(self.search.study, among, seed, trials, is_parallel)
        hparams = proposals.hparams_of(drawn, self.ranges)
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState.RUNNING,
            params=drawn,
            distributions=dict(among),
            user_attrs={HPARAMS: ",".join(f"{name}={value}" for name, value in hparams.items())},
        )
        self.search.study.add_trial(trial)  # all at once, so that a kill leaves no half of it
        return len(trials)

    def _hparams_of(self, number: int) -> str:
        return self.search.drawn(self.search.study.trials[number])

    def _config_of(self, number: int) -> TrainerConfig:
        changes = filter(None, (self.config.hparams, self._hparams_of(number)))
        return dataclasses.replace(
            self.config,
            hparams=",".join(changes),
            output_dir=str(self.search.trial_folder(number)),
            random_seed=self.search.settings["random_seed"],
            best_metric=self.config.best_metric or self.search.criterion.name,
        )

    def _end(self, process: TrialProcess, code: int) -> None:
        """Logs what has become of a trial; a process that died is started again, or has failed.

        Raises:
            PreemptionError: it was stopped.
            UserError: it ended, and its hyperparameters are not to blame.
        """
        if code in (PreemptionError.exit_code, -signal.SIGTERM, INTERRUPTED, -signal.SIGINT):
            raise PreemptionError("a trial was stopped by SIGTERM; run the same command to resume")
        if code > 0:
            raise UserError(
                f"trial {process.number} ended with code {code}, and {process.log} says why; run "
                "the same command to resume"
            )
        if code < 0:
            self._note_death(process.number, -code)
        trials = self.search.trials()
        trial = trials[process.number]
        if trial.state is not State.RUNNING:
            log.info(
                "%s; %s",
                summary.outcome(trial, self.search),
                summary.best_so_far(trials, self.search),
            )

    def _note_death(self, number: int, signal_number: int) -> None:
        """Gives up a trial whose process dies again and again without a newer checkpoint."""
        step = self.search.newest_step(number)
        before, count = self._deaths.get(number, (step, 0))
        count = count + 1 if step == before else 1
        self._deaths[number] = step, count
        reason = f"killed by signal {signal_number}; most likely, memory ran out"
        if count >= _ATTEMPTS:
            self.search.note(number, REASON, reason)
            self.search.study.tell(number, state=optuna.trial.TrialState.FAIL)
        else:
            log.warning("trial %d: %s; it goes on from its checkpoint", number, reason)
