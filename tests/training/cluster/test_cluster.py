"""The description of a cluster, its errors, and the workers' folders."""

import json
import pathlib

import pytest

from t2t_lite.errors import UsageError, UserError
from t2t_lite.runs import metrics_jsonl, run_folder
from t2t_lite.training.cluster import cluster
from t2t_lite.training.cluster.cluster import ALONE, Cluster, LostWorkerError


@pytest.fixture(autouse=True)
def no_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


def tf_config(cluster: dict, job: str, index: int) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


def test_without_flags_and_tf_config_there_is_one_worker():
    assert Cluster.of("", None) == ALONE
    assert ALONE.is_alone
    assert ALONE.is_chief


def test_by_flags():
    found = Cluster.of("a:1, b:2,[::1]:3", 1)
    assert (found.hosts, found.worker_id) == (("a:1", "b:2", "[::1]:3"), 1)
    assert not found.is_alone
    assert not found.is_chief
    assert Cluster.of("a:1", 0).is_alone


@pytest.mark.parametrize(
    ("jobs", "job", "index", "expected"),
    [
        ({"worker": ["a:1", "b:2"]}, "worker", 1, (("a:1", "b:2"), 1)),
        ({"chief": ["a:1"], "worker": ["b:2", "c:3"]}, "chief", 0, (("a:1", "b:2", "c:3"), 0)),
        ({"chief": ["a:1"], "worker": ["b:2", "c:3"]}, "worker", 1, (("a:1", "b:2", "c:3"), 2)),
        ({}, "worker", 0, (ALONE.hosts, 0)),
    ],
)
def test_by_tf_config(jobs, job, index, expected, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", tf_config(jobs, job, index))
    found = Cluster.of("", None)
    assert (found.hosts, found.worker_id) == expected
    assert Cluster.of("x:1,y:1", 0).hosts == ("x:1", "y:1")  # flags come first


@pytest.mark.parametrize(
    ("hosts", "worker_id", "message"),
    [
        ("a:1,b:2", None, "--worker_hosts needs --worker_id"),
        ("", 1, "--worker_id needs --worker_hosts"),
        ("a:1,b:2", 2, "--worker_id=2, but --worker_hosts lists 2 workers: 0 to 1"),
        ("a:1,b", 0, "'b' is not of the form HOST:PORT"),
        ("a:1,", 0, "'' is not of the form HOST:PORT"),
        ("a:1,a:1", 0, "a:1 is listed twice"),
        ("a:1,b:0", 0, "'b:0' is not of the form HOST:PORT, .* a port from 1 to 65535"),
        ("a:1,b:65536", 0, "'b:65536' is not of the form HOST:PORT"),
        ("a:1,a..b:80", 0, "'a..b:80' is not of the form HOST:PORT, a host's name"),
        (f"a:1,{'b' * 64}:80", 0, "b:80' is not of the form HOST:PORT, a host's name"),
    ],
)
def test_wrong_flags(hosts, worker_id, message):
    with pytest.raises(UsageError, match=message):
        Cluster.of(hosts, worker_id)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "TF_CONFIG={ is not of the form .* Expecting property name"),
        ("[]", "AttributeError"),
        ("[" * 9999, "RecursionError"),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1e999}}',
            "Overflow",
        ),
        (json.dumps({"cluster": {"worker": ["a:1", "b:2"]}}), "KeyError: 'task'"),
        (tf_config({"worker": ["a:1"]}, "evaluator", 0), "KeyError: 'evaluator'"),
        (tf_config({"worker": ["a:1"], "ps": ["b:1"]}, "worker", 0), "has a 'ps' job"),
        (tf_config({"worker": ["a:1", "b:2"]}, "worker", 2), "task index=2, but"),
        (tf_config({"worker": ["a:1", "b:2"]}, "worker", -1), "task index=-1, but"),
        (tf_config({"worker": ["a:1", 7]}, "worker", 0), "'7' is not of the form HOST:PORT"),
    ],
)
def test_wrong_tf_config(text, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match=message) as raised:
        Cluster.of("", None)
    assert "\n" not in str(raised.value)


def test_own_folders(tmp_path):
    run, hosts = tmp_path / "run", ("a:1", "b:2")
    with Cluster(hosts, 0).own_folder(str(run)) as folder:
        assert folder == str(run)
        with Cluster(hosts, 1).own_folder(str(run)) as scratch:  # no lock in its way
            assert not run.samefile(scratch)
            assert not list(pathlib.Path(scratch).iterdir())
    assert not pathlib.Path(scratch).exists()


def test_what_a_worker_writes_leaves_the_run_folder_alone(tmp_path):
    run, own = tmp_path / "run", tmp_path / "own"
    run.mkdir()
    own.mkdir()
    for name in ("flags.json", "model.ckpt-5.index"):
        (run / name).write_text(name)
    (run / "best.ckpt-5.incomplete").mkdir()
    (run / "hparams.json.incomplete").touch()
    Cluster(("a:1", "b:2"), 1).bring_run(str(run), str(own))
    assert {path.name: path.read_text() for path in own.iterdir()} == {
        name: name for name in ("flags.json", "model.ckpt-5.index")
    }
    cluster.files.write_text(own / "flags.json", "other")
    (own / "model.ckpt-5.index").unlink()
    assert (run / "flags.json").read_text() == "flags.json"
    assert (run / "model.ckpt-5.index").is_file()


def test_what_a_worker_records_is_not_added_to_the_runs_records(tmp_path):
    run, own = tmp_path / "run", tmp_path / "own"
    run.mkdir()
    own.mkdir()
    there = '{"kind": "eval", "step": 5}\n'
    for name, text in ((run_folder.FLAGS, "{}"), (metrics_jsonl.METRICS, there)):
        (run / name).write_text(text)
    Cluster(("a:1", "b:2"), 1).bring_run(str(run), str(own))
    with (own / metrics_jsonl.METRICS).open("a") as records:  # as an evaluation does
        records.write('{"kind": "evaluate", "step": 5}\n')
    assert (run / metrics_jsonl.METRICS).read_text() == there
    assert (own / metrics_jsonl.METRICS).read_text().startswith(there)


def test_a_folder_that_is_not_shared_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_SECONDS_TO_SEE", 0.3)
    with pytest.raises(UserError, match=r"worker 1 of 2 does not see .*/flags\.json"):
        Cluster(("a:1", "b:2"), 1).bring_run(str(tmp_path), str(tmp_path / "own"))


def test_the_line_about_a_lost_worker():
    cluster = Cluster(("a:1", "b:2"), 0)
    again = "Restart all workers to resume from the newest checkpoint"
    assert (
        cluster.lost(1, "no data.") == f"worker 0 of 2 has lost worker 1 at b:2: no data. {again}"
    )
    assert cluster.lost(0, "it hangs") == f"worker 0 at a:1 is lost: it hangs. {again}"
    assert LostWorkerError("").exit_code == 75
