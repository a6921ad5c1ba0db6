"""LibreOffice's help as problems: splits by page, with and without tags."""

import collections
import gzip

import pytest

from support.packages import write_help
from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.data.corpora import libreoffice_help
from t2t_lite.data.corpora.libreoffice_help import plain
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.errors import UserError
from t2t_lite.problems import libreoffice

LANGUAGES = ("de", "fr", "es", "it", "cs", "ja", "zh")
# The first 8 digits of `printf %s text/page199.html | sha256sum` are 7 modulo 100; then 8, 11, ...
PAGES = {199: "unseen", 170: "test", 213: "test", 48: "eval", 144: "eval", 102: "train"}


def help_of(count: int, word: str) -> dict[str, str]:
    return {f"text/page{i}.html": f'<p id="a">{word} <i>{i}</i> &amp;c.</p>' for i in range(count)}


@pytest.fixture
def packages(tmp_path):
    """200 pages of one sentence each, in English and German."""
    folder = tmp_path / "raw"
    folder.mkdir()
    write_help(folder, "en", help_of(200, "Page"))
    write_help(folder, "de", help_of(200, "Seite"))
    return folder


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("suffix", ["", "_plain"])
def test_the_names_keep_their_meaning(language, suffix):
    name = f"translate_en{language}_libreoffice{suffix}"
    problem = registry.problem(name)
    shards = {entry["split"]: entry["shards"] for entry in problem.dataset_splits}
    assert shards == {"train": 10, "eval": 1, "test": 1, "unseen": 1}
    assert problem.vocab_files() == [f"vocab.{name}.16000.bpe.model"]
    assert problem.metrics == ({"zh": "bleu_zh", "ja": "chrf"}.get(language, "bleu"),)
    assert registry.problem(f"{name}_rev").metrics == ("bleu",)


@pytest.mark.parametrize(("number", "split"), PAGES.items())
def test_the_path_decides_the_split(number, split):
    assert libreoffice.split_of(f"text/page{number}.html") == split


def test_splits_have_the_shares_of_the_rule():
    count = collections.Counter(libreoffice.split_of(f"text/{i}.html") for i in range(10_000))
    shares = {"unseen": 0.08, "test": 0.04, "eval": 0.03, "train": 0.85}
    for split, share in shares.items():  # five standard deviations
        assert abs(count[split] - 10_000 * share) < 5 * (10_000 * share * (1 - share)) ** 0.5


def test_each_page_is_in_one_split(packages):
    problem = registry.problem("translate_ende_libreoffice")
    found = {
        split: list(problem.generate_samples("", str(packages), split))
        for split in ("train", "eval", "test", "unseen")
    }
    assert all(found.values())
    assert sum(map(len, found.values())) == 200
    sample = found["unseen"][0]
    number = sample["inputs"].split("<i>")[1].split("<")[0]
    rest = f"<i>{number}</i> &amp;c."
    assert sample == {"inputs": f"Page {rest}", "targets": f"Seite {rest}"}
    assert libreoffice.split_of(f"text/page{number}.html") == "unseen"


def test_the_plain_form_has_neither_tags_nor_entities(packages):
    problem = registry.problem("translate_ende_libreoffice_plain")
    (*_, sample) = problem.generate_samples("", str(packages), "eval")
    number = sample["inputs"].split()[1]
    assert sample == {"inputs": f"Page {number} &c.", "targets": f"Seite {number} &c."}


def test_datagen_writes_the_unseen_split_and_trains_the_vocabulary_without_it(
    packages, tmp_path, monkeypatch
):
    problem = registry.problem("translate_ende_libreoffice")
    monkeypatch.setattr(type(problem), "approx_vocab_size", 300)
    data = str(tmp_path / "data")
    generate_data(problem, data, str(packages), DatagenOptions(num_workers=1))
    (path,) = problem.existing_filepaths(data, "unseen")
    assert path.endswith("/translate_ende_libreoffice-unseen-00000-of-00001")
    samples = list(problem.generate_samples("", str(packages), "unseen"))
    encoder = problem.feature_encoders(data)["targets"]
    written = [encoder.decode(example["targets"][:-1]) for example in records.read_examples([path])]
    assert written == [sample["targets"] for sample in samples]
    text = set(problem.generate_text_for_vocab(data, str(packages)))
    assert text.isdisjoint(sample["inputs"] for sample in samples)


def test_missing_packages_are_named_before_anything_is_written(tmp_path):
    problem = registry.problem("translate_enzh_libreoffice")
    with pytest.raises(
        UserError, match="apt-get download libreoffice-help-en-us libreoffice-help-"
    ):
        generate_data(problem, str(tmp_path / "data"), str(tmp_path))
    assert problem.source_files(str(tmp_path), "train") == []


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_pairs_are_those_of_the_table(shared_data, language):
    """The table leaves out rows that repeat in all eight languages, the problem all repetitions."""
    folder = shared_data / "libreoffice"
    if len(libreoffice_help.existing_packages(str(folder), (language,))) < 2:
        pytest.skip(f"{folder} has no packages")
    rows = set()
    for split, name in (("train", "train"), ("eval", "dev"), ("test", "test")):
        with gzip.open(folder / f"{name}.tsv.gz", "rt", encoding="utf-8", newline="\n") as lines:
            column = next(lines).rstrip("\n").split("\t").index(language)
            cells = (line.rstrip("\n").split("\t") for line in lines)
            rows |= {(split, row[2], row[column]) for row in cells if row[column]}
    found = list(libreoffice_help.help_pairs(str(folder), ("en", language)))
    pairs = {(pair.source, pair.target) for pair in found}
    assert len(pairs) == len(found)
    splits = {(libreoffice.split_of(pair.page), pair.source, pair.target) for pair in found}
    assert {row for row in splits if row[0] != "unseen"} <= rows
    missing = {row[1:] for row in rows} - pairs
    assert all(not plain(target) for _, target in missing)  # a link without text
