"""WMT problems match their names; the archives built here have upstream's layout."""

import gzip
import pathlib
import urllib.parse
from collections.abc import Sequence

import pytest

from support.archives import write_archive
from support.commands import printed_by
from support.texts import decoded_pairs, pairs_of
from t2t_lite import registry
from t2t_lite.bin import t2t_datagen
from t2t_lite.data.corpora.corpora import RemoteFile
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.problem import three_splits
from t2t_lite.errors import DataError, UserError
from t2t_lite.problems import wmt
from t2t_lite.text.source_form import source_form

T2T_ENDE = ["news-commentary-v13.de-en", "commoncrawl.de-en", "europarl-v7.de-en"]
PAPER_ENDE = ["europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en"]
ENFR = [
    "commoncrawl.fr-en",
    "europarl-v7.fr-en",
    "news-commentary-v9.fr-en",
    "giga-fren.release2.fixed",
    "undoc.2000.fr-en",
]
SMALL = ["baseline-1M_train"]
NEWS_DE, NEWS_FR = (("newstest2013", f"newstest2014-{x}en") for x in ("de", "fr"))
NEWS_SMALL = ("baseline-1M_valid", "newstest2014-fren")
# Name: training corpora, dev corpus, test corpus, vocabulary file.
MEANINGS = {
    "translate_ende_wmt14_bpe37k": (PAPER_ENDE, *NEWS_DE, "37000.bpe.model"),
    "translate_enfr_wmt14_wpm32k": (ENFR, *NEWS_FR, "32000.bpe.model"),
    "translate_ende_wmt8k": (T2T_ENDE, *NEWS_DE, "8192.subwords"),
    "translate_ende_wmt32k": (T2T_ENDE, *NEWS_DE, "32768.subwords"),
    "translate_ende_wmt_characters": (T2T_ENDE, *NEWS_DE, None),
    "translate_enfr_wmt8k": (ENFR, *NEWS_FR, "8192.subwords"),
    "translate_enfr_wmt32k": (ENFR, *NEWS_FR, "32768.subwords"),
    "translate_enfr_wmt_characters": (ENFR, *NEWS_FR, None),
    "translate_enfr_wmt_small8k": (SMALL, *NEWS_SMALL, "8192.subwords"),
    "translate_enfr_wmt_small32k": (SMALL, *NEWS_SMALL, "32768.subwords"),
    "translate_enfr_wmt_small_characters": (SMALL, *NEWS_SMALL, None),
}
# Upstream's archives and the stems of the members that are read, by language.
PLAIN = {
    "training-parallel-commoncrawl.tgz": ["commoncrawl.{}-en"],
    "training-parallel-europarl-v7.tgz": ["training/europarl-v7.{}-en"],
    "training-parallel-nc-v9.tgz": ["training/news-commentary-v9.{}-en"],
    "training-parallel-nc-v13.tgz": ["training-parallel-nc-v13/news-commentary-v13.{}-en"],
    "training-parallel-un.tgz": ["un/undoc.2000.{}-en"],
    "baseline-1M-enfr.tgz": [
        "baseline-1M-enfr/baseline-1M_train",
        "baseline-1M-enfr/baseline-1M_valid",
    ],
    "dev.tgz": ["dev/newstest2013"],
}
Lines = Sequence[str]


def text(lines: Lines) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def sgm(lines: Lines) -> bytes:
    escaped = (line.replace("&", "&amp;").replace("<", "&lt;") for line in lines)
    segs = [f'<seg id="{number}">{line}</seg>' for number, line in enumerate(escaped, 1)]
    return text(
        ['<refset setid="newstest2014" srclang="any">', "<doc>", "<p>", *segs, "</p>", "</doc>"]
    )


def sentences(corpus: str, language: str) -> Lines:
    """Lines that name their origin; one pair has an empty side, another a stray line break."""
    tail = ["x\u2028y\u0085z" if language == "en" else "x", "" if language == "en" else "leer"]
    return [f"{corpus} {language} & word{i * i % 89} <{i}> \u00fc" for i in range(118)] + tail


@pytest.fixture(scope="module")
def upstream(tmp_path_factory) -> pathlib.Path:
    """A folder with all archives, under upstream's names and with upstream's members."""
    folder = tmp_path_factory.mktemp("upstream")
    for archive, stems in PLAIN.items():
        members = {"README": b"\xff"}
        for stem in stems:
            for other in ("de", "fr", "ru"):
                filled = stem.format(other)
                name = filled.rpartition("/")[2]
                members |= {f"{filled}.{x}": text(sentences(name, x)) for x in ("en", other)}
        write_archive(folder / archive, members)
    giga = "giga-fren.release2.fixed"
    members = {f"{giga}.{x}.gz": gzip.compress(text(sentences(giga, x))) for x in ("en", "fr")}
    write_archive(folder / "training-giga-fren.tar", members)
    members = {}
    for other in ("de", "fr"):
        stem, name = f"test-full/newstest2014-{other}en", f"newstest2014-{other}en"
        members[f"{stem}-src.{other}.sgm"] = sgm(["other direction"])
        members[f"{stem}-ref.en.sgm"] = sgm(["other direction"])
        members[f"{stem}-src.en.sgm"] = sgm(sentences(name, "en"))
        members[f"{stem}-ref.{other}.sgm"] = sgm(sentences(name, other))
    write_archive(folder / "test-full.tgz", members)
    return folder


@pytest.fixture
def few_shards(monkeypatch) -> None:
    """Generates three training files: each file costs time, whatever its size."""
    monkeypatch.setattr(wmt, "three_splits", lambda train_shards: three_splits(3))


def expected_pairs(corpora: Lines, language: str) -> list[tuple[str, str]]:
    return [
        pair
        for corpus in corpora
        for pair in zip(sentences(corpus, "en"), sentences(corpus, language), strict=True)
        if all(pair)
    ]


@pytest.mark.parametrize("name", MEANINGS)
def test_a_name_keeps_its_meaning(name):
    training, dev, test, vocabulary = MEANINGS[name]
    problem = registry.problem(name)
    assert [corpus.name for corpus in problem.corpora("train")] == training
    assert [corpus.name for corpus in problem.corpora("eval")] == [dev]
    assert [corpus.name for corpus in problem.corpora("test")] == [test]
    assert problem.vocab_files() == ([f"vocab.{name}.{vocabulary}"] if vocabulary else [])
    assert problem.dataset_splits == [
        {"split": "train", "shards": 100},
        {"split": "eval", "shards": 1},
        {"split": "test", "shards": 1},
    ]
    reversed_problem = registry.problem(f"{name}_rev")
    assert reversed_problem.was_reversed
    assert reversed_problem.vocab_files() == problem.vocab_files()


def test_every_wmt_problem_is_pinned():
    names = {
        n for n in registry.list_problems() if n.startswith(("translate_ende", "translate_enfr"))
    }
    assert {name for name in names if "_wmt" in name} == MEANINGS.keys()


def test_archives_are_upstreams():
    files = {
        urllib.parse.urlsplit(file.url).netloc + urllib.parse.urlsplit(file.url).path: file
        for file in vars(wmt).values()
        if isinstance(file, RemoteFile)
    }
    assert {
        name: (file.size, file.file_hash and len(file.file_hash)) for name, file in files.items()
    } == {
        "www.statmt.org/wmt13/training-parallel-commoncrawl.tgz": (918311367, 64),
        "www.statmt.org/wmt13/training-parallel-europarl-v7.tgz": (657632379, 64),
        "www.statmt.org/wmt14/training-parallel-nc-v9.tgz": (80418416, 64),
        "data.statmt.org/wmt18/translation-task/training-parallel-nc-v13.tgz": (113157482, 64),
        "www.statmt.org/wmt13/training-parallel-un.tgz": (2365634246, 64),
        "www.statmt.org/wmt10/training-giga-fren.tar": (2595102720, 64),
        "s3.amazonaws.com/opennmt-trainingdata/baseline-1M-enfr.tgz": (None, None),
        "data.statmt.org/wmt17/translation-task/dev.tgz": (None, None),
        "www.statmt.org/wmt14/test-full.tgz": (None, 32),
    }


@pytest.mark.parametrize("name", MEANINGS)
def test_pairs_of_every_split_come_from_the_archives_in_order(upstream, name):
    training, dev, test, _ = MEANINGS[name]
    problem = registry.problem(name)
    language = "de" if "ende" in name else "fr"
    for split, corpora in (("train", training), ("eval", [dev]), ("test", [test])):
        samples = problem.generate_samples("", str(upstream), split)
        assert pairs_of(samples) == expected_pairs(corpora, language)
        parts = {
            corpus: pairs_of(samples)
            for corpus, samples in problem.samples_by_corpus("", str(upstream), split)
        }
        assert parts == {corpus: expected_pairs([corpus], language) for corpus in corpora}
        assert list(parts) == list(corpora)


@pytest.mark.parametrize(
    "name",
    [
        "translate_ende_wmt14_bpe37k",
        "translate_enfr_wmt14_wpm32k",
        "translate_ende_wmt8k",
        "translate_enfr_wmt_small32k",
        "translate_enfr_wmt_characters",
    ],
)
def test_generates_encoded_files_of_three_splits(upstream, few_shards, tmp_path, name):
    problem = registry.problem(name)
    generate_data(problem, str(tmp_path), str(upstream))
    for split in ("train", "eval", "test"):
        pairs = pairs_of(problem.generate_samples("", str(upstream), split))
        read = problem.get_feature_encoders(str(tmp_path))["inputs"].as_source
        expected = sorted((read(source), target) for source, target in pairs)
        assert sorted(decoded_pairs(problem, tmp_path, split)) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [
            *(f"{name}-train-0000{i}-of-00003" for i in range(3)),
            *(f"{name}-{split}-00000-of-00001" for split in ("dev", "test")),
            f"{name}.fingerprint.json",
            *problem.vocab_files(),
        ]
    )


@pytest.mark.parametrize("name", ["translate_enfr_wmt32k", "translate_enfr_wmt14_wpm32k"])
def test_the_vocabulary_is_built_from_a_sample_that_is_spread_over_all_corpora(
    upstream, monkeypatch, name
):
    monkeypatch.setattr(wmt.T2TWmtProblem, "vocab_characters_per_corpus", 1000)
    monkeypatch.setattr(wmt.PaperWmtProblem, "vocab_characters", 5000)
    problem = registry.problem(name)
    lines = list(problem.generate_text_for_vocab("", str(upstream)))
    assert 2000 < sum(map(len, lines)) <= 5000
    every = [line for pair in expected_pairs(ENFR, "fr") for line in pair]
    assert set(lines) < set(every)
    for corpus in ENFR:
        own = [line for line in lines if line.startswith(corpus)]
        assert 200 < sum(map(len, own)) <= 1100
        assert any("<0>" in line for line in own) or name.endswith("wpm32k")
        # From its beginning to its end.
        numbers = [int(line.partition("<")[2].partition(">")[0]) for line in own]
        assert min(numbers) < 30
        assert max(numbers) > 90


def test_a_missing_member_and_a_missing_archive_are_one_line_each(tmp_path, monkeypatch):
    problem = registry.problem("translate_ende_wmt32k")
    write_archive(
        tmp_path / "dev.tgz", {"dev/newstest2013.en": b"a\n", "dev/newstest2012.de": b"b\n"}
    )
    expected = (
        f"^{tmp_path}/dev.tgz: none of its 2 members is 'dev/newstest2013.de'; "
        "did you mean 'dev/newstest201[23]..."
    )
    with pytest.raises(DataError, match=expected):
        list(problem.generate_samples("", str(tmp_path), "eval"))
    (tmp_path / "dev.tgz").unlink()
    absent = RemoteFile(f"{tmp_path.as_uri()}/absent/dev.tgz")
    monkeypatch.setattr(wmt, "DEVELOPMENT_SETS", absent)
    with pytest.raises(
        UserError, match=f"^cannot download {absent.url} .*put it at {tmp_path}/dev.tgz$"
    ):
        problem.generate_samples("", str(tmp_path), "eval")


# Archives, the stems of their members, and real text to put in.
NEWS, EUROPARL = "newstest/newstest{}", "europarl/europarl-v7.fr-en"
REAL = {
    "translate_ende_wmt14_bpe37k": {
        "training-parallel-europarl-v7.tgz": ("training/europarl-v7.de-en", NEWS.format(2009)),
        "training-parallel-commoncrawl.tgz": ("commoncrawl.de-en", NEWS.format(2008)),
        "training-parallel-nc-v9.tgz": ("training/news-commentary-v9.de-en", NEWS.format(2010)),
        "dev.tgz": ("dev/newstest2013", NEWS.format(2013)),
        "test-full.tgz": ("test-full/newstest2014-deen", NEWS.format(2012)),
    },
    "translate_enfr_wmt14_wpm32k": {
        "training-parallel-commoncrawl.tgz": ("commoncrawl.fr-en", NEWS.format(2008)),
        "training-parallel-europarl-v7.tgz": ("training/europarl-v7.fr-en", EUROPARL),
        "training-parallel-nc-v9.tgz": ("training/news-commentary-v9.fr-en", NEWS.format(2010)),
        "training-giga-fren.tar": ("giga-fren.release2.fixed", NEWS.format(2011)),
        "training-parallel-un.tgz": ("un/undoc.2000.fr-en", NEWS.format(2012)),
        "dev.tgz": ("dev/newstest2013", NEWS.format(2013)),
        "test-full.tgz": ("test-full/newstest2014-fren", NEWS.format(2009)),
    },
}


@pytest.mark.integration
@pytest.mark.parametrize("name", REAL)
def test_real_text_through_t2t_datagen(shared_data, few_shards, tmp_path, monkeypatch, name):
    """Real texts instead of upstream's, in archives with upstream's layout."""
    monkeypatch.setattr(wmt.PaperWmtProblem, "vocab_characters", 2_000_000)  # for speed
    language = "de" if "ende" in name else "fr"
    raw, data = tmp_path / "raw", tmp_path / "data"
    raw.mkdir()
    real = {}
    for archive, (stem, source) in REAL[name].items():
        packed = {x: (shared_data / f"{source}.{x}.gz").read_bytes() for x in ("en", language)}
        plain = {x: gzip.decompress(contents) for x, contents in packed.items()}
        lines = {x: text.decode().removesuffix("\n").split("\n") for x, text in plain.items()}
        if archive == "test-full.tgz":
            sides = {"en": "src", language: "ref"}
            members = {f"{stem}-{sides[x]}.{x}.sgm": sgm(lines[x]) for x in lines}
        elif archive.endswith(".tar"):
            members = {f"{stem}.{x}.gz": contents for x, contents in packed.items()}
        else:
            members = {f"{stem}.{x}": contents for x, contents in plain.items()}
        write_archive(raw / archive, members)
        stripped = zip(*([line.strip() for line in side] for side in lines.values()), strict=True)
        real[archive] = [pair for pair in stripped if all(pair)]
    printed_by(t2t_datagen.main, f"--problem={name}", f"--tmp_dir={raw}", f"--data_dir={data}")

    problem = registry.problem(name)
    assert problem.load_vocab(str(data)).vocab_size == problem.approx_vocab_size
    dev, test = real.pop("dev.tgz"), real.pop("test-full.tgz")
    train = [pair for pairs in real.values() for pair in pairs]
    sizes = {"de": 2051 + 2525 + 2489, "fr": 2051 + (20_000 - 36) + 2489 + 3003 + 3003}
    assert len(train) == sizes[language]
    for split, pairs in (("train", train), ("eval", dev), ("test", test)):
        read = [(source_form(source).strip(), target) for source, target in pairs]
        expected = read if problem.reads_source_form else pairs
        assert sorted(decoded_pairs(problem, data, split)) == sorted(expected)


def test_an_archive_that_cannot_be_had_shows_before_any_work(upstream, tmp_path, monkeypatch):
    raw, data = tmp_path / "raw", tmp_path / "data"
    raw.mkdir()
    for path in upstream.iterdir():
        if path.name != "test-full.tgz":
            (raw / path.name).symlink_to(path)
    absent = RemoteFile(f"{tmp_path.as_uri()}/absent/test-full.tgz")
    monkeypatch.setattr(wmt, "NEWSTEST2014_FULL", absent)
    problem = registry.problem("translate_ende_wmt8k")
    with pytest.raises(UserError, match=f"^cannot download {absent.url} .*put it at {raw}/test-f"):
        generate_data(problem, str(data), str(raw))
    assert list(data.iterdir()) == []


def test_bad_lines_of_archives_may_be_skipped(upstream, few_shards, tmp_path, caplog):
    raw, data = tmp_path / "raw", tmp_path / "data"
    raw.mkdir()
    for path in upstream.iterdir():
        (raw / path.name).symlink_to(path)
    (raw / "dev.tgz").unlink()
    members = {"en": b"1\n\xff\n3\n", "de": b"eins\nzwei\ndrei\n"}
    write_archive(
        raw / "dev.tgz", {f"dev/newstest2013.{x}": contents for x, contents in members.items()}
    )
    problem = registry.problem("translate_ende_wmt_characters")
    with pytest.raises(DataError, match=r"dev\.tgz:dev/newstest2013\.en, line 2: byte 0xff"):
        generate_data(problem, str(data), str(raw))
    generate_data(problem, str(data), str(raw), DatagenOptions(skip_bad=True))
    assert "newstest2013: skipped 1 bad lines" in caplog.text
    assert [target for _, target in decoded_pairs(problem, data, "eval")] == ["eins", "drei"]
