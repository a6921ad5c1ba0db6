"""Repeated generation through the command's function, with changed sources and options."""

import itertools
import signal
import subprocess
import sys
import types

import pytest

from support.folders import digests
from t2t_lite.bin import t2t_datagen
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.errors import UserError
from t2t_lite.text import vocabularies


@pytest.fixture
def corpus(tmp_path, data) -> types.SimpleNamespace:
    """120 training and 120 evaluation pairs: more than `text2text_tmpdir` has files."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in ("inputs.train.txt", "targets.train.txt", "inputs.eval.txt", "targets.eval.txt"):
        (raw / name).write_text("".join(f"{name} {number}\n" for number in range(120)))
    return types.SimpleNamespace(raw=raw, data=data)


def generate(corpus, folder=None, **options):
    folders = str(folder or corpus.data), str(corpus.raw)
    options = DatagenOptions(num_workers=1, **options)
    t2t_datagen.generate(["text2text_tmpdir"], *folders, options)


def test_nothing_is_made_or_kept_once_a_source_has_changed(corpus):
    generate(corpus)
    finished = digests(corpus.data)
    generate(corpus)
    assert digests(corpus.data) == finished
    targets = corpus.raw / "targets.eval.txt"
    targets.write_text(targets.read_text().upper())
    with pytest.raises(UserError, match=r"now\): targets\.eval\.txt: other contents\. "):
        generate(corpus)
    assert digests(corpus.data) == finished
    (corpus.data / "text2text_tmpdir-dev-00000-of-00001").unlink()
    generate(corpus)
    remade = digests(corpus.data)
    changed = {name for name in finished if remade[name] != finished[name]}
    assert changed == {
        "text2text_tmpdir-dev-00000-of-00001",
        "text2text_tmpdir.fingerprint.json",
    }


_KILLED_RUN = """
import os, pathlib, signal, sys
from t2t_lite.bin import t2t_datagen
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions

def replace(self, target, original=pathlib.Path.replace):
    original(self, target)
    if pathlib.Path(target).name == "text2text_tmpdir-train-00041-of-00100":
        os.kill(os.getpid(), signal.SIGKILL)

pathlib.Path.replace = replace
t2t_datagen.generate(["text2text_tmpdir"], *sys.argv[1:], DatagenOptions(num_workers=1))
"""


@pytest.mark.integration
def test_a_killed_run_resumes_only_from_the_same_inputs(corpus, tmp_path):
    arguments = [sys.executable, "-c", _KILLED_RUN, str(corpus.data), str(corpus.raw)]
    assert subprocess.run(arguments).returncode == -signal.SIGKILL
    assert not (corpus.data / "text2text_tmpdir-train-00042-of-00100").exists()
    inputs = corpus.raw / "inputs.train.txt"
    text = inputs.read_text()
    inputs.write_text(text.replace("119", "one hundred and nineteen"))
    with pytest.raises(UserError, match=r"inputs\.train\.txt: \d+ -> \d+ bytes"):
        generate(corpus)
    inputs.write_text(text)
    with pytest.raises(UserError, match="random_seed: 429459 -> 5"):
        generate(corpus, random_seed=5)
    generate(corpus)

    generate(corpus, tmp_path / "undisturbed")
    assert digests(corpus.data) == digests(tmp_path / "undisturbed")


def test_changed_splits_are_named_before_a_vocabulary_is_built(corpus, monkeypatch):
    generate(corpus)
    (corpus.data / "text2text_tmpdir-train-00041-of-00100").unlink()
    (corpus.data / "vocab.text2text_tmpdir.32768.subwords").unlink()
    monkeypatch.delattr(vocabularies, "build")
    with pytest.raises(UserError, match="clean: '' -> 'identical'"):
        generate(corpus, clean="identical")


def test_a_vocabulary_that_is_built_again_is_held_against_the_splits(corpus, monkeypatch):
    generate(corpus)
    finished = digests(corpus.data)
    vocabulary = corpus.data / "vocab.text2text_tmpdir.32768.subwords"
    vocabulary.unlink()
    generate(corpus)
    assert digests(corpus.data) == finished

    def build(kind, path, text, *arguments, original=vocabularies.build, **options):
        original(kind, path, itertools.islice(text, 5), *arguments, **options)

    vocabulary.unlink()
    monkeypatch.setattr(vocabularies, "build", build)
    with pytest.raises(UserError, match=r"vocabulary vocab\.text2text_tm.*: other contents"):
        generate(corpus)


def test_a_source_that_is_replaced_while_it_is_read_leaves_no_vocabulary(corpus, monkeypatch):
    inputs = corpus.raw / "inputs.train.txt"

    def build(kind, path, text, *arguments, original=vocabularies.build, **options):
        original(kind, path, text, *arguments, **options)
        inputs.write_text(inputs.read_text().upper())

    with monkeypatch.context() as patch:
        patch.setattr(vocabularies, "build", build)
        with pytest.raises(UserError, match=r"inputs\.train\.txt was replaced while this command"):
            generate(corpus)
    assert not list(corpus.data.glob("vocab.*"))
    generate(corpus)
    assert "INPUTS" in (corpus.data / "vocab.text2text_tmpdir.32768.subwords").read_text()


@pytest.mark.parametrize("change", ["inputs.train.txt", "targets.eval.txt", "alignments", "vocab"])
def test_what_is_replaced_while_samples_are_read_leaves_no_data(corpus, monkeypatch, change):
    """The chunks that were made until then are taken by the next run only if they are its own."""
    alignments = corpus.raw / "alignments"
    alignments.write_text("0-0 1-1\n" * 120)
    options = {"alignments": str(alignments)}
    vocabulary = corpus.data / "vocab.text2text_tmpdir.32768.subwords"
    path = vocabulary if change == "vocab" else corpus.raw / change
    split = "dev" if "eval" in change else "train"
    chunks_of = generator.chunks_of

    def replaced(samples, group):
        yield from chunks_of(samples, group)
        if group.source == {"dev": "eval"}.get(split, split):
            path.write_bytes(path.read_bytes().replace(b"1", b"0"))

    with monkeypatch.context() as patch:
        patch.setattr(generator, "chunks_of", replaced)
        message = "--alignments" if change == "alignments" else path.name
        with pytest.raises(UserError, match=rf"^{message}: replaced while text2text_tmpdir.*again"):
            generate(corpus, **options)
    assert not list(corpus.data.glob(f"text2text_tmpdir-{split}-*-of-*"))
