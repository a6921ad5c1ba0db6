"""t2t-distill: its flags."""

import pytest

from support.commands import exit_code, refusal
from t2t_lite.bin import t2t_distill

WHOLE = {"problem": "text2text_tmpdir", "output_problem_dir": "out", "teacher": "runs/a"}


def words(**flags):
    return [f"--{name}={value}" for name, value in (WHOLE | flags).items() if value != ""]


def test_the_flags_reach_the_job(monkeypatch):
    calls = []
    monkeypatch.setattr("t2t_lite.study.distillation.job.run", lambda *args: calls.append(args))
    flags = words(select="nearest", decode_hparams="beam_size=8", worker_gpu=0)
    assert exit_code(t2t_distill.main, *flags) == 0
    ((config, search),) = calls
    assert (config.problem, config.teacher, config.select) == (
        "text2text_tmpdir",
        "runs/a",
        "nearest",
    )
    assert (search.decode_hparams, search.worker_gpu) == ("beam_size=8", 0)


@pytest.mark.parametrize(
    "flags",
    [
        {"decode_hparams": "beam_size=8"},
        {"engine": "ctranslate2"},
        {"engine": "ctranslate2", "compute_type": "int8"},
        {"compute_type": "auto"},
        {"shortlist": "list"},
        {"worker_gpu": 0},
        {"worker_gpu": 1},
        {"decode_shards": 2},
        {"decode_shards": 2, "worker_id": 1},
        {"worker_id": 1},
    ],
)
def test_search_flags_need_a_teacher(tmp_path, monkeypatch, flags):
    """Whatever they are set to, but for their defaults."""
    path = tmp_path / "nbest.de"
    path.touch()
    calls = []
    monkeypatch.setattr("t2t_lite.study.distillation.job.run", lambda *args: calls.append(args))
    ready = {"teacher": "", "translations": path}
    message = refusal(t2t_distill.main, *words(**ready, **flags))
    assert f"--{next(iter(flags))} says how a --teacher translates" in message
    assert f"--translations={path}" in message
    assert exit_code(t2t_distill.main, *words(**ready)) == 0
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"problem": ""}, "--problem is missing"),
        ({"output_problem_dir": ""}, "--output_problem_dir is missing"),
        ({"teacher": ""}, "--teacher is missing: name a run folder, or give --translations"),
        ({"translations": "x"}, "--teacher and --translations exclude each other"),
        ({"back": "true"}, "--sources is missing"),
        ({"back": "true", "sources": "x", "select": "nearest"}, "no references"),
        ({"problem": "text2text_tmpdr"}, "did you mean 'text2text_tmpdir'?"),
        ({"decode_hparams": "beam=3"}, "beam"),
        ({"select": "bst"}, "--select"),
    ],
)
def test_refusals(flags, message):
    assert message in refusal(t2t_distill.main, *words(**flags))
