"""Reviews from an archive with upstream's layout."""

import pytest

from support.archives import write_archive
from t2t_lite import registry
from t2t_lite.errors import DataError
from t2t_lite.text.bad_input import BadInput

NAME = "sentiment_imdb"


def write_reviews(folder, members):
    members = {f"aclImdb/{name}": text for name, text in members.items()}
    return str(write_archive(folder / "aclImdb_v1.tar.gz", members).parent)


def test_the_name_keeps_its_meaning():
    problem = registry.problem(NAME)
    shards = {entry["split"]: entry["shards"] for entry in problem.dataset_splits}
    assert shards == {"train": 10, "eval": 1}
    assert problem.vocab_files() == [f"vocab.{NAME}.8192.subwords"]
    assert list(problem.class_labels("")) == ["neg", "pos"]
    assert problem.num_classes == 2
    assert registry.problem(f"{NAME}_characters").vocab_files() == []


def test_reviews_have_the_label_of_their_folder(tmp_path):
    raw = write_reviews(
        tmp_path,
        {
            "README": b"Not a review",
            "imdb.txt": b"Not a review",
            "test/neg/0_2.txt": b"Dull<br /><br />",
            "test/pos/0_9.txt": b" Fine ",
            "train/urls_pos.txt": b"http://",
            "train/unsup/0_0.txt": b"Unknown",
            "train/pos/0_9.txt": b"Great",
            "train/neg/0_1.txt": b"Awful",
            "train/neg/1_1.txt": b" ",
        },
    )
    problem = registry.problem(NAME)
    assert list(problem.generate_samples("", raw, "train")) == [
        {"inputs": "Great", "label": 1},
        {"inputs": "Awful", "label": 0},
    ]
    assert list(problem.text_samples("", raw, "eval")) == [
        {"inputs": "Dull<br /><br />", "targets": "neg"},
        {"inputs": "Fine", "targets": "pos"},
    ]
    (archive,) = problem.source_files(raw, "train")
    assert archive.name == "aclImdb_v1.tar.gz"


def test_a_review_that_cannot_be_read_is_skipped(tmp_path):
    reviews = {"train/neg/0_1.txt": b"Aw\xffful", "train/pos/0_9.txt": b"Great"}
    raw = write_reviews(tmp_path, reviews)
    problem = registry.problem(NAME)
    problem.bad_input = BadInput(skip=True)
    found = list(problem.generate_samples("", raw, "train"))
    assert found == [{"inputs": "Great", "label": 1}]
    assert problem.bad_input.skipped == 1


def test_an_archive_without_reviews_is_an_error(tmp_path):
    raw = write_reviews(tmp_path, {"test/neg/0_2.txt": b"Dull"})
    with pytest.raises(DataError, match="no review in train/neg or train/pos"):
        list(registry.problem(NAME).generate_samples("", raw, "train"))
