"""Ends poor trials at their evaluations."""

import dataclasses

import optuna

from t2t_lite.runs.search_folder import SearchFolder

_STARTUP = 2  # trials that are finished before others are compared with them
_SHARE = 0.25  # of the updates, before the first comparison


@dataclasses.dataclass(frozen=True)
class Pruning:
    """The end of a trial that is worse than the median of the finished ones at an evaluation.

    It is derived from the evaluations of the trial's run and from the study, so that a trial that
    was killed and resumed ends where it would have ended.

    Attributes:
        search: the folder of the search.
        number: that of the trial.
        train_steps: the updates of a trial that is not ended.
    """

    search: SearchFolder
    number: int
    train_steps: int

    def is_due(self) -> bool:
        """Tells the study the evaluations so far; returns whether the trial should end."""
        trial = self.search.report(self.number)
        is_over = max(trial.intermediate_values, default=0) >= self.train_steps
        if is_over or not self.search.settings["prune"]:
            return False
        pruner = optuna.pruners.MedianPruner(_STARTUP, int(_SHARE * self.train_steps))
        return pruner.prune(self.search.study, trial)
