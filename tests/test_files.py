"""Atomic writing of files and folders."""

import dataclasses
import errno
import os
import pathlib
import types

import pytest

from support.limits import full_disk
from t2t_lite import files
from t2t_lite.decoding import dataset_decoding, jobs, kept_output
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoding_origin import DecodingOrigin
from t2t_lite.decoding.documents import job as document_job
from t2t_lite.decoding.kept_output import run_once
from t2t_lite.decoding.output_files import refuse_overwriting
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import DataError, UserError, describe_os_error
from t2t_lite.runs import averaging, metrics_jsonl, run_folder
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.study.distillation.text import PairWriter, write_lines
from t2t_lite.study.insights import job
from t2t_lite.study.insights.config import InsightsConfig
from t2t_lite.study.reports import report


def test_only_regular_files_are_replaced(tmp_path):
    pipe = tmp_path / "pipe"  # as /dev/null is none
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(UserError, match="is not a regular file"):
            files.write_text(path, "text")
    assert pipe.is_fifo()


@pytest.mark.parametrize("durable", [True, False])
def test_a_durable_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch, durable):
    synced = []

    def fsync(descriptor):
        synced.append((os.stat(descriptor).st_ino, path.exists()))

    path = tmp_path / "file"
    monkeypatch.setattr(os, "fsync", fsync)
    with files.whole_file(path, durable) as temporary:
        temporary.write_text("text")
    wanted = [(path.stat().st_ino, False), (tmp_path.stat().st_ino, True)]
    assert synced == (wanted if durable else [])


def test_a_folder_has_its_name_when_it_is_whole(tmp_path):
    folder = tmp_path / "a" / "b"
    with files.whole_folder(folder) as new:
        (new / "file").write_text("text")
        assert not folder.exists()
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", folder, folder / "file"]
    with pytest.raises(UserError, match="already exists"), files.whole_folder(folder):
        pass


class ForeignError(Exception):
    """What a library raises instead of OSError."""


def test_a_link_to_a_folder_stays_one(tmp_path):
    (tmp_path / "big").mkdir()
    (tmp_path / "link").symlink_to("big")
    with files.whole_folder(tmp_path / "link") as new:
        (new / "text").write_text("a")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "big" / "text").read_text() == "a"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.ENOSPC, "No space left on device", "{new}"),
        OSError(errno.ENOSPC, "No space left on device", "{new}/variables/data"),
        OSError(errno.ENOSPC, "No space left on device", "/a/source", None, "{new}/copy"),
        ForeignError("{new}/data.tempstate42; No space left on device\nand more"),
    ],
    ids=["unnamed", "temporary", "below", "copied", "foreign"],
)
@pytest.mark.parametrize("writing", [files.whole_file, files.whole_folder, files.errors_of])
def test_an_error_of_writing_names_what_is_written(tmp_path, writing, error):
    path = tmp_path / "out"
    named = [
        part.format(new=f"{path}.incomplete") if isinstance(part, str) else part
        for part in (
            *error.args,
            *((error.filename, None, error.filename2) if isinstance(error, OSError) else ()),
        )
    ]
    with (
        pytest.raises(OSError, match=r"'.*/out'") as raised,
        files.errors_of(path, (ForeignError,)),
        writing(path),
    ):
        raise type(error)(*named)
    assert describe_os_error(raised.value) == f"{path}: the disk is full"
    assert not list(tmp_path.iterdir())


def test_an_error_of_something_else_keeps_its_name(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="/no/such/file"),
        files.whole_folder(tmp_path / "out"),
    ):
        pathlib.Path("/no/such/file").read_bytes()


def test_a_pair_that_utf_8_cannot_encode_is_named(tmp_path):
    with PairWriter(tmp_path, "train") as writer, pytest.raises(DataError, match=r"U\+D83D"):
        writer.write("half an emoji: \ud83d", "c")
    assert {path.read_text() for path in tmp_path.iterdir()} == {""}, "neither side is written"


@pytest.mark.parametrize("room", [0, 5])
def test_files_that_grow_name_themselves_when_the_disk_is_full(tmp_path, room):
    def append(path: pathlib.Path) -> None:
        metrics_jsonl.append(path.parent, {"kind": "train", "step": 1})

    def write_pair(path: pathlib.Path) -> None:
        with PairWriter(path.parent, "train") as writer:
            writer.write("a longer source", "target")

    for name, write in {
        metrics_jsonl.METRICS: append,
        "sources.txt": lambda path: write_lines(path, ["a longer line"]),
        "inputs.train.txt": write_pair,
    }.items():
        with full_disk(room), pytest.raises(OSError, match="too large") as raised:
            write(tmp_path / name)
        assert raised.value.filename == str(tmp_path / name)


def fail_beside(folder, other):
    with files.whole_folder(folder):
        other.touch()
        raise ValueError


@pytest.mark.parametrize(("other", "left"), [("c", ["c"]), ("a/c", ["a", "a/c"])])
def test_a_folder_that_fails_leaves_no_parents_but_those_in_use(tmp_path, other, left):
    with pytest.raises(ValueError, match=r"^$"):
        fail_beside(tmp_path / "a" / "b", tmp_path / other)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / name for name in left]


@pytest.mark.parametrize("name", ["plain", "a,b*?{c} ü"])
def test_a_prefix_that_is_read_literally_stays(tmp_path, name):
    with files.plain_prefix(str(tmp_path / name)) as prefix:
        assert prefix == str(tmp_path / name)


@pytest.mark.parametrize("name", ["[a]", "[", "a\\b", "new\n[line]"])
def test_a_prefix_that_would_be_misread_has_another_name_for_a_while(tmp_path, monkeypatch, name):
    for end in (".index", ".data-00000-of-00001", "0.index"):
        (tmp_path / (name + end)).write_text(end)
    monkeypatch.chdir(tmp_path)
    with files.plain_prefix(name) as prefix:
        assert not files.is_misread(prefix)
        folder = pathlib.Path(prefix).parent
        found = {path.name: path.read_text() for path in folder.iterdir()}
        assert found == {f"files{end}": end for end in (".index", ".data-00000-of-00001")}
    assert not folder.exists()
    assert len(list(tmp_path.iterdir())) == 3


# ---- no command writes over a file that it reads, nor over a run's own files


RUN_FILES = (
    "flags.json",
    "hparams.json",
    "metrics.jsonl",
    "checkpoint",
    "vocab.words",
    "model.ckpt-3.index",
    "model.ckpt-3.data-00000-of-00001",
    "best.ckpt-2.index",
)
LINKS = {
    "itself": lambda path: path,
    "another way": lambda path: path.parent / ".." / path.parent.name / path.name,
    "symbolic": lambda path: linked(path, os.symlink),
    "hard": lambda path: linked(path, os.link),
}


def linked(path: pathlib.Path, link) -> pathlib.Path:
    other = path.with_name("link")
    link(path, other)
    return other


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(params=LINKS)
def named(request):
    """Names a file in one way or another."""
    return LINKS[request.param]


def test_an_output_may_be_any_other_file(tmp_path):
    (tmp_path / "in").touch()
    (tmp_path / "old").touch()
    inputs = [tmp_path / "in", tmp_path / "missing"]
    for name in ("old", "new", "no/such"):
        files.refuse_overwriting(tmp_path / name, inputs)
    with pytest.raises(UserError):
        files.refuse_overwriting(tmp_path / "old", [*inputs, tmp_path / "old"])


@pytest.mark.parametrize("ending", ["", ".incomplete", ".part", ".part.lock"])
def test_temporary_files_beside_an_output_are_not_inputs(tmp_path, ending):
    source = tmp_path / f"out{ending}"
    source.touch()
    with pytest.raises(UserError, match=r"out would overwrite .*out"):
        refuse_overwriting([str(tmp_path / "out")], [str(source)], [])


# ---- t2t-decoder


@pytest.fixture
def run(tmp_path, monkeypatch) -> run_folder.RunFolder:
    """A run folder, by name; whatever is computed with it fails the test."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (*RUN_FILES, "out.de"):
        (folder / name).write_text(name)
    problem = types.SimpleNamespace(
        name="problem",
        target_language="",
        decode_hparams="",
        members=(),
        metrics=("bleu",),
        has_inputs=True,
        has_labels=False,
        vocab_files=lambda: ["vocab.words"],
        reference=lambda line, reference: reference,
        existing_filepaths=lambda data_dir, split: [f"{data_dir}/{split}"],
    )
    settings = RunSettings(problem="problem", model="model", hparams_set="set")
    opened = run_folder.RunFolder(folder, settings, None, problem)
    monkeypatch.setattr(run_folder.RunFolder, "refuse_other_vocabulary", lambda *_: None)
    engine = types.SimpleNamespace(kind="another")
    decoder = types.SimpleNamespace(
        hparams=DecodeHParams(),
        problem=problem,
        engine=engine,
        text=types.SimpleNamespace(stages=lambda options: None, quality=None),
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "model.ckpt-9.index").write_text("of no run folder")
    monkeypatch.setattr(TrainedModel, "origin", lambda self: pytest.fail("went on"))
    trained = [TrainedModel(opened, str(elsewhere / "model.ckpt-9"))]
    for module in (jobs, job, document_job, kept_output):
        monkeypatch.setattr(module, "find_models", lambda config: trained)
    for module in (jobs, job):
        monkeypatch.setattr(module, "load_decoder", lambda config, trained: (decoder, trained))
    monkeypatch.setattr(dataset_decoding, "read_examples", lambda *args: ([], []))
    return opened


@pytest.mark.parametrize("flag", ["decode_from_file", "decode_reference", "prefix_file"])
def test_decodes_are_not_written_over_what_is_read(tmp_path, run, named, flag):
    texts = {"decode_from_file": tmp_path / "source", flag: tmp_path / "text"}
    for path in texts.values():
        path.write_text("a line\n")
    output = named(tmp_path / "text")
    before = contents(tmp_path)
    config = DecoderConfig(**{name: str(path) for name, path in texts.items()})
    with pytest.raises(UserError, match=r"would overwrite .*/text, an input"):
        jobs.run(dataclasses.replace(config, decode_to_file=str(output)))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("with_source", [False, True])
def test_scores_are_not_written_over_what_is_scored(tmp_path, run, named, with_source):
    (tmp_path / "text").write_text("a\tb\n")
    (tmp_path / "source").write_text("a\n")
    output = named(tmp_path / "text")
    config = DecoderConfig(score_file=str(tmp_path / "text"), decode_to_file=str(output))
    if with_source:
        config = dataclasses.replace(config, decode_from_file=str(tmp_path / "source"))
    with pytest.raises(UserError, match=r"would overwrite .*/text, an input"):
        jobs.run(config)


@pytest.mark.parametrize("ending", ["inputs", "targets", "decodes"])
def test_the_decodes_of_a_split_are_not_written_over_its_examples(tmp_path, run, ending):
    (tmp_path / "eval").write_text("records")
    name = f"out.model.set.problem.beam4.alpha0.6.{ending}"
    (tmp_path / name).symlink_to(tmp_path / "eval")
    before = contents(tmp_path)
    config = DecoderConfig(data_dir=str(tmp_path), decode_to_file=str(tmp_path / "out"))
    with pytest.raises(UserError, match=r"would overwrite .*/eval, an input"):
        jobs.run(config)
    assert contents(tmp_path) == before


_GUIDES = {
    "terms": {"terms": "{}"},
    "forbid": {"forbid": "{}"},
    "shortlist": {"shortlist": "{}"},
    "hparam": {"decode_hparams": "shortlist={}"},
}


@pytest.mark.parametrize("guide", [*_GUIDES])
@pytest.mark.parametrize("source", ["decode_from_file", "score_file", "split", "page.html"])
def test_no_output_replaces_a_file_that_says_how_to_decode(tmp_path, run, named, guide, source):
    path = tmp_path / "text"
    path.write_text("a\tb\n")
    (tmp_path / "source").write_text("a\tb\n")
    (tmp_path / "page.html").write_text("<p>a")
    (tmp_path / "eval").write_text("records")
    flags = {flag: value.format(path) for flag, value in _GUIDES[guide].items()}
    output = named(path)
    if source == "split":
        flags["data_dir"] = str(tmp_path)
        decodes = tmp_path / "out.model.set.problem.beam4.alpha0.6.decodes"
        decodes.symlink_to(output)
        output = tmp_path / "out"
    else:
        name = source if source == "page.html" else "source"
        flags["score_file" if source == "score_file" else "decode_from_file"] = str(tmp_path / name)
    before = contents(tmp_path)
    config = DecoderConfig(decode_to_file=str(output), **flags)
    decode = document_job.run if source == "page.html" else jobs.run
    with pytest.raises(UserError, match=r"would overwrite .*/text, an input"):
        decode(config)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("guide", [*_GUIDES])
@pytest.mark.parametrize("name", ["out.part", "out.incomplete", "out.origin.json"])
def test_an_output_that_is_kept_replaces_none_either(tmp_path, run, guide, name, monkeypatch):
    path = tmp_path / name
    path.write_text("a\tb\n")
    (tmp_path / "source").write_text("a\n")
    flags = {flag: value.format(path) for flag, value in _GUIDES[guide].items()}
    flags |= {"decode_from_file": str(tmp_path / "source"), "decode_to_file": str(tmp_path / "out")}
    monkeypatch.setattr(DecodingOrigin, "values", lambda *_: {})
    with pytest.raises(UserError, match=rf"would overwrite .*/{name}, an input"):
        run_once(DecoderConfig(**flags), "test")
    assert path.read_text() == "a\tb\n"


@pytest.mark.parametrize("reads_lines", [True, False])
def test_no_output_replaces_a_file_of_a_metric(tmp_path, run, named, reads_lines):
    path = tmp_path / "text"
    path.write_text("a\tb\n")
    output = named(path)
    (tmp_path / "eval").write_text("records")
    flags = {"data_dir": str(tmp_path), "metrics": f"bleu,terms_met:{path}"}
    if reads_lines:
        flags |= {"decode_from_file": str(tmp_path / "eval")}
        flags |= {"decode_reference": str(tmp_path / "eval"), "decode_to_file": str(output)}
    else:
        (tmp_path / "out.model.set.problem.beam4.alpha0.6.targets").symlink_to(output)
        flags |= {"decode_to_file": str(tmp_path / "out")}
    before = contents(tmp_path)
    with pytest.raises(UserError, match=r"would overwrite .*/text, an input"):
        jobs.run(DecoderConfig(**flags))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", [*RUN_FILES, "summary.json"])
def test_no_output_replaces_a_file_of_the_run(tmp_path, run, name, monkeypatch):
    (tmp_path / "in").write_text("a line\n")
    target = str(run.folder / name)
    before = contents(tmp_path)
    config = DecoderConfig(decode_from_file=str(tmp_path / "in"), decode_to_file=target)
    with pytest.raises(UserError, match=r"would overwrite .*run folder"):
        jobs.run(config)
    with pytest.raises(UserError, match=r"would overwrite .*run folder"):
        job.run(InsightsConfig(text="a", output_file=target))
    monkeypatch.setattr(report, "_read_run", lambda *_: None)
    with pytest.raises(UserError, match=r"would overwrite .*run folder"):
        report.write_report([str(run.folder)], target)
    assert contents(tmp_path) == before


def test_no_output_replaces_the_checkpoint_wherever_it_lies(tmp_path, run):
    (tmp_path / "in").write_text("a line\n")
    target = tmp_path / "elsewhere" / "model.ckpt-9.index"
    with pytest.raises(UserError, match="would overwrite"):
        jobs.run(DecoderConfig(decode_from_file=str(tmp_path / "in"), decode_to_file=str(target)))
    with pytest.raises(UserError, match="would overwrite"):
        job.run(InsightsConfig(text="a line", output_file=str(target)))


def test_other_files_in_a_run_folder_may_be_replaced(tmp_path, run):
    (tmp_path / "in").write_text("a line\n")
    target = str(run.folder / "out.de")
    with pytest.raises(pytest.fail.Exception, match="went on"):
        jobs.run(DecoderConfig(decode_from_file=str(tmp_path / "in"), decode_to_file=target))


# ---- t2t-avg-checkpoints


@pytest.mark.parametrize("kind", ["model.ckpt-3", "best.ckpt-2"])
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_an_average_does_not_replace_a_checkpoint_of_the_run(run, kind, link):
    link(run.folder / f"{kind}.index", run.folder / "mean.index")
    for output in (run.folder / kind, run.folder / "mean"):
        with pytest.raises(UserError, match="is a checkpoint of the run: choose another"):
            averaging.average(run, [str(run.folder / "model.ckpt-3")], str(output))
