"""What t2t-shortlist writes, of its own alignment and of given ones; what it refuses."""

import dataclasses
import random

import numpy as np
import pytest

from support.commands import exit_code, refusal
from support.imported_runs import imported_run
from support.small_runs import make_run
from support.texts import write_lines
from t2t_lite import registry
from t2t_lite.bin import t2t_shortlist
from t2t_lite.errors import DataError, UserError
from t2t_lite.study.distillation import shortlist_job
from t2t_lite.study.distillation.shortlist_config import ShortlistConfig
from t2t_lite.text.alignment.id_links import word_places
from t2t_lite.text.alignment.shortlist import Shortlist

WORDS = 8  # of the sources; wN is translated by w(N + 10)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return imported_run(tmp_path_factory.mktemp("runs") / "run", default="de")


@pytest.fixture
def config(run, tmp_path) -> ShortlistConfig:
    draw = random.Random(1)
    sources = [[draw.randrange(WORDS) for _ in range(draw.randint(1, 6))] for _ in range(80)]
    write_lines(tmp_path / "inputs.train.txt", [" ".join(f"w{i}" for i in s) for s in sources])
    lines = [" ".join(f"w{i + 10}" for i in source) for source in sources]
    write_lines(tmp_path / "targets.train.txt", lines)
    for side in ("inputs", "targets"):
        write_lines(tmp_path / f"{side}.eval.txt", ["w1"])
    return ShortlistConfig(
        output_dir=str(run.folder),
        tmp_dir=str(tmp_path),
        shortlist=str(tmp_path / "list.txt"),
        frequent=0,
        best=1,
    )


def translations(run, config):
    """Returns the candidates of each source word, but for those of all and its copy."""
    shortlist = Shortlist.read(config.shortlist, run.encoders)
    found = {}
    for word in range(WORDS):
        ids = np.array([run.encoders["inputs"].encode(f"w{word}")])
        vocabulary, _ = shortlist.candidates(ids, np.zeros([1, 0], np.int32))
        text = run.encoders["targets"].decode(vocabulary[vocabulary > 1].tolist())
        found[word] = [int(other[1:]) for other in text.split() if other != f"w{word}"]
    return found


def test_a_list_has_the_learned_translations(run, config, capsys):
    shortlist_job.run(config)
    assert translations(run, config) == {word: [word + 10] for word in range(WORDS)}
    assert "100.00% of the training targets' subwords" in capsys.readouterr().out


def test_given_alignments_decide(run, config, tmp_path):
    """Even wrong ones: here, each word is linked to the last one."""
    sources = (tmp_path / "inputs.train.txt").read_text().splitlines()
    links = [" ".join(f"{i}-{len(s.split()) - 1}" for i in range(len(s.split()))) for s in sources]
    path = write_lines(tmp_path / "links", links)
    shortlist_job.run(dataclasses.replace(config, alignments=str(path), best=100))
    lasts = {w: set() for w in range(WORDS)}
    for source in sources:
        for word in source.split():
            lasts[int(word[1:])].add(int(source.split()[-1][1:]) + 10)
    assert {w: set(found) for w, found in translations(run, config).items()} == lasts


@pytest.mark.parametrize(
    "name", ["text2text_tmpdir_bpe", "text2text_tmpdir_unigram", "text2text_tmpdir"]
)
def test_linked_words_have_the_ids_of_their_lines(tmp_path, name):
    """A word has other ids at the start of a line than within it, and punctuation at its end."""
    pairs = [("a cat", "eine Katze"), ("cats, dogs", "Katzen, Hunde"), ("a dog", "ein Hund")]
    for side, lines in zip(("inputs", "targets"), zip(*pairs, strict=True), strict=True):
        for split in ("train", "eval"):
            write_lines(tmp_path / f"{side}.{split}.txt", lines)
    links = write_lines(tmp_path / "links", ["0-0 1-1"] * len(pairs))
    registry.problem(name).build_vocab(str(tmp_path), str(tmp_path))
    run = make_run(tmp_path / "run", name, hparams_set="transformer_tiny", data_dir=tmp_path)
    path = str(tmp_path / "list.txt")
    shortlist_job.run(
        ShortlistConfig(
            output_dir=str(run.folder),
            tmp_dir=str(tmp_path),
            shortlist=path,
            frequent=0,
            best=100,
            alignments=str(links),
        )
    )
    _, translations = Shortlist.read(path, run.encoders).lists()
    for pair in pairs:
        ids = [run.encoders["targets"].encode(text) for text in pair]
        places = [word_places(run.encoders["targets"], own) for own in ids]
        for source, place in zip(ids[0], places[0], strict=True):
            linked = {i for i, other in zip(ids[1], places[1], strict=True) if other == place}
            assert linked <= {*translations[source]}


def test_links_are_ignored_where_ids_show_other_words(run, config, tmp_path, caplog):
    """The imported vocabulary skips words that it does not know."""
    for side, line in (("inputs", "w1 unknown w2"), ("targets", "w11 w0 w12")):
        path = tmp_path / f"{side}.train.txt"
        path.write_text(f"{line}\n{path.read_text()}")
    sources = (tmp_path / "inputs.train.txt").read_text().splitlines()
    links = [" ".join(f"{i}-{i}" for i in range(len(line.split()))) for line in sources]
    path = write_lines(tmp_path / "links", links)
    shortlist_job.run(dataclasses.replace(config, alignments=str(path), best=100))
    assert translations(run, config) == {word: [word + 10] for word in range(WORDS)}
    assert "ignored the links of 1 pairs: the vocabulary shows other words" in caplog.text


def test_links_are_left_out_where_aligners_may_count_words_otherwise(run, config, tmp_path, caplog):
    """fast_align takes what a no-break space separates for one word."""
    sources = (tmp_path / "inputs.train.txt").read_text().splitlines()
    targets = (tmp_path / "targets.train.txt").read_text().splitlines()
    pairs = [("w1\xa0w2 w3 w4", "w11 w13 w14"), *zip(sources, targets, strict=True)]
    for side, lines in zip(("inputs", "targets"), zip(*pairs, strict=True), strict=True):
        write_lines(tmp_path / f"{side}.train.txt", lines)
    links = [" ".join(f"{i}-{i}" for i in range(len(line.split()))) for line in sources]
    path = write_lines(tmp_path / "links", ["0-0 1-1 2-2", *links])
    shortlist_job.run(dataclasses.replace(config, alignments=str(path), best=100))
    assert translations(run, config) == {word: [word + 10] for word in range(WORDS)}
    assert "ignored the links of 1 pairs, first on line 1" in caplog.text


def test_alignments_of_another_text_are_refused(config, tmp_path):
    path = str(write_lines(tmp_path / "links", ["0-0"] * 79))
    with pytest.raises(DataError, match="has fewer lines than the training text has pairs"):
        shortlist_job.run(dataclasses.replace(config, alignments=path))
    write_lines(tmp_path / "links", ["0-0"] * 81)
    with pytest.raises(DataError, match="has more lines than the training text has pairs"):
        shortlist_job.run(dataclasses.replace(config, alignments=path))
    write_lines(tmp_path / "links", ["0-0", "0-9", *["0-0"] * 78])
    with pytest.raises(DataError, match="line 2: link 0-9 is outside of the pair"):
        shortlist_job.run(dataclasses.replace(config, alignments=path))


@pytest.mark.parametrize(
    "name",
    [
        "links",
        "inputs.train.txt",
        "targets.train.txt",
        "targets.eval.txt",
        "run/hparams.json",
        "run/flags.json",
        "run/vocab.imported.source.json",
    ],
)
def test_a_list_replaces_no_file_that_is_read_or_of_the_run(run, config, tmp_path, name):
    links = str(write_lines(tmp_path / "links", ["0-0"] * 80))
    path = run.folder.parent / name if name.startswith("run/") else tmp_path / name
    before = path.read_bytes()
    with pytest.raises(UserError, match="would overwrite"):
        shortlist_job.run(dataclasses.replace(config, alignments=links, shortlist=str(path)))
    assert path.read_bytes() == before


def test_the_flags_reach_the_job(monkeypatch):
    calls = []
    monkeypatch.setattr("t2t_lite.study.distillation.shortlist_job.run", calls.append)
    assert exit_code(t2t_shortlist.main, "--output_dir=r", "--shortlist=s", "--best=3") == 0
    (config,) = calls
    assert (config.output_dir, config.shortlist, config.best) == ("r", "s", 3)
    assert "--shortlist is missing" in refusal(t2t_shortlist.main, "--output_dir=r")
    assert "--output_dir is missing" in refusal(t2t_shortlist.main, "--shortlist=s")
