"""A short trial of benchmarks/hostile.py: a few damaged inputs for every reader."""

import importlib
import pathlib
import sys

import pytest

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def hostile():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("hostile")
    finally:
        sys.path.remove(str(BENCHMARKS))


READERS = [
    *("text", "c.zip", "c.tar", "c.tar.gz", "c.tar.bz2", "long members"),
    *("sgm", "tmx", "tsv", "trees", "parseval"),
    *("vocabulary: tokens", "vocabulary: subwords", "vocabulary: bpe", "tfrecords", "run folder"),
    *("checkpoint", "t2t folder", "t2t checkpoint", "part file", "requests", "answers"),
    *("settings", "keras archive", "t2t texts", "user directory"),
    *("import: marian", "import: mariannmt", "import: m2m100", "import: nllb"),
    "requests: markup and terms",
]


def test_every_reader_is_on_trial(hostile):
    assert list(hostile.READERS) == READERS


@pytest.mark.integration
@pytest.mark.parametrize("name", READERS)
def test_nothing_is_worse_than_refused(hostile, name, capsys):
    count = 12 if hostile.READERS[name].share >= 1 else 3
    with hostile.on_trial():
        violations = hostile.run_reader(name, range(count), seed=1)
    assert violations == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda folder: [][0], "IndexError"),
        (lambda folder: (folder / "a.txt").write_text(""), "files were changed by reading them"),
    ],
)
def test_what_is_worse_is_seen_and_can_be_repeated(hostile, monkeypatch, capsys, read, message):
    sound = hostile.READERS["text"]
    calls = iter([sound.read])  # what is sound must be read
    reader = hostile.Reader(sound.write, lambda folder: next(calls, read)(folder))
    monkeypatch.setitem(hostile.READERS, "text", reader)
    with hostile.on_trial():
        assert hostile.run_reader("text", range(3, 4), seed=2) == 1
    printed = capsys.readouterr().out
    assert message in printed
    assert "hostile.py --seed=2 --reader='text' --number=3" in printed
