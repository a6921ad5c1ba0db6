"""A problem's members: what a user's class may have by mistake is named with the class."""

import re

import pytest

from t2t_lite.data import members, text_problems
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.errors import DataError, UsageError


class Shop(text_problems.Text2TextProblem):
    """A problem whose members a test replaces."""

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return [{"inputs": "a b", "targets": "b a"}] * 3


class Stars(text_problems.Text2ClassProblem):
    """A problem of classification whose members a test replaces."""

    num_classes = 2

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return [{"inputs": "a b", "label": 1}] * 3


def _generate(kind, tmp_path, **replaced) -> None:
    problem = type("Usr", (kind,), {"vocab_type": "character", **replaced})()
    generator.generate_data(problem, str(tmp_path), str(tmp_path), DatagenOptions(num_workers=1))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("vocab_type", None),
        ("vocab_type", True),
        ("approx_vocab_size", "8k"),
        ("approx_vocab_size", 8e3),
        ("approx_vocab_size", -5),
        ("additional_reserved_tokens", "<a>"),
        ("additional_reserved_tokens", ["<a>", 3]),
        ("additional_reserved_tokens", None),
        ("max_subtoken_length", 2.5),
        ("max_samples_for_vocab", "all"),
        ("oov_token", 7),
        ("inputs_prefix", None),
        ("targets_prefix", b"x "),
        ("vocab_filename", ""),
        ("vocab_filename", "a\0b"),
        ("use_vocab_from_other_problem", "translate_ende_wmt32k"),
        ("dataset_splits", None),
        ("dataset_splits", {"train": 10}),
        ("dataset_splits", ["train"]),
        ("dataset_splits", [{"shards": 1}]),
        ("dataset_splits", [{"split": ["train"], "shards": 1}]),
        ("dataset_splits", [{"split": "train", "shards": 0}]),
        ("dataset_splits", [{"split": "train", "shards": "ten"}]),
    ],
)
def test_a_member_of_another_kind_is_named_with_its_class(tmp_path, member, value):
    message = rf"^problem 'usr' \(.*\.Usr\): {member} is {re.escape(repr(value))}.*: expected "
    with pytest.raises(UsageError, match=message):
        _generate(Shop, tmp_path, **{member: value})
    assert not list(tmp_path.glob("usr-*"))


@pytest.mark.parametrize("labels", [None, 2, "ab", [0, 1], {1: 2}])
def test_labels_that_are_no_texts_are_named(tmp_path, labels):
    message = r"^problem 'usr' .*: class_labels is .*: expected a list of texts$"
    with pytest.raises(UsageError, match=message):
        _generate(Stars, tmp_path, class_labels=lambda *_: labels)


def test_an_invalid_number_of_labels_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"num_classes is 2\.5: expected a whole number"):
        _generate(Stars, tmp_path, num_classes=2.5)


def test_ids_that_are_no_dictionary_are_quoted(tmp_path):
    with pytest.raises(DataError, match=r"sample 1 of generate_encoded_samples: .*, got 'ab'"):
        _generate(Shop, tmp_path, generate_encoded_samples=lambda *_: ["ab", {}])


def test_members_that_cannot_be_asked_are_left_to_who_needs_them():
    def missing(self):
        raise NotImplementedError

    members.check(type("Usr", (Shop,), {"oov_token": property(missing)})())
