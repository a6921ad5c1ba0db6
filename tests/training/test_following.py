"""What a process beside the trainer does before, and in place of, an evaluation."""

import contextlib
import dataclasses
import json
import pathlib
from types import SimpleNamespace

import pytest

from support.small_runs import make_config
from t2t_lite import registry
from t2t_lite.errors import UsageError, UserError
from t2t_lite.runs import checkpoint_files, metrics_jsonl, selection
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.training import following

pytestmark = pytest.mark.integration

BOTH, ALONE = "continuous_train_and_eval", "train"


def run_of(settings: RunSettings, folder: pathlib.Path) -> SimpleNamespace:
    """A run of a problem with the default search."""
    return SimpleNamespace(settings=settings, folder=folder, decode_hparams="")


@pytest.mark.parametrize(
    ("trainer", "own", "is_refused"),
    [
        ((BOTH, False), True, True),
        ((BOTH, True), False, True),
        ((BOTH, True), True, False),
        ((ALONE, False), True, False),
        ((None, None), True, False),  # an imported run
    ],
)
def test_evaluations_of_two_splits_are_not_mixed(trainer, own, is_refused, tmp_path):
    names = "schedule", "eval_use_test_set"
    given = dataclasses.replace(
        make_config("data", "run").run_settings, **dict(zip(names, trainer, strict=True))
    )
    run = run_of(given, tmp_path)
    config = make_config("data", "run", schedule="continuous_eval", eval_use_test_set=own)
    if is_refused:
        with pytest.raises(UsageError, match=r"split.* give --(no)?eval_use_test_set"):
            following._refuse_other_evaluations(run, config)
    else:
        following._refuse_other_evaluations(run, config)


@pytest.mark.parametrize(
    ("schedule", "own", "differences"),
    [
        (BOTH, {"decode_hparams": "beam_size=1"}, "--decode_hparams: '' != 'beam_size=1'"),
        (BOTH, {"eval_steps": 5}, "--eval_steps: '100' != '5'"),
        (BOTH, {"decode_hparams": "beam_size=4,batch_size=3"}, ""),
        (ALONE, {"decode_hparams": "beam_size=1", "eval_steps": 5}, ""),
    ],
)
def test_evaluations_by_two_searches_or_of_two_sizes_are_not_mixed(
    schedule, own, differences, tmp_path
):
    config = make_config("data", "run", schedule=schedule, decode_hparams="", eval_steps=100)
    given = config.run_settings
    config = dataclasses.replace(config, schedule="continuous_eval", **own)
    refused = pytest.raises(UsageError, match=rf"now\): {differences}, and the best .* by both")
    with refused if differences else contextlib.nullcontext():
        following._refuse_other_evaluations(run_of(given, tmp_path), config)


def test_an_evaluator_goes_on_with_its_split(tmp_path):
    given = RunSettings(problem="p", model="m", hparams_set="s", schedule=ALONE)
    run = run_of(given, tmp_path)
    (tmp_path / "model.ckpt-2.index").touch()
    (tmp_path / "eval").mkdir()
    name = {selection.SIGNATURE: selection.checkpoint_signature(f"{tmp_path}/model.ckpt-2")}
    record = {"kind": "eval", "step": 2, selection.SPLIT: "test", **name}
    (tmp_path / "eval" / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    for own in (True, False):
        config = make_config("data", "run", schedule="continuous_eval", eval_use_test_set=own)
        with contextlib.nullcontext() if own else pytest.raises(UsageError, match="on test, so"):
            following._refuse_other_evaluations(run, config)


def test_an_evaluator_on_dev_goes_on_whatever_the_flag_of_a_trainer_that_evaluates_nothing(
    tmp_path,
):
    given = RunSettings(problem="p", model="m", hparams_set="s", schedule=ALONE)
    run = run_of(dataclasses.replace(given, eval_use_test_set=True), tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"kind": "eval", "step": 2}\n')
    config = make_config("data", "run", schedule="continuous_eval", eval_use_test_set=False)
    following._refuse_other_evaluations(run, config)


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ({"keep_best_max": 5, "best_metric": "loss"}, []),
        ({"keep_best_max": 5}, []),
        ({}, []),
        ({"keep_best_max": 3, "best_metric": "loss"}, ["--keep_best_max=3 has no effect"]),
        ({"keep_best_max": 5, "best_metric": "bleu"}, ["--best_metric=bleu has no effect"]),
        ({"keep_best_max": 3, "schedule": "continuous_decode"}, []),
    ],
)
def test_an_evaluator_warns_that_the_trainers_flags_choose_the_best(
    flags, warned, tmp_path, caplog
):
    names = {"problem": "p", "model": "m", "hparams_set": "s"}
    given = RunSettings(**names, best_metric="loss", keep_best_max=5)
    run = SimpleNamespace(
        settings=given, folder=tmp_path / "run", problem=registry.problem("text2text_tmpdir")
    )
    config = make_config("data", "run", **{"schedule": "continuous_eval", **flags})
    following._warn_of_other_choice(run, config)
    assert [line.partition(":")[0] for line in caplog.messages] == warned


@pytest.mark.parametrize(
    ("split", "search", "difference"),
    [
        ({}, "beam_size=1", "split: 'test' != 'dev'"),
        ({selection.SPLIT: "test"}, "beam_size=8", "hparams: 'beam_size=1' != 'beam_size=8'"),
        ({selection.SPLIT: "test"}, "beam_size=1", ""),
    ],
)
def test_outputs_of_two_splits_or_searches_are_not_mixed(split, search, difference, tmp_path):
    of_search = {selection.SEARCH: DecodeHParams(beam_size=1).signature}
    record = {"kind": "decode", "step": 2, selection.SPLIT: "test", **of_search}
    metrics_jsonl.append(tmp_path, record)
    now = {**split, selection.SEARCH: search}
    refused = pytest.raises(UsageError, match=rf"{difference}\. Give --eval_use_test_set and")
    with refused if difference else contextlib.nullcontext():
        following._refuse_other_outputs(tmp_path, now)


def test_outputs_may_be_found_in_smaller_batches():
    found = DecodeHParams(beam_size=1, batch_size=8, xla_compile=True).signature
    assert found == DecodeHParams(beam_size=1).signature == "beam_size=1"


def test_a_run_that_does_not_come_is_an_error(tmp_path):
    with pytest.raises(UserError, match="has had no checkpoint for 0 minutes: start the trainer"):
        following._wait_for_run(tmp_path / "run", 0)


def passed_over(path: pathlib.Path) -> bool:
    """Whether nothing is done with a checkpoint that cannot be restored."""

    def restore_weights(model, checkpoint):
        raise UserError("it is another model's")

    worked = []
    own = SimpleNamespace(_run=SimpleNamespace(restore_weights=restore_weights), _model=None)
    following._Following._work(own, str(path), lambda *given: worked.append(given))
    assert not worked
    return True


def test_a_torn_checkpoint_is_passed_over_and_a_deleted_one(tmp_path):
    torn = tmp_path / "model.ckpt-7"
    torn.with_name("model.ckpt-7.index").write_bytes(b"torn")
    assert passed_over(torn)
    assert passed_over(tmp_path / "model.ckpt-9")


def test_a_checkpoint_of_another_model_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "model.ckpt-7.index").touch()
    monkeypatch.setattr(checkpoint_files, "damage", lambda path: None)
    with pytest.raises(UserError, match="another model's"):
        passed_over(tmp_path / "model.ckpt-7")


def test_missing_data_is_an_error_before_the_wait(tmp_path):
    schedule = {"schedule": "continuous_eval", "eval_timeout_mins": -1}
    with pytest.raises(UserError, match="text2text_tmpdir-dev-00000"):
        following.run(make_config(tmp_path, tmp_path / "run", **schedule))
    assert not (tmp_path / "run").exists()


def test_scores_on_training_data_depend_on_no_split_and_no_search(tmp_path, caplog):
    schedule = "continuous_eval_on_train_data"
    config = make_config(tmp_path, tmp_path / "run", schedule=schedule, eval_use_test_set=True)
    with pytest.raises(UserError, match="text2text_tmpdir-train-00000"):
        following.run(config)
    assert [line.partition(" ")[0] for line in caplog.messages] == [
        "--eval_use_test_set",
        "--decode_hparams",
    ]
    assert all(line.endswith(f"no effect on --schedule={schedule}") for line in caplog.messages)
