"""Classes of T2T's problems of random symbols, and what directories build on them."""

import itertools

import pytest

from t2t_lite import generate_data, registry
from t2t_lite.errors import UserError
from t2t_lite.interop.t2t import random_symbols
from t2t_lite.interop.t2t.adapter import adapted
from t2t_lite.names import snake_case

_CLASSES = [
    getattr(random_symbols, name)
    for name in random_symbols.__all__
    if name.startswith("Algorithmic") and name != "AlgorithmicProblem"
]


@pytest.mark.parametrize("cls", _CLASSES, ids=lambda cls: cls.__name__)
def test_samples_are_those_of_the_registered_problem(cls):
    theirs, ours = cls(), registry.problem(snake_case(cls.__name__))
    for member in ("train_length", "dev_length", "num_symbols", "train_size", "dev_size"):
        assert getattr(theirs, member) == getattr(ours, member), member
    cases = list(theirs.generator(theirs.num_symbols, theirs.train_length, 5))
    assert len(cases) == 5
    for case in cases:
        assert 1 <= len(case["inputs"]) <= theirs.train_length
        assert case["targets"] == ours.solve(case["inputs"])
        assert all(0 <= symbol < theirs.num_symbols for symbol in case["inputs"])


class OctalReverse(random_symbols.AlgorithmicReverseBinary40):
    num_symbols = 8
    train_length = 5
    train_size = 50
    dev_size = 5


class LongerSort(random_symbols.AlgorithmicSortProblem):
    train_length = 30


def test_a_subclass_changes_the_symbols_and_lengths(tmp_path):
    found = adapted(OctalReverse())
    generate_data(found, data_dir=tmp_path, tmp_dir=tmp_path)
    assert found.feature_encoders(str(tmp_path))["inputs"].vocab_size == 10
    cases = list(OctalReverse().generator(8, 5, 200))
    assert {symbol for case in cases for symbol in case["inputs"]} == set(range(8))
    assert max(len(case["inputs"]) for case in cases) == 5
    assert (LongerSort().dev_length, LongerSort().num_symbols) == (60, 60)


def test_cases_differ_from_call_to_call():
    calls = [list(OctalReverse().generator(8, 40, 9)) for _ in range(2)]
    assert calls[0] != calls[1]


class Caesar(random_symbols.AlgorithmicCipherShift5):
    num_symbols = 26
    shift = -3

    @property
    def distribution(self):
        return [1 / 26] * 26


class Keyed(random_symbols.AlgorithmicCipherVigenere200):
    num_symbols = 30
    key = (2, 0, 29)


def test_ciphers_of_the_users():
    (case,) = Caesar().generator(26, 100, 1)
    assert len(case["inputs"]) == Caesar().dev_length == 100
    assert case["targets"] == [(symbol + 3) % 26 for symbol in case["inputs"]]
    keyed = Keyed()
    assert sum(keyed.distribution) == pytest.approx(1)
    (case,) = keyed.generator(30, 60, 1)
    key = itertools.cycle(keyed.key)
    assert case["targets"] == [(symbol - next(key)) % 30 for symbol in case["inputs"]]
    assert max(case["inputs"]) < 30


def test_text_is_enciphered():
    assert random_symbols.encipher_shift(["abc", "cab"], "abc", 1) == [list("cab"), list("bca")]
    assert random_symbols.encipher_vigenere(["aaaa"], "abcd", [1, 3]) == [list("dbdb")]
    assert random_symbols.generate_plaintext_random("xyz", [0, 0, 1], 2, 4) == [[2] * 4] * 2


@pytest.mark.parametrize(
    "name", [name for name in random_symbols.__all__ if name.endswith(("Sequence", "Small"))]
)
@pytest.mark.parametrize("split", ["train", "eval", "test"])
def test_transduction_is_that_of_the_registered_problem(name, split):
    theirs = getattr(random_symbols, name)()
    ours = registry.problem(snake_case(name))
    lengths = theirs.min_sequence_length(split), theirs.max_sequence_length(split)
    assert lengths == (ours.train_lengths if split == "train" else ours.dev_lengths)
    assert theirs.num_samples(split) == (ours.train_size if split == "train" else ours.dev_size)
    assert theirs.vocab == ours.symbols
    for sample in itertools.islice(theirs.generate_samples("", "", split), 20):
        symbols = sample["inputs"].split()
        assert sample["targets"].split() == ours.transduce(symbols)
        assert lengths[0] <= len(symbols) <= lengths[1]
        assert len(symbols) % 2 == 0 or name != "FlipBiGramSequence"


class Doubling(random_symbols.TransductionProblem):
    num_symbols = 12
    dataset_splits = ({"split": "train", "shards": 2}, {"split": "eval", "shards": 1})

    def min_sequence_length(self, dataset_split):
        return 2

    def max_sequence_length(self, dataset_split):
        return 4

    def num_samples(self, dataset_split):
        return 30

    def transpose_sequence(self, input_sequence):
        return input_sequence * 2


def test_transduction_of_the_users(tmp_path):
    found = adapted(Doubling())
    generate_data(found, data_dir=tmp_path, tmp_dir=tmp_path)
    vocabulary = (tmp_path / found.vocab_filename).read_text().split()
    assert vocabulary == ["<pad>", "<EOS>", *sorted(f"sym_{n}" for n in range(1, 13))]
    assert found.feature_encoders(str(tmp_path))["inputs"].vocab_size == 14
    assert len(list(tmp_path.glob("doubling-*-of-*"))) == 3


class Nothing(random_symbols.TransductionProblem):
    pass


def test_transduction_of_nothing_is_an_error():
    with pytest.raises(UserError, match=r"'nothing' .*needs transpose_sequence"):
        next(Nothing().generate_samples("", "", "train"))
