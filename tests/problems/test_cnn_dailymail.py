"""Summaries from archives with upstream's layout."""

import hashlib
import json
import pathlib

import pytest

from support import small_runs
from support.archives import write_archive
from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.problem import Problem
from t2t_lite.problems.cnn_dailymail import article_and_highlights
from t2t_lite.training import trainer

NAME = "summarize_cnn_dailymail32k"


def story(text: str) -> str:
    return f"{text} was seen\n\nIt left.\n\n@highlight\n\n{text} seen\n\n@highlight\n\nIt left\n"


@pytest.fixture
def raw(tmp_path) -> pathlib.Path:
    """The two archives and the three lists; one story is in no list, one has no highlight."""
    folder = tmp_path / "raw"
    folder.mkdir()
    titles = {"cnn": ["A cat", "A dog", "A cow"], "dailymail": ["A fox", "An owl", "Nothing"]}
    urls = {}
    for paper, texts in titles.items():
        members = {}
        for text in texts:
            urls[text] = f"http://{paper}/{text.replace(' ', '-')}"
            name = hashlib.sha1(urls[text].encode()).hexdigest()
            contents = story(text) if text != "Nothing" else "No highlight\n"
            members[f"{paper}/stories/{name}.story"] = contents
        write_archive(folder / f"{paper}_stories.tgz", members)
    lists = {"train": ["A fox", "A cat", "Nothing"], "val": ["A dog"], "test": ["An owl"]}
    for split, texts in lists.items():
        lines = [urls[text] for text in texts] + [f"http://gone/{split}"]
        (folder / f"all_{split}.txt").write_text("\n".join(lines), "utf-8")
    return folder


def expected(text: str) -> dict[str, str]:
    return {"inputs": f"{text} was seen. It left.", "targets": f"{text} seen. It left."}


def test_the_name_keeps_its_meaning():
    problem = registry.problem(NAME)
    shards = {entry["split"]: entry["shards"] for entry in problem.dataset_splits}
    assert shards == {"train": 100, "eval": 10, "test": 10}
    assert problem.vocab_files() == [f"vocab.{NAME}.32768.subwords"]
    assert problem.metrics == ("rouge_1", "rouge_2", "rouge_l")
    assert not problem.can_split_sources


def test_stories_are_dealt_to_the_splits_by_their_addresses(raw):
    problem = registry.problem(NAME)
    splits = {"train": ["A cat", "A fox"], "eval": ["A dog"], "test": ["An owl"]}
    for split, texts in splits.items():
        found = list(problem.generate_samples("", str(raw), split))
        assert found == [expected(text) for text in texts]
    assert [path.name for path in problem.source_files(str(raw), "eval")] == [
        "cnn_stories.tgz",
        "dailymail_stories.tgz",
        "all_val.txt",
    ]


@pytest.fixture
def problem(monkeypatch) -> Problem:
    """The problem with one file per split: each file costs time, whatever its size."""
    found = registry.problem(NAME)
    splits = [{"split": split, "shards": 1} for split in ("train", "eval", "test")]
    monkeypatch.setattr(type(found), "dataset_splits", splits)
    return found


def test_the_vocabulary_is_of_articles_and_highlights(problem, raw, tmp_path):
    assert list(problem.generate_text_for_vocab("", str(raw))) == [
        f"{text} was seen. It left. {text} seen. It left." for text in ("A cat", "A fox")
    ]
    generate_data(problem, str(tmp_path / "data"), str(raw), DatagenOptions(num_workers=1))
    encoder = problem.load_vocab(str(tmp_path / "data"))
    (example,) = records.read_examples(problem.filepaths(str(tmp_path / "data"), "test"))
    assert encoder.decode(example["targets"][:-1]) == expected("An owl")["targets"]


@pytest.mark.integration
def test_training_is_evaluated_by_rouge(problem, raw, eagerly, tmp_path):
    pytest.importorskip("rouge_score")
    data, run = tmp_path / "data", tmp_path / "run"
    generate_data(problem, str(data), str(raw), DatagenOptions(num_workers=1))
    trainer.run(small_runs.make_config(data, run, problem=NAME, train_steps=2))
    lines = map(json.loads, (run / "metrics.jsonl").read_text("utf-8").splitlines())
    (evaluation,) = (line for line in lines if line["kind"] == "eval")
    for metric in ("rouge_1", "rouge_2", "rouge_l"):
        assert 0 <= evaluation[metric] <= 100
        assert "stem:porter" in evaluation[f"{metric}_signature"]


@pytest.mark.parametrize(
    ("lines", "pair"),
    [
        (["a", "b?", "", "@highlight", "", "c"], ("a. b?", "c.")),
        (["(CNN) a \u201dx\u201d", "@highlight x", "c)"], ("(CNN) a \u201dx\u201d", "c)")),
        (["a @highlight in the text", "@highlight"], ("a @highlight in the text", "")),
        (["@highlight", "c"], ("", "c.")),
    ],
)
def test_lines_become_sentences(lines, pair):
    assert article_and_highlights(lines) == pair
