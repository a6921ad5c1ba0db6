"""Generation with Beam writes the same files as the local generator, on any file system."""

import functools
import json
import logging
import os
import pathlib
import random
import sys

import pytest

import t2t_lite.data.generation
from support import numbered
from support.commands import exit_code
from support.mixtures import MIXTURE, toys
from t2t_lite import registry
from t2t_lite.bin import t2t_datagen
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.text.text_encoder import VocabType

pytestmark = pytest.mark.integration

filesystem = pytest.importorskip("apache_beam.io.filesystem")
localfilesystem = pytest.importorskip("apache_beam.io.localfilesystem")

_THREADS = "--direct_num_workers=2 --direct_running_mode=multi_threading"
_PROCESSES = "--direct_num_workers=2 --direct_running_mode=multi_processing"


class Small(numbered.Small):
    """More training samples than one portion takes."""

    def __init__(self):
        super().__init__(train=230, eval=101, test=1)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for sample in super().generate_samples(data_dir, tmp_dir, dataset_split):
            yield sample | {"targets": sample["targets"] + "\u2028"}


class Dealt(Small):
    """One sequence of samples, spread over the files of all splits."""

    is_generate_per_split = False


class Corpora(Small):
    """Three corpora, the last of which repeats pairs of the first."""

    def samples_by_corpus(self, data_dir, tmp_dir, dataset_split):
        for name, first, last in (("a", 0, 100), ("b", 70, 170), ("c", 30, 60)):
            yield name, ({"inputs": f"{i}", "targets": f"{i:x}"} for i in range(first, last))

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for _, samples in self.samples_by_corpus(data_dir, tmp_dir, dataset_split):
            yield from samples


class OneSubwords(Small):
    """The same with a vocabulary to build."""

    vocab_type = VocabType.SUBWORD
    approx_vocab_size = 300


class Bad(Small):
    """A sample in the second portion has no target."""

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for i in range(60):
            yield {"inputs": f"{i}", "targets": "" if i == 57 else f"{i:x}"}


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch) -> None:
    monkeypatch.setattr(generator, "_CHUNK", 50)


def locally(problem, folder, **options) -> dict[str, bytes]:
    folder.mkdir()
    generate_data(problem, str(folder), str(folder), DatagenOptions(num_workers=1, **options))
    return contents(folder)


def by_beam(problem, data_dir, tmp_dir, beam_options="", **options) -> None:
    from t2t_lite.data.generation import beam_pipeline

    pipeline = beam_pipeline.pipeline_options("DirectRunner", beam_options)
    beam_pipeline.generate_from_samples(
        problem, str(data_dir), str(tmp_dir), DatagenOptions(**options), pipeline
    )


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def without_pipeline(monkeypatch) -> None:
    from t2t_lite.data.generation import beam_pipeline

    monkeypatch.delattr(beam_pipeline, "_run")


@pytest.mark.parametrize(
    ("cls", "clean"),
    [(Small, ""), (Dealt, ""), (Corpora, "duplicates"), (OneSubwords, "max_length=1")],
)
def test_several_workers_make_the_files_of_the_local_way(tmp_path, cls, clean):
    options = {"clean": clean, "random_seed": 7}
    expected = locally(cls(), tmp_path / "local", **options)
    by_beam(cls(), tmp_path / "beam", tmp_path, _THREADS, **options)
    assert contents(tmp_path / "beam") == expected
    assert sum(name.startswith("small-") for name in expected) == 7


def test_the_members_of_a_mixture_have_the_files_of_the_local_way(tmp_path):
    with toys():
        expected = locally(registry.problem(MIXTURE), tmp_path / "local")
        by_beam(registry.problem(MIXTURE), tmp_path / "beam", tmp_path, _THREADS)
    assert contents(tmp_path / "beam") == expected
    assert sum("-train-" in name for name in expected) == 6


command = functools.partial(exit_code, t2t_datagen.main)


def test_worker_processes_make_the_files_of_the_local_way(tmp_path):
    for split, count in (("train", 300), ("eval", 60)):
        for side, word in (("inputs", "number"), ("targets", "Zahl")):
            lines = (f"{word} {i * 7919 % 10007} {word[::-1]}\n" for i in range(count))
            (tmp_path / f"{side}.{split}.txt").write_text("".join(lines))
    what = ["--problem=text2text_tmpdir_bpe", f"--tmp_dir={tmp_path}"]
    beam = ["--runner=DirectRunner", f"--beam_options={_PROCESSES}"]
    assert command(*what, f"--data_dir={tmp_path / 'local'}", "--num_workers=1") == 0
    assert command(*what, f"--data_dir={tmp_path / 'beam'}", *beam) == 0
    expected = contents(tmp_path / "local")
    assert contents(tmp_path / "beam") == expected
    assert len(expected) == 103  # 100 training files, dev, vocabulary, fingerprint


def test_makes_only_what_is_missing(tmp_path, monkeypatch, caplog):
    expected = locally(Small(), tmp_path / "data")
    missing = tmp_path / "data" / "small-train-00002-of-00004"
    missing.unlink()
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").glob("small-*-of-*")}
    by_beam(Small(), tmp_path / "data", tmp_path)
    assert contents(tmp_path / "data") == expected
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    without_pipeline(monkeypatch)
    with caplog.at_level(logging.INFO):
        by_beam(Small(), tmp_path / "data", tmp_path)
    assert caplog.text.count("all files exist, skipped") == 3


def test_refuses_to_mix_with_other_data(tmp_path, monkeypatch):
    expected = locally(Small(), tmp_path / "data")
    without_pipeline(monkeypatch)
    with pytest.raises(UserError, match="random_seed: 429459 -> 8"):
        by_beam(Small(), tmp_path / "data", tmp_path, random_seed=8)
    assert contents(tmp_path / "data") == expected


class Drawing(OneSubwords):
    """Draws from the global random numbers."""

    low = 0

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for _ in range(self.sizes[dataset_split]):
            yield {"inputs": f"{random.randint(self.low, 99)}", "targets": "a"}


@pytest.mark.parametrize("made", ["local", "beam"])
def test_completes_no_files_from_other_samples(tmp_path, monkeypatch, made):
    expected = locally(Drawing(), tmp_path / "local")
    if made == "beam":
        by_beam(Drawing(), tmp_path / "beam", tmp_path)
    data = tmp_path / made
    (data / "small-train-00002-of-00004").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(Drawing, "low", 50)
        without_pipeline(patch)
        with pytest.raises(UserError, match="a part of small train generated from other samples"):
            by_beam(Drawing(), data, tmp_path)
    by_beam(Drawing(), data, tmp_path)
    assert contents(data) == expected


def test_two_runs_at_once_do_not_make_the_same(tmp_path):
    with (
        generator.exclusive(Small(), str(tmp_path)),
        pytest.raises(UserError, match="another t2t-datagen is generating small"),
    ):
        by_beam(Small(), tmp_path, tmp_path)


@pytest.mark.parametrize("beam_options", ["", _THREADS])
def test_an_error_of_a_worker_is_one_line_and_leaves_no_file(tmp_path, beam_options):
    with pytest.raises(UserError) as failed:
        by_beam(Bad(), tmp_path / "data", tmp_path, beam_options)
    assert "the Beam pipeline failed" in str(failed.value)
    assert "small: sample 58: targets is empty" in str(failed.value)
    assert "\n" not in str(failed.value)
    assert os.listdir(tmp_path / "data") == ["small.fingerprint.json"]


def test_an_error_of_the_reader_leaves_no_file(tmp_path):
    with pytest.raises(DataError, match="0 samples are too few: the eval split would be empty"):
        by_beam(numbered.Small(eval=0), tmp_path, tmp_path)
    assert os.listdir(tmp_path) == ["small.fingerprint.json"]


def test_a_disk_that_fills_up_leaves_whole_files_and_the_next_run_makes_the_rest(
    tmp_path, monkeypatch
):
    expected = locally(Small(), tmp_path / "local")
    rename = localfilesystem.LocalFileSystem.rename

    def failing(self, sources, targets):
        if "train-00001" in targets[0]:
            raise OSError("no space")
        rename(self, sources, targets)

    with monkeypatch.context() as patch:
        patch.setattr(localfilesystem.LocalFileSystem, "rename", failing)
        with pytest.raises(UserError, match="no space"):
            by_beam(Small(), tmp_path / "data", tmp_path)
    found = contents(tmp_path / "data")
    assert found.items() < expected.items()
    by_beam(Small(), tmp_path / "data", tmp_path)
    assert contents(tmp_path / "data") == expected


class Remote(localfilesystem.LocalFileSystem):
    """A fake remote file system: `far://x` maps to a folder of the test.

    As some remote ones it does not rename onto a file.
    """

    root: pathlib.Path

    @classmethod
    def scheme(cls):
        return "far"

    def _here(self, path):
        assert path.startswith("far://")
        return str(self.root / path.removeprefix("far://"))

    def join(self, basepath, *paths):
        return "/".join([basepath, *paths])

    def split(self, path):
        folder, _, name = path.rpartition("/")
        return folder, name

    def mkdirs(self, path):
        super().mkdirs(self._here(path))

    def exists(self, path):
        return super().exists(self._here(path))

    def create(self, path, *arguments):
        return super().create(self._here(path), *arguments)

    def open(self, path, *arguments):
        return super().open(self._here(path), *arguments)

    def rename(self, sources, targets):
        assert not any(map(self.exists, targets))
        super().rename([*map(self._here, sources)], [*map(self._here, targets)])

    def delete(self, paths):
        for path in paths:
            os.remove(self._here(path))

    def _list(self, folder):
        for path in pathlib.Path(self._here(folder)).iterdir():
            yield filesystem.FileMetadata(f"{folder}/{path.name}", path.stat().st_size)


def test_a_folder_that_only_beam_can_reach(tmp_path, monkeypatch):
    expected = locally(OneSubwords(), tmp_path / "local")
    Remote.root = tmp_path / "far"
    by_beam(OneSubwords(), "far://bucket/data", tmp_path)
    folder = tmp_path / "far" / "bucket" / "data"
    assert contents(folder) == expected
    # As after a run that was stopped early: the fingerprint is written over.
    entries = json.loads(expected["small.fingerprint.json"])
    (folder / "small.fingerprint.json").write_text(
        json.dumps({name: entry for name, entry in entries.items() if name != "test"}, indent=1)
    )
    (folder / "small-test-00000-of-00001").unlink()
    (folder / "small-dev-00001-of-00002").unlink()
    by_beam(OneSubwords(), "far://bucket/data", tmp_path)
    assert contents(folder) == expected
    without_pipeline(monkeypatch)
    with pytest.raises(
        UserError, match="far://bucket/data has data of small generated from"
    ) as error:
        by_beam(OneSubwords(), "far://bucket/data", tmp_path, random_seed=8)
    assert "/tmp" not in str(error.value)


@pytest.mark.parametrize(
    ("runner", "arguments", "complaint"),
    [
        ("NoRunner", "", "NoRunner.*DirectRunner"),
        ("DirectRunner", "--job_name='", "quotation"),
        ("DirectRunner", "--direct_num_workers=two", "direct_num_workers.*'two'"),
    ],
)
def test_what_beam_refuses_is_a_usage_error(runner, arguments, complaint, capsys):
    from t2t_lite.data.generation import beam_pipeline

    with pytest.raises(UsageError, match=f"--runner={runner} .*: .*{complaint}"):
        beam_pipeline.pipeline_options(runner, arguments)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--runner=DirectRunner", "--num_workers=2"], "--num_workers applies to this machine"),
        (["--beam_options=--direct_num_workers=2"], "--runner is missing"),
    ],
)
def test_flags_that_exclude_each_other(tmp_path, argv, complaint, capsys):
    data_dir = tmp_path / "data"
    assert command("--problem=text2text_tmpdir", f"--data_dir={data_dir}", *argv) == 2
    assert complaint in capsys.readouterr().err
    assert not data_dir.exists()


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    monkeypatch.delitem(sys.modules, "t2t_lite.data.generation.beam_pipeline", raising=False)
    monkeypatch.delattr(t2t_lite.data.generation, "beam_pipeline", raising=False)
    what = ["--problem=text2text_tmpdir", f"--data_dir={tmp_path}", f"--tmp_dir={tmp_path}"]
    assert command(*what, "--runner=DirectRunner") == 1
    assert "pip install '.[beam]'" in capsys.readouterr().err


def test_an_unknown_file_system_is_named(tmp_path):
    with pytest.raises(UserError, match="--data_dir=gopher://hole"):
        by_beam(Small(), "gopher://hole", tmp_path)
