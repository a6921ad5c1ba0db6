"""The page of `t2t-report` on a search for hyperparameters: its trials, and what mattered."""

import itertools
import pathlib
import warnings
from collections.abc import Mapping, Sequence

from t2t_lite import pages
from t2t_lite.runs.search_folder import SearchFolder, State, Trial, best_trial
from t2t_lite.study.reports.line_plot import Curve, colour, dashes, line_plot

# Of the trials, the better ones, whose hyperparameters are compared with those of all. Optuna's own
# share is a tenth, which of a dozen trials is one.
_GOOD_SHARE = 0.5


def search_page(folder: pathlib.Path) -> str:
    """Returns the page on the search in a folder as HTML.

    Raises:
        UserError: the folder cannot be read.
    """
    search = SearchFolder.open(folder)
    trials, objective = search.trials(), search.criterion.name
    best = best_trial(trials, search.criterion)
    curves = [
        Curve(f"trial {trial.number}", [*search.curve(trial.number).items()], trial.number)
        for trial in trials
    ]
    return pages.render(
        "study/reports/search.html",
        title=folder.resolve().name,
        problem=search.settings["problem"],
        about=f"{objective}, {'lower' if search.criterion.minimize else 'higher'} is better",
        best=best,
        objective=objective,
        plots=[
            line_plot(objective, "step", curves),
            line_plot(f"best {objective} so far", "trial", [_best_so_far(trials, search)]),
        ],
        lines=[(trial.number, colour(trial.number), dashes(trial.number)) for trial in trials],
        importances=_importances(search),
        ranges=search.settings["ranges"],
        trials=trials,
    )


def _best_so_far(trials: Sequence[Trial], search: SearchFolder) -> Curve:
    """Returns the best value of the first trials, by the number of the last one of these."""
    choose = min if search.criterion.minimize else max
    values = [
        (t.number, t.value) for t in trials if t.value is not None and t.state is State.COMPLETE
    ]
    best = itertools.accumulate((value for _, value in values), choose)
    return Curve("best", [*zip((number for number, _ in values), best, strict=True)], 0)


def _importances(search: SearchFolder) -> Mapping[str, float]:
    """Returns the share of each hparam in what makes trials good, the largest first.

    That is Optuna's PED-ANOVA. A trial that was ended early counts with its best value, so that a
    dozen trials are enough to tell something; it needs at least two of them.
    """
    import optuna

    study = search.study
    values = optuna.create_study(direction=study.direction)
    for trial in study.get_trials(deepcopy=False):
        best = search.best(trial.number)
        if trial.state.name in ("COMPLETE", "PRUNED") and best:
            values.add_trial(
                optuna.trial.create_trial(
                    value=best[1], params=trial.params, distributions=trial.distributions
                )
            )
    if len(values.trials) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=_GOOD_SHARE)
        return optuna.importance.get_param_importances(values, evaluator=evaluator)
