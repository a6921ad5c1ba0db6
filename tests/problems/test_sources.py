"""The source files of the package's own problems."""

import pytest

from t2t_lite import registry
from t2t_lite.data.corpora import corpora
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.problems import multi30k

_PARSING = {"sample/wsj_0001.mrg": "train", "sample/wsj_0139.mrg": "train"}
_PARSING |= {"sample/wsj_0141.mrg": "eval", "wsj_0159.mrg": "test", "wsj_0250.mrg": None}
_SAMPLE = "treebank-combined-wsj_0001-0159.tgz"
_CRAFT_TRAIN, _CRAFT_DEV = "craft-treebank-penn-train.tgz", "craft/craft-treebank-penn-dev.tgz"


@pytest.mark.parametrize(
    ("name", "files"),
    [
        (
            "translate_enfr_multi30k",
            {"multi30k/train.en.gz": "train", "train.fr": "train", "val.fr.gz": "eval"},
        ),
        ("translate_enfr_multi30k", {"train.de": None, "multi30k/test_2016_flickr.fr": "test"}),
        (
            "translate_ende_wmt14_bpe37k",
            {
                "training-parallel-europarl-v7.tgz": "train",
                "training-parallel-commoncrawl.tgz": "train",
                "training-parallel-un.tgz": None,
                "dev.tgz": "eval",
                "test-full.tgz": "test",
            },
        ),
        ("wsj_parsing", {"wsjTrain.trees": "train", "wsjEval.trees.gz": "eval"}),
        (
            "parsing_tmpdir_16k",
            {"train.trees.gz": "train", "eval.trees": "eval", "test.trees": "test"},
        ),
        ("parsing_treebank_sample", _PARSING),
        ("parsing_treebank_sample", dict.fromkeys(_PARSING) | {_SAMPLE: "train"}),
        ("parsing_craft", {_CRAFT_TRAIN: "train", _CRAFT_DEV: "eval"}),
        ("parsing_treebank_sample_craft", _PARSING | {_CRAFT_TRAIN: "train", _CRAFT_DEV: None}),
        ("translate_ende_locale", {}),
        ("algorithmic_reverse_decimal40", {}),
    ],
)
def test_each_problem_names_the_files_that_a_split_is_read_from(tmp_path, name, files):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    problem = registry.problem(name)
    splits = [entry["split"] for entry in problem.dataset_splits]
    for split in splits[:1] if _SAMPLE in files else splits:
        found = problem.source_files(str(tmp_path), split)
        assert sorted(found) == sorted(tmp_path / file for file in files if files[file] == split)


@pytest.mark.parametrize("name", ["translate_enfr_multi30k", "translate_ende_wmt14_bpe37k"])
def test_fetching_gives_all_sources(tmp_path, name, monkeypatch):
    def download(url, path, file_hash=None, size=None):
        path.parent.mkdir(exist_ok=True)
        path.touch()

    for module in (corpora, multi30k):
        monkeypatch.setattr(module, "download", download)
    problem = registry.problem(name)
    fetched = problem.fetch_sources(str(tmp_path), DatasetSplit.TRAIN)
    assert len(fetched) >= 2
    assert problem.source_files(str(tmp_path), DatasetSplit.TRAIN) == fetched


def test_symbols_of_parsing_are_made_from_every_split(tmp_path):
    for file in ("wsj_0001.mrg", "wsj_0140.mrg", "wsj_0150.mrg"):
        (tmp_path / file).touch()
    problem = registry.problem("parsing_treebank_sample")
    assert len(problem.vocab_source_files(str(tmp_path))) == 3
