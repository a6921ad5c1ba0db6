"""t2t-eval's command line; its numbers are tested with a run, in tests/training."""

import dataclasses
import json
import os
import pathlib

import pytest

import t2t_lite
from support.commands import refusal
from support.small_runs import make_run
from t2t_lite.bin import t2t_eval
from t2t_lite.errors import UserError
from t2t_lite.metrics.bootstrap import BootstrapResult
from t2t_lite.runs.checkpoint_names import checkpoint_of_run, named_checkpoint, named_model
from t2t_lite.training.checkpoint_evaluation import CheckpointScores


@pytest.fixture
def folder(tmp_path):
    """A run folder whose checkpoints are names alone."""
    make_run(tmp_path, data_dir=tmp_path)
    for name in ("model.ckpt-20", "best.ckpt-10", "averaged.ckpt-9", "averaged.ckpt-20"):
        (tmp_path / f"{name}.index").touch()
    # The average of few steps was made last: of the best checkpoints, say.
    os.utime(tmp_path / "averaged.ckpt-20.index", (1, 1))
    records = [{"kind": "eval", "step": step, "bleu": 30 - step} for step in (10, 20)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("best", "best.ckpt-10"),
        ("averaged", "averaged.ckpt-9"),
        ("20", "model.ckpt-20"),
        ("best.ckpt-10", "best.ckpt-10"),
    ],
)
def test_names_in_a_run_folder(folder, name, meant):
    assert named_checkpoint(name, str(folder)) == str(folder / meant)


def test_a_name_is_that_of_the_run_wherever_the_command_is_run(
    folder, tmp_path_factory, monkeypatch
):
    here = tmp_path_factory.mktemp("another_run")
    make_run(here, "algorithmic_reverse_binary40")
    monkeypatch.chdir(here)
    for name in ("best.ckpt-10", "model.ckpt-7"):
        pathlib.Path(f"{name}.index").touch()
    assert named_checkpoint("best.ckpt-10", str(folder)) == f"{folder}/best.ckpt-10"
    assert checkpoint_of_run(f"{folder}/best.ckpt-10") == f"{folder}/best.ckpt-10"
    with pytest.raises(UserError, match=f"{folder} has no checkpoint 'model.ckpt-7'"):
        checkpoint_of_run(f"{folder}/model.ckpt-7")
    assert named_checkpoint("model.ckpt-7", "") == "model.ckpt-7"


def test_a_path_needs_no_run_folder(tmp_path):
    path = f"{tmp_path}/model.ckpt-7"
    with pytest.raises(UserError, match=r"there is no checkpoint '.*7' \(.*7.index is missing\)"):
        named_checkpoint(path, "")
    pathlib.Path(f"{path}.index").touch()
    assert named_checkpoint(path, "") == path


def test_a_checkpoint_comes_with_its_own_run(folder, tmp_path_factory):
    """Whatever the other run folder: its vocabulary and settings are not the checkpoint's."""
    other = tmp_path_factory.mktemp("other")
    make_run(other, "algorithmic_reverse_binary40")
    path = f"{folder}/model.ckpt-20"
    for output_dir in ("", str(folder), str(other)):
        run, checkpoint = named_model(path, output_dir)
        assert (run.problem.name, checkpoint) == ("algorithmic_reverse_decimal40", path)
    with pytest.raises(UserError, match=r"model.ckpt-20 belongs to another run: use .*open_run"):
        t2t_lite.open_run(other).checkpoint(path)


def test_a_checkpoint_outside_of_any_run_has_the_settings_of_output_dir(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("averages") / "averaged.ckpt-3"
    path.with_name(path.name + ".index").touch()
    run, checkpoint = named_model(str(path), str(folder))
    assert (run.folder, checkpoint) == (folder, str(path))
    with pytest.raises(UserError, match=r"flags.json"):
        named_model(str(path), "")


def test_without_a_name_it_is_the_newest_that_can_be_read(folder):
    run, checkpoint = named_model("", str(folder))
    assert (run.folder, checkpoint) == (folder, None)


def test_what_was_never_saved_or_averaged(folder):
    with pytest.raises(UserError, match=r"has no checkpoint '21' \(.*model.ckpt-21.index is miss"):
        named_checkpoint("21", str(folder))
    for path in folder.glob("averaged*"):
        path.unlink()
    with pytest.raises(UserError, match="holds no average: create one with t2t-avg-checkpoints"):
        named_checkpoint("averaged", str(folder))


def test_the_table_of_two():
    scored = [
        CheckpointScores(
            f"run/model.ckpt-{step}",
            step,
            {"loss": 1.5 + p, "bleu": 20.0, "bleu_signature": "tok:13a"},
            BootstrapResult(20.0, 20.1, 0.5, p or None, "bs:1000|seed:12345", "bleu"),
        )
        for step, p in ((5, 0.0), (10, 0.25))
    ]
    rows = [line.split("  ") for line in t2t_eval._table(scored).splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert cells == [
        ["run/model.ckpt-5", "run/model.ckpt-10"],
        ["step", "5", "10"],
        ["loss", "1.5", "1.75"],
        ["bleu", "20", "20"],
        ["bleu bootstrap mean", "20.10 ± 0.50", "20.10 ± 0.50"],
        ["bleu bootstrap p-value", "baseline", "0.2500"],
        ["bleu_signature: tok:13a"],
        ["bleu bootstrap signature: bs:1000|seed:12345"],
    ]


def test_the_table_of_one_has_an_interval_but_no_comparison():
    worth = BootstrapResult(20.0, 20.1, 0.5, None, "bs:1000", "bleu")
    table = t2t_eval._table([CheckpointScores("run/model.ckpt-5", 5, {"bleu": 20.0}, worth)])
    assert "bleu bootstrap mean  20.10 ± 0.50" in table
    assert "p-value" not in table


def test_the_table_by_two_metrics():
    worth = BootstrapResult(20.0, 20.1, 0.5, None, "bs:1000", "bleu")
    other = dataclasses.replace(worth, mean=60.0, metric="ter")
    scores = {"bleu": 20.0, "ter": 60.0}
    rows = t2t_eval._table(
        [CheckpointScores(name, 1, scores, worth, {"ter": other}) for name in ("a", "b")]
    ).splitlines()
    assert [row.split("  ")[0] for row in rows[-6:]] == [
        "bleu bootstrap mean",
        "bleu bootstrap p-value",
        "ter bootstrap mean",
        "ter bootstrap p-value",
        "bleu bootstrap signature: bs:1000",
        "ter bootstrap signature: bs:1000",
    ]
    assert rows[-4].endswith("60.00 ± 0.50  60.00 ± 0.50")


def test_scores_below_one_have_enough_digits():
    name = "command:./comet.sh"
    worth = BootstrapResult(0.85, 0.8512, 0.0034, None, "bs:1000", name)
    table = t2t_eval._table([CheckpointScores(c, 1, {name: 0.85}, worth) for c in ("a", "b")])
    assert f"{name} bootstrap mean" in table
    assert "0.8512 ± 0.0034  0.8512 ± 0.0034" in table


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ([], 2, "--output_dir is missing"),
        (["--output_dir=none"], 1, "none is not a run folder"),
        (
            ["--output_dir=none", "--dataset_split=unseen", "--eval_use_test_set"],
            2,
            "--dataset_split=unseen and --eval_use_test_set both choose a split: leave one out",
        ),
        (["--output_dir=none", "--output_format=xml"], 2, "=xml: expected table or json"),
        (["--output_dir=none", "--decode_hparams=beem_size=1"], 2, "unknown decode hparam"),
        *(
            (["--output_dir=none", f"--decode_hparams={name}=1"], 2, f"hparam {name}=true: evalu")
            for name in ("return_beams", "write_beam_scores")
        ),
        (["--output_dir=none", "--metrics=blue"], 2, "unknown metric 'blue'; did you mean 'bleu'"),
        (["--output_dir=none", "--metrics=command:./no"], 1, "program './no' is not found"),
    ],
)
def test_usage_errors_are_one_line(flags, code, message):
    assert message in refusal(t2t_eval.main, *flags, code=code)


@pytest.mark.parametrize("names", ["", ","])
def test_an_empty_name_is_named(folder, names):
    flags = f"--output_dir={folder}", f"--checkpoint_path={names}"
    assert f"--checkpoint_path={names}: name a checkpoint" in refusal(t2t_eval.main, *flags)


def test_a_type_that_the_engine_does_not_compute_in_is_refused(folder):
    flags = f"--output_dir={folder}", "--checkpoint_path=best", "--compute_type=int8"
    assert "--compute_type=int8 needs --engine=ctranslate2" in refusal(t2t_eval.main, *flags)


def test_scores_of_outputs_overwrite_no_file_of_the_run(folder):
    checkpoint = f"--checkpoint_path={folder}/best.ckpt-10"
    flags = checkpoint, f"--output_dir={folder}", f"--segment_scores={folder}/metrics.jsonl"
    assert "would overwrite" in refusal(t2t_eval.main, *flags, code=1)
    assert (folder / "metrics.jsonl").read_text().count("eval") == 2


def test_scores_of_outputs_do_not_overwrite_the_terms_of_a_metric(folder, tmp_path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("cat\tKatze\n")
    checkpoint = f"--checkpoint_path={folder}/best.ckpt-10"
    flags = checkpoint, f"--output_dir={folder}", f"--metrics=terms_met:{terms}"
    flags = *flags, f"--segment_scores={terms}"
    assert "would overwrite" in refusal(t2t_eval.main, *flags, code=1)
    assert terms.read_text() == "cat\tKatze\n"
