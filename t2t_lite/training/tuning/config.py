"""Options of a search for hyperparameters, which are `t2t-trainer`'s flags."""

import dataclasses

from t2t_lite.settings import Config, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuningConfig(Config):
    """Settings of `search.run`, with T2T's names."""

    hparams_range: str = setting(
        "",
        "Name of a set of ranges: search in them for hyperparameters, by many trainings (trials). "
        "Each trial is a run folder in --output_dir. Needs: pip install '.[tune]'.",
        group="Search for hyperparameters",
    )
    autotune_objective: str = setting(
        "",
        "Metric by which trials are compared, named as for --best_metric, or as in T2T: "
        "metrics-PROBLEM/METRIC (default: --best_metric).",
        needs="hparams_range",
    )
    autotune_maximize: bool | None = setting(
        None,
        "Higher is better (default: as registered for the metric).",
        needs="hparams_range",
    )
    autotune_max_trials: int = setting(
        10,
        "Number of trials, including those before a resume.",
        minimum=1,
        needs="hparams_range",
    )
    autotune_parallel_trials: int = setting(
        1,
        "Trials at the same time; each takes its share of the GPUs.",
        minimum=1,
        needs="hparams_range",
    )
    autotune_prune: bool = setting(
        True,
        "End a trial at an evaluation that is worse than the median of the finished trials at the "
        "same update.",
        needs="hparams_range",
    )
