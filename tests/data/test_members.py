"""A problem's members: what a user's class may have by mistake is named with the class."""

import re

import pytest

from t2t_lite.data import members, text_problems
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.problem import DatasetSplit
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


class Lender(Shop):
    """A problem whose vocabulary others use, of another text."""

    base_name = "lender"
    dataset_splits = ({"split": DatasetSplit.TRAIN, "shards": 1},)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return [{"inputs": "xylo xylo", "targets": "zebu zebu"}] * 3


class Lenders(text_problems.TwoVocabularies, Lender):
    """The same with two vocabularies."""

    vocab_languages = ("en", "zh")


@pytest.mark.parametrize("languages", [("en", "zh"), ("zh", "en")])
def test_two_borrowed_vocabularies_are_of_the_text_of_their_problem(tmp_path, languages):
    class Borrower(text_problems.TwoVocabularies, Shop):
        dataset_splits = Lender.dataset_splits
        use_vocab_from_other_problem = Lenders()
        vocab_languages = languages

    _generate(Borrower, tmp_path, vocab_type="subwords")
    texts = [(tmp_path / name).read_text() for name in Lenders().vocab_files()]
    assert ["x" in text for text in texts] == [True, False]
    assert ["z" in text for text in texts] == [False, True]


@pytest.mark.parametrize(
    ("kind", "lender", "replaced", "message"),
    [
        (Shop, Lender, {"vocab_type": "bpe"}, "vocab_type is 'bpe': expected as .*: 'subwords'"),
        (Shop, Lenders, {}, r"vocab_languages is \(\): expected as .*: \('en', 'zh'\)"),
        (Lenders, Lender, {}, r"vocab_languages is \('en', 'zh'\): expected as .*: \(\)"),
        (
            *(Lenders, Lenders, {"vocab_languages": ("en", "de")}),
            r"vocab_languages is \('en', 'de'\): expected as .*: \('en', 'zh'\)",
        ),
    ],
)
def test_a_borrowed_vocabulary_of_another_form_is_refused(
    tmp_path, kind, lender, replaced, message
):
    borrowing = {"vocab_type": "subwords", "use_vocab_from_other_problem": lender(), **replaced}
    with pytest.raises(UsageError, match=message):
        _generate(kind, tmp_path, base_name="usr", **borrowing)
    assert not list(tmp_path.iterdir())


def test_bytes_need_no_borrowed_vocabulary(tmp_path):
    _generate(Lender, tmp_path, base_name="usr", use_vocab_from_other_problem=Lenders())
    assert list(tmp_path.glob("usr-train-*"))
