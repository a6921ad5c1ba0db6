"""Options of a search for hyperparameters, which are `t2t-trainer`'s flags."""

import dataclasses

from t2t_lite.errors import UsageError
from t2t_lite.settings import Config, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuningConfig(Config):
    """Settings of `search.run`, with T2T's names."""

    hparams_range: str = setting(
        "",
        "Search for hyperparameters instead of one training: the name of a set of ranges. Trials "
        "are run folders in --output_dir. Needs: pip install '.[tune]'.",
        group="Search for hyperparameters",
    )
    autotune_objective: str = setting(
        "",
        "Value of an evaluation that trials are compared by: as for --best_metric, or T2T's "
        "metrics-PROBLEM/METRIC (default: --best_metric).",
    )
    autotune_maximize: bool | None = setting(
        None, "Higher is better (default: as registered for the metric)."
    )
    autotune_max_trials: int = setting(
        10, "Number of trials, including those before a resume.", minimum=1
    )
    autotune_parallel_trials: int = setting(
        1, "Trials at the same time; each takes its share of the GPUs.", minimum=1
    )
    autotune_prune: bool = setting(
        True,
        "End a trial at an evaluation that is worse than the median of the finished trials there.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hparams_range:
            return
        for field in dataclasses.fields(self):
            if getattr(self, field.name) != field.default:
                raise UsageError(f"--{field.name} is for a search: name its --hparams_range")
