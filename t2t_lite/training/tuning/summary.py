"""What a search tells of its trials."""

from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.runs.search_folder import SearchFolder, State, Trial, best_trial
from t2t_lite.settings import meant_by, to_assignments
from t2t_lite.training.config import TrainerConfig

_SET = '''\
@registry.register_hparams
def {name}_tuned():
    """`{name}`, tuned for {problem}: {objective} {value:.5g}."""
    return registry.hparams("{name}").copy(
{fields}
    )
'''


def outcome(trial: Trial, search: SearchFolder) -> str:
    """Describes a trial that has ended."""
    if trial.state is State.FAILED:
        return f"trial {trial.number} failed: {trial.reason}"
    name = search.criterion.name
    return f"trial {trial.number} is {trial.state.value}: {name} {trial.value:.5g} at {trial.step}"


def best_so_far(trials: Sequence[Trial], search: SearchFolder) -> str:
    """Names the best of the trials that are complete."""
    best = best_trial(trials, search.criterion)
    return f"best so far: trial {best.number}, {best.value:.5g}" if best else "none is complete yet"


def summary(config: TrainerConfig, search: SearchFolder) -> str:
    """Returns the best trial's hyperparameters: as a flag, and as a set to register.

    Raises:
        UserError: no trial is complete, or the folders of those that are have been deleted.
    """
    trials = search.trials()
    best = best_trial(trials, search.criterion)
    if best is None and any(trial.state is State.COMPLETE for trial in trials):
        raise UserError(
            f"the folders of all complete trials in {search.folder} are deleted: restore one, or "
            "search again with another --output_dir"
        )
    if best is None:
        reasons = (f"the first failed so: {trial.reason}" for trial in trials if trial.reason)
        raise UserError(
            f"none of the {len(trials)} trials in {search.folder} is complete; "
            f"{next(reasons, 'all were pruned')}"
        )
    base = registry.hparams(config.hparams_set)
    changes = ",".join(
        filter(None, [config.hparams, *(f"{n}={v}" for n, v in best.hparams.items())])
    )
    tuned = base.override(changes)
    names = [*meant_by(changes)]
    fields = "\n".join(f"        {name}={getattr(tuned, name)!r}," for name in names)
    objective = search.criterion.name
    counts = ", ".join(f"{sum(t.state is state for t in trials)} {state.value}" for state in State)
    return "\n".join(
        [
            f"{len(trials)} trials: {counts}",
            f"best: trial {best.number}, {objective} {best.value:.5g} at step {best.step}, in "
            f"{best.folder}",
            f"--hparams={to_assignments(tuned, names)}",
            "",
            _SET.format(
                name=config.hparams_set,
                problem=config.problem,
                objective=objective,
                value=best.value,
                fields=fields,
            ),
        ]
    )
