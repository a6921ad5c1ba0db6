"""Which checkpoints are kept, and when training stops: both follow from metrics.jsonl."""

import json
import math
import pathlib
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.errors import UsageError, UserError, warn_once
from t2t_lite.metrics.by_name import score_outputs
from t2t_lite.runs import selection
from t2t_lite.runs.selection import Criterion, EarlyStopping, Selection, best_steps, has_plateaued

CURVES = st.dictionaries(st.integers(1, 50), st.floats(-5, 5), max_size=12)


def scored_by(*metrics, numbers=False, labels=0):
    """A problem with these metrics, whose targets are text unless they are numbers or labels."""
    return types.SimpleNamespace(
        metrics=metrics,
        members=(),
        has_numbers=numbers,
        has_labels=bool(labels),
        has_text_targets=not (numbers or labels),
        num_classes=labels,
    )


def selection_of(folder: pathlib.Path, metrics=("bleu",), best="", keep=1, stopping=None):
    return Selection(folder, Criterion.named(best, scored_by(*metrics)), keep, stopping)


LOSS = Criterion.named("loss", scored_by("bleu"))


def evaluated(folder: pathlib.Path, step: int, **values) -> None:
    """Adds an evaluation and its checkpoint."""
    with (folder / "metrics.jsonl").open("a") as lines:
        lines.write(json.dumps({"kind": "train", "step": step, "loss": 0.0}) + "\n")
        lines.write(json.dumps({"kind": "eval", "step": step, **values}) + "\n")
    saved(folder, step)


def saved(folder: pathlib.Path, step: int) -> None:
    """Adds a checkpoint."""
    (folder / f"model.ckpt-{step}.index").write_text(f"index {step}")
    (folder / f"model.ckpt-{step}.data-00000-of-00001").write_text(f"data {step}")


def evaluated_in_turn(folder: pathlib.Path, choice: Selection, **curves: list[float]) -> None:
    """Adds evaluations at steps 10, 20, ...; the choice is updated after each."""
    for number, values in enumerate(zip(*curves.values(), strict=True), 1):
        evaluated(folder, 10 * number, **dict(zip(curves, values, strict=True)))
        choice.update()


def forget(folder: pathlib.Path, step: int) -> None:
    """Deletes a checkpoint as the trainer does when it is no longer among the last N."""
    for path in folder.glob(f"model.ckpt-{step}.*"):
        path.unlink()


def kept(folder: pathlib.Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob("best*"))}


def files_of(*steps: int) -> dict[str, str]:
    return {
        f"best.ckpt-{step}.{suffix}": f"{suffix.partition('-')[0]} {step}"
        for step in steps
        for suffix in ("data-00000-of-00001", "index")
    }


def test_the_best_stay_when_the_trainer_deletes_them(tmp_path):
    choice = selection_of(tmp_path, keep=2)
    for step, bleu in ((10, 3.0), (20, 9.0), (30, 5.0), (40, 1.0)):
        evaluated(tmp_path, step, bleu=bleu, loss=1.0)
        choice.update()
        forget(tmp_path, step - 10)
    assert kept(tmp_path) == files_of(20, 30)


def test_what_users_name_alike_stays(tmp_path):
    choice = selection_of(tmp_path)
    (tmp_path / "best.ckpt-5.export").mkdir()
    for name in ("best.ckpt-mean.index", "best.ckpt-5.index.bak", "best.ckpt-5"):
        (tmp_path / name).touch()
    evaluated(tmp_path, 10, bleu=3.0)
    choice.update()
    evaluated(tmp_path, 20, bleu=4.0)
    choice.update()
    assert {path.name for path in tmp_path.glob("best*")} == {
        *("best.ckpt-5.export", "best.ckpt-mean.index", "best.ckpt-5.index.bak", "best.ckpt-5"),
        *files_of(20),
    }


def test_a_better_one_that_is_gone_pushes_none_out(tmp_path):
    evaluated(tmp_path, 10, bleu=9.0)
    forget(tmp_path, 10)
    choice = selection_of(tmp_path)
    for step, bleu in ((20, 4.0), (30, 3.0)):
        evaluated(tmp_path, step, bleu=bleu)
        choice.update()
    assert kept(tmp_path) == files_of(20)


@pytest.mark.parametrize(
    ("metric", "best"),
    [("", 20), ("bleu", 20), ("loss", 10), ("accuracy", 30), ("neg_log_perplexity", 30)],
)
def test_every_metric_knows_its_direction(tmp_path, metric, best):
    curves = {"bleu": [1, 3, 2], "loss": [1.0, 3.0, 2.0], "accuracy": [0.1, 0.2, 0.3]}
    curves["neg_log_perplexity"] = curves["accuracy"]
    evaluated_in_turn(tmp_path, selection_of(tmp_path, best=metric), **curves)
    assert kept(tmp_path) == files_of(best)


@pytest.mark.parametrize(
    ("metrics", "best"), [(["ter", "bleu"], 10), (["bleu", "ter"], 20), (["loss", "bleu"], 30)]
)
def test_the_first_metric_of_a_problem_chooses(tmp_path, metrics, best):
    curves = {"ter": [1.0, 3.0, 2.0], "bleu": [1.0, 3.0, 2.0], "loss": [3.0, 2.0, 1.0]}
    evaluated_in_turn(tmp_path, selection_of(tmp_path, metrics), **curves)
    assert kept(tmp_path) == files_of(best)


def test_none_stay_if_none_are_asked_for(tmp_path):
    evaluated(tmp_path, 10, bleu=1.0, loss=1.0)
    selection_of(tmp_path, keep=0).update()
    assert kept(tmp_path) == {}


def test_what_a_kill_left_half_done_is_finished(tmp_path):
    evaluated(tmp_path, 10, bleu=1.0, loss=1.0)
    evaluated(tmp_path, 20, bleu=2.0, loss=1.0)
    (tmp_path / "best.ckpt-20.data-00000-of-00001").write_text("data of which no index came")
    (tmp_path / "best.ckpt-10.data-00000-of-00001").write_text("data whose index is gone")
    (tmp_path / "metrics.jsonl").open("a").write('{"kind": "eval", "st')
    selection_of(tmp_path).update()
    assert kept(tmp_path) == files_of(20)


def test_a_file_system_without_links_gets_copies(tmp_path, monkeypatch):
    def no_links(*paths):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(selection.os, "link", no_links)
    evaluated(tmp_path, 10, bleu=1.0, loss=1.0)
    selection_of(tmp_path).update()
    forget(tmp_path, 10)
    assert kept(tmp_path) == files_of(10)


def test_a_diverged_evaluation_is_never_the_best(tmp_path):
    for step, loss in ((10, 2.0), (20, math.nan), (30, -math.inf)):
        evaluated(tmp_path, step, loss=loss, bleu=0.0)
    selection_of(tmp_path, best="loss").update()
    assert kept(tmp_path) == files_of(10)


@given(CURVES, st.integers(0, 5))
def test_best_steps_are_the_highest(curve, count):
    best = best_steps(curve, count)
    assert len(best) == min(count, len(curve))
    others = [value for step, value in curve.items() if step not in best]
    assert all(curve[step] >= other for step in best for other in others)


def test_of_equals_the_later_is_better():
    assert best_steps({10: 0.0, 20: 0.0, 30: -1.0}, 2) == [20, 10]


@pytest.mark.parametrize(
    ("losses", "stops"),
    [
        ([5.0, 4.0, 3.0], False),
        ([5.0, 4.95, 4.92], True),  # 20 updates without a gain of 0.1
        ([5.0, 4.95], False),  # only 10 yet
        ([5.0, 4.95, 4.85], False),
        ([5.0, 4.0, 4.5, 3.8], False),
        ([5.0, 4.0, 4.5, 3.95], True),
        ([], False),
    ],
)
def test_stops_after_so_many_updates_without_a_gain(tmp_path, losses, stops):
    choice = selection_of(tmp_path, stopping=EarlyStopping(LOSS, 20, 0.1))
    for number, loss in enumerate(losses, 1):
        evaluated(tmp_path, 10 * number, loss=loss, bleu=0.0)
    (tmp_path / "metrics.jsonl").touch()
    choice.update()
    assert choice.stopped == stops


@pytest.mark.integration
@given(CURVES, st.integers(1, 30))
def test_a_rising_curve_continues_and_a_flat_one_stops(curve, steps):
    rising = {step: float(step) for step in curve}
    last = max(curve, default=0)
    assert not has_plateaued(rising, last, steps, delta=0.5)
    flat = dict.fromkeys(curve, 1.0)
    assert has_plateaued(flat, last, steps, delta=0.5) == (
        bool(curve) and min(curve) <= max(curve) - steps
    )


@pytest.mark.parametrize(
    ("delta", "values", "stops"),
    [
        (0.0, [1.0, 1.0], True),  # it stands still
        (0.0, [1.0, 1.5], False),
        (0.5, [1.0, 1.5], False),  # as in T2T, a gain of just the delta counts
        (0.5, [1.0, 1.25], True),
    ],
)
def test_the_smallest_gain_that_counts(delta, values, stops):
    assert has_plateaued(dict(zip((10, 20), values, strict=True)), 20, 10, delta) == stops


def test_evaluations_that_diverged_brought_no_gain(tmp_path):
    choice = selection_of(tmp_path, stopping=EarlyStopping(LOSS, 20, 0.1))
    for step, loss in ((10, 3.0), (20, 1.0), (30, math.nan), (40, math.nan)):
        evaluated(tmp_path, step, loss=loss, bleu=0.0)
        choice.update()
        assert choice.stopped == (step == 40)


@pytest.mark.parametrize(
    ("metric", "minimize", "stops"),
    [
        *(("accuracy", None, False), ("accuracy", False, False), ("accuracy", True, True)),
        *(("ter", None, True), ("chrf", None, False), ("bracketing_f1_of_all", None, False)),
    ],
)
def test_early_stopping_knows_the_direction_of_every_metric(tmp_path, metric, minimize, stops):
    metrics = ["chrf", "ter", "bracketing_f1"]
    stopping = EarlyStopping(Criterion.named(metric, scored_by(*metrics), minimize), 10, 0.1)
    choice = selection_of(tmp_path, metrics, stopping=stopping)
    for step, value in ((10, 1.0), (20, 5.0)):
        evaluated(tmp_path, step, **{metric: value, "chrf": value})
    choice.update()
    assert choice.stopped == stops


def test_a_metric_that_evaluations_do_not_have():
    with pytest.raises(UsageError, match="unknown metric 'belu'; did you mean 'bleu'"):
        Criterion.named("belu", scored_by("bleu"))
    with pytest.raises(UsageError, match="unknown metric 'bleu'"):
        Criterion.named("bleu", scored_by("bracketing_f1"))


@pytest.mark.parametrize(
    ("problem", "lacking"),
    [
        (scored_by("bleu"), ["roc_auc"]),
        (scored_by("rmse", numbers=True), ["accuracy", "perplexity", "bits_per_char", "roc_auc"]),
        (scored_by("exact_match", labels=2), ["bits_per_char"]),
        (scored_by("exact_match", labels=3), ["bits_per_char", "roc_auc"]),
    ],
)
def test_a_metric_that_evaluations_of_the_problem_do_not_have(problem, lacking):
    known = {"loss", "accuracy", "perplexity", "bits_per_char", "roc_auc"} - {*lacking}
    assert {Criterion.named(name, problem).name for name in known} == known
    for name in lacking:
        with pytest.raises(UsageError, match=f"unknown metric '{name}'.*; .* have loss, "):
            Criterion.named(name, problem)


def test_a_value_that_the_last_evaluation_lacks_is_a_warning(tmp_path, caplog):
    warn_once.cache_clear()
    stopping = EarlyStopping(Criterion("f1", minimize=False), 10, 0.1)
    choice = Selection(tmp_path, Criterion("auc", minimize=False), 1, stopping)
    choice.update()
    assert not caplog.messages
    for step in (10, 20):
        evaluated(tmp_path, step, bleu=1.0, target_tokens=7, loss=2.0, bleu_signature="v:2")
        choice.update()
    assert caplog.messages == [
        f"evaluations of {tmp_path} have no {name}: {what}; name one of their values, bleu, loss"
        for name, what in (
            ("auc", "none of its checkpoints is kept as the best (--best_metric)"),
            ("f1", "it never stops early (--eval_early_stopping_metric)"),
        )
    ]
    Selection(tmp_path, Criterion("loss", minimize=True), 1).update()
    Selection(tmp_path, Criterion("auc", minimize=False), 0).update()
    assert len(caplog.messages) == 2


@pytest.mark.parametrize(("metric", "text"), [("bleu", "a"), ("bracketing_f1", "(S (NN a))")])
def test_scores_have_the_metrics_that_can_be_named(metric, text):
    values = score_outputs(metric, [Output(text)], [text]).values
    nameable = {value.name for value in registry.metric(metric).values}
    assert nameable == {name for name in values if not name.endswith("_signature")}


def test_too_few_checkpoints(tmp_path):
    for step in (10, 20):
        evaluated(tmp_path, step, bleu=step, loss=1.0)
    forget(tmp_path, 10)
    criterion = Criterion.named("", scored_by("bleu"))
    assert selection.best_checkpoints(tmp_path, criterion, 1) == [str(tmp_path / "model.ckpt-20")]
    with pytest.raises(UserError, match=r"1 checkpoints with a bleu .* fewer than 2"):
        selection.best_checkpoints(tmp_path, criterion, 2)
    forget(tmp_path, 20)
    with pytest.raises(UserError, match=r"holds no checkpoint with a bleu .* larger --keep_best"):
        selection.best_checkpoints(tmp_path, criterion, 1)
    criterion = Criterion.named("", scored_by("ter"))
    with pytest.raises(
        UserError, match=r"no evaluation in .*metrics\.jsonl has a finite ter: train"
    ):
        selection.best_checkpoints(tmp_path, criterion, 1)


def test_a_kept_checkpoint_of_another_training_is_replaced(tmp_path):
    evaluated(tmp_path, 3, bleu=1.0)
    selection.keep_best(tmp_path, [3])
    forget(tmp_path, 3)
    for end in ("index", "data-00000-of-00001"):
        (tmp_path / f"model.ckpt-3.{end}").write_text(f"other {end}")
    selection.keep_best(tmp_path, [3])
    assert set(kept(tmp_path).values()) == {"other index", "other data-00000-of-00001"}


def evaluated_beside(folder: pathlib.Path, step: int, digest: str = "", **values) -> None:
    """Adds an evaluation of an evaluator, of the checkpoint that is there or of another one."""
    (folder / "eval").mkdir(exist_ok=True)
    index = folder / f"model.ckpt-{step}.index"
    name = {"checkpoint_signature": digest or selection.checkpoint_signature(str(index)[:-6])}
    with (folder / "eval" / "metrics.jsonl").open("a") as lines:
        lines.write(json.dumps({"kind": "eval", "step": step, **values, **name}) + "\n")


def test_evaluations_of_trainer_and_evaluator_count_by_step(tmp_path):
    stopping = EarlyStopping(Criterion.named("bleu", scored_by("bleu")), 20, 0.1)
    choice = selection_of(tmp_path, keep=2, stopping=stopping)
    evaluated(tmp_path, 10, bleu=5.0)
    for step in (20, 30, 40):
        saved(tmp_path, step)
    evaluated_beside(tmp_path, 30, bleu=2.0)
    evaluated_beside(tmp_path, 20, bleu=9.0)
    assert list(choice._criterion.curve(tmp_path)) == [10, 20, 30]
    choice.update()
    assert kept(tmp_path) == files_of(20, 10)
    assert not choice.stopped
    evaluated_beside(tmp_path, 40, bleu=9.0)
    choice.update()
    assert choice.stopped


def test_evaluations_of_replaced_checkpoints_do_not_count(tmp_path):
    """As those of a run that was begun anew; those of deleted checkpoints do."""
    for step in (10, 20, 30):
        saved(tmp_path, step)
        evaluated_beside(tmp_path, step, digest="another" if step == 20 else "", bleu=step)
    evaluated_beside(tmp_path, 40, digest="later than the newest", bleu=40.0)
    forget(tmp_path, 10)
    assert Criterion.named("bleu", scored_by("bleu")).curve(tmp_path) == {10: 10.0, 30: 30.0}


def test_the_best_of_an_evaluator_stays_the_best_without_the_runs_own_checkpoints(tmp_path):
    for step, value in ((10, 9.0), (20, 1.0)):
        saved(tmp_path, step)
        evaluated_beside(tmp_path, step, bleu=value)
    selection_of(tmp_path).update()
    (tmp_path / "best.ckpt-a.index").touch()  # a user's own
    for step in (10, 20):
        forget(tmp_path, step)
    criterion = Criterion.named("bleu", scored_by("bleu"))
    assert selection.best_checkpoints(tmp_path, criterion, 1) == [f"{tmp_path}/best.ckpt-10"]
