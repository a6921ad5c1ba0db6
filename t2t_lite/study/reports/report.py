"""The page of `t2t-report`: curves, scores and settings of runs, in one HTML file.

It is written without TensorFlow, and needs neither scripts nor network access.
"""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from t2t_lite import extras, files, pages
from t2t_lite.errors import UsageError, UserError
from t2t_lite.metrics.by_name import find_metric
from t2t_lite.metrics.parts import labels_in, split_field
from t2t_lite.progress import duration
from t2t_lite.runs.metrics_jsonl import METRICS, read_records
from t2t_lite.runs.run_folder import own_files, read_settings, read_summary
from t2t_lite.runs.search_folder import is_search, search_files
from t2t_lite.runs.selection import evaluators_records
from t2t_lite.study.reports.line_plot import Curve, colour, dashes, line_plot
from t2t_lite.study.reports.search_page import search_page

# Settings that are shown even if they are equal in all runs.
_ALWAYS_SHOWN = ("problem", "model", "hparams_set")
# Settings that only say where something is; `hparams` is shown resolved.
_NEVER_SHOWN = ("output_dir", "data_dir", "hparams")
_ABSENT = "–"

Row = tuple[str, list[str]]  # a title, and a cell for each run


class Series(NamedTuple):
    """A field of metrics.jsonl over steps."""

    kind: str  # of the records: train or eval
    field: str
    title: str
    best: Callable[[Iterable[float]], float] | None = None  # None: neither end is better


_TRAINING_LOSS = Series("train", "loss", "training loss")
_OTHER_TRAINING = (
    Series("train", "learning_rate", "learning rate"),
    Series("train", "gradient_norm", "gradient norm"),
    Series("train", "padding_share", "padding (share of a batch)"),
)


@dataclasses.dataclass(frozen=True)
class RunHistory:
    """The contents of a run folder that the page shows.

    Attributes:
        name: distinguishes the run from the others.
        settings: flags and hyperparameters.
        records: the records of metrics.jsonl, in its order.
        cost: the contents of summary.json; empty if there is none.
    """

    name: str
    settings: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    cost: Mapping[str, Any]

    def points(self, series: Series) -> list[tuple[int, float]]:
        """Returns (step, value) in step order; if a step has several records, the last counts."""
        found = {
            record["step"]: float(record[series.field])
            for record in self.records
            if record["kind"] == series.kind and series.field in record
        }
        return sorted(found.items())


def _series(runs: Sequence[RunHistory]) -> list[Series]:
    """Returns the series on the page: loss, the metrics of the evaluations, and the rest."""
    evaluations = [record for run in runs for record in run.records if record["kind"] == "eval"]
    fields = dict.fromkeys(field for record in evaluations for field in record)
    labels = labels_in(fields)
    scores = filter(None, (_score(field, labels) for field in fields))
    return [_TRAINING_LOSS, *scores, *_OTHER_TRAINING]


def _score(field: str, labels: Sequence[str]) -> Series | None:
    """Returns the series of a metric's value; None if the field is none, or not of the report."""
    name, label = split_field(field, labels)
    metric = find_metric(name)
    if metric is None or not metric.in_report:
        return None
    title = f"{label}: {metric.title}" if label else metric.title
    return Series("eval", field, title, min if metric.lower_is_better else max)


def write_report(folders: Sequence[str], output: str) -> str:
    """Writes a report on one or more runs, or on a search for hyperparameters.

    Args:
        folders: run folders, at least one; or the folder of one search.
        output: the file to write; "": report.html in the first folder.

    Returns:
        The path of the file.

    Raises:
        UserError: a folder is named twice, or is not a run folder.
    """
    extras.require(extras.PLOTS, "t2t-report")
    paths = [pathlib.Path(folder).resolve() for folder in folders]
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"{path} is named twice: name every run folder once")
    target = output or str(pathlib.Path(folders[0]) / "report.html")
    for path in paths:
        files.refuse_overwriting(target, [*own_files(path), *search_files(path)])
    if is_search(paths[0]) and len(paths) == 1:
        text = search_page(paths[0])
    else:
        text = page(_read_runs(folders, paths))
    files.write_text(target, files.shown(text))
    return target


def _read_runs(folders: Sequence[str], paths: Sequence[pathlib.Path]) -> list[RunHistory]:
    return [_read_run(folder, name) for folder, name in zip(folders, _names(paths), strict=True)]


def _read_run(folder: str, name: str) -> RunHistory:
    path = pathlib.Path(folder)
    settings = read_settings(folder)
    records = [record for _, record in read_records(path)]
    records += evaluators_records(path)
    if not records:
        raise UserError(f"{path / METRICS} holds no record yet: train longer, or omit {folder}")
    return RunHistory(name, settings, records, read_summary(path))


def _names(paths: Sequence[pathlib.Path]) -> list[str]:
    """Returns the shortest suffixes of the paths, of equal depth, that are unique."""
    for depth in range(1, max(len(path.parts) for path in paths)):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def page(runs: Sequence[RunHistory]) -> str:
    """Returns the page as HTML."""
    followed = _series(runs)
    plots = [
        line_plot(
            series.title,
            "step",
            [Curve(run.name, run.points(series), style) for style, run in enumerate(runs)],
        )
        for series in followed
    ]
    settings = "Settings that differ" if len(runs) > 1 else "Settings"
    return pages.render(
        "study/reports/report.html",
        names=[run.name for run in runs],
        problems=sorted({str(run.settings.get("problem", "")) for run in runs}),
        lines=[(colour(style), dashes(style)) for style in range(len(runs))],
        plots=plots,
        tables={
            "Scores": _without_absent(_score_rows(runs, followed)),
            "Cost": _without_absent(_cost_rows(runs)),
            settings: _without_absent(_setting_rows(runs)),
        },
    )


def _without_absent(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows that at least one run has a value for."""
    return [(name, cells) for name, cells in rows if any(cell != _ABSENT for cell in cells)]


def _score_rows(runs: Sequence[RunHistory], followed: Sequence[Series]) -> list[Row]:
    rows = [("steps", [f"{max(record['step'] for record in run.records):,}" for run in runs])]
    for series in followed:
        if series.best:
            rows.append((f"best {series.title}", [_best(run, series) for run in runs]))
            rows.append((f"last {series.title}", [_last(run, series) for run in runs]))
    return rows


def _best(run: RunHistory, series: Series) -> str:
    points = [(value, step) for step, value in run.points(series) if math.isfinite(value)]
    if not points or series.best is None:
        return _ABSENT
    best = series.best(value for value, _ in points)
    step = max(step for value, step in points if value == best)  # as `selection.best_steps`
    return f"{best:.4g} (step {step:,})"


def _last(run: RunHistory, series: Series) -> str:
    points = run.points(series)
    return f"{points[-1][1]:.4g}" if points else _ABSENT


def _cost_rows(runs: Sequence[RunHistory]) -> list[Row]:
    def row(title: str, field: str, show: Callable[[Any], str]) -> Row:
        return title, [show(run.cost[field]) if run.cost.get(field) else _ABSENT for run in runs]

    return [
        row("source tokens", "source_tokens", "{:,}".format),
        row("target tokens", "target_tokens", "{:,}".format),
        row("time in steps", "train_seconds", duration),
        row("devices", "devices", str),
        row("FLOPs by count of matrix products", "flops_by_count", "{:.2e}".format),
        row("FLOPs by time × devices × sustained rate", "flops_by_time", "{:.2e}".format),
        row("utilisation", "utilisation", "{:.0%}".format),
    ]


def _setting_rows(runs: Sequence[RunHistory]) -> list[Row]:
    """Returns the settings that differ between runs; all settings of a single run."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    rows = []
    for name in [*_ALWAYS_SHOWN, *(name for name in names if name not in _ALWAYS_SHOWN)]:
        cells = [_setting(run.settings[name]) if name in run.settings else _ABSENT for run in runs]
        differ = len(runs) == 1 or len(set(cells)) > 1
        if name in _ALWAYS_SHOWN or (differ and name not in _NEVER_SHOWN):
            rows.append((name, cells))
    return rows


def _setting(value: Any) -> str:
    return "none" if value in (None, "") else str(value)
