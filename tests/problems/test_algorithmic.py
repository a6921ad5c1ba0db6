import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.errors import DataError
from t2t_lite.problems import algorithmic

TASKS = {
    "algorithmic_identity_binary40": (2, lambda symbols: symbols),
    "algorithmic_identity_decimal40": (10, lambda symbols: symbols),
    "algorithmic_reverse_binary40": (2, lambda symbols: symbols[::-1]),
    "algorithmic_reverse_decimal40": (10, lambda symbols: symbols[::-1]),
}


class Short(algorithmic.AlgorithmicReverseDecimal40):
    base_name = "short"
    train_length = 5
    dev_length = 9
    train_size = 300
    dev_size = 200


@pytest.mark.integration
@pytest.mark.parametrize("name", TASKS)
def test_tasks_and_sizes_are_those_of_t2t(name):
    num_symbols, solve = TASKS[name]
    problem = registry.problem(name)
    assert (problem.train_length, problem.dev_length) == (40, 400)
    assert (problem.train_size, problem.dev_size) == (100_000, 10_000)
    assert problem.get_feature_encoders("")["inputs"].vocab_size == num_symbols + 2
    assert problem.vocab_files() == []

    samples = list(problem.generate_samples("", "", "eval"))
    assert len(samples) == 10_000
    inputs = [sample["inputs"].split() for sample in samples]
    assert [sample["targets"].split() for sample in samples] == [solve(words) for words in inputs]
    assert {len(words) for words in inputs} == set(range(1, 401))
    assert set().union(*inputs) == set(map(str, range(num_symbols)))


def number(words, base):
    """The value of digits from the lowest; numbers have no leading zeros."""
    assert len(words) == 1 or words[-1] != "0"
    return sum(int(word) * base**place for place, word in enumerate(words))


@pytest.mark.parametrize("name", ["addition", "multiplication"])
@pytest.mark.parametrize(("digits", "base"), [("binary", 2), ("decimal", 10)])
def test_arithmetic_is_right_beyond_the_lengths_of_training(name, digits, base):
    problem = registry.problem(f"algorithmic_{name}_{digits}40")
    assert problem.get_feature_encoders("")["inputs"].vocab_size == base + 1 + 2
    assert not problem.can_split_sources
    longest = {}
    for split, limit in (("train", 40), ("test", 400)):
        samples = problem.generate_samples("", "", split)
        lengths = set()
        for sample in itertools.islice(samples, 500):
            words = sample["inputs"].split()
            lengths.add(len(words))
            border = words.index(str(base))
            one, other = number(words[:border], base), number(words[border + 1 :], base)
            wanted = one + other if name == "addition" else one * other
            assert number(sample["targets"].split(), base) == wanted
            assert 1 <= border <= limit // 2
        longest[split] = max(lengths)
        assert longest[split] <= limit
    assert longest["train"] > 35
    assert longest["test"] > 350


def test_arithmetic_by_hand():
    addition = registry.problem("algorithmic_addition_decimal40")
    assert addition.solve([9, 9, 10, 1]) == [0, 0, 1]  # 99 + 1
    assert addition.solve([0, 10, 0]) == [0]
    multiplication = registry.problem("algorithmic_multiplication_binary40")
    assert multiplication.solve([1, 1, 2, 0, 1]) == [0, 1, 1]  # 3 · 2


def test_shifted_and_sorted_symbols():
    shift = registry.problem("algorithmic_shift_decimal40")
    assert (shift.num_symbols, shift.train_length, shift.dev_length) == (20, 40, 80)
    sort = registry.problem("algorithmic_sort_problem")
    assert (sort.num_symbols, sort.train_length, sort.dev_length) == (20, 10, 20)
    for problem, solve in (
        (shift, lambda words: [str(int(word) + 10) for word in words]),
        (sort, lambda words: sorted(words, key=int)),
    ):
        samples = list(itertools.islice(problem.generate_samples("", "", "test"), 2000))
        inputs = [sample["inputs"].split() for sample in samples]
        assert [sample["targets"].split() for sample in samples] == list(map(solve, inputs))
        assert {len(words) for words in inputs} == set(range(1, problem.dev_length + 1))
    assert {int(word) for words in inputs for word in words} == set(range(20))


@pytest.mark.parametrize(("size", "exponent"), [("8k", 1.3), ("32k", 1.05)])
def test_reversed_symbols_are_distributed_like_words(size, exponent):
    problem = registry.problem(f"algorithmic_reverse_nlplike{size}")
    assert problem.num_symbols == {"8k": 8_000, "32k": 32_000}[size]
    assert not problem.can_split_sources
    samples = list(itertools.islice(problem.generate_samples("", "", "train"), 3000))
    inputs = [sample["inputs"].split() for sample in samples]
    assert all(
        s["targets"].split() == words[::-1] for s, words in zip(samples, inputs, strict=True)
    )
    lengths = np.array([len(words) for words in inputs])
    error = 7.0 / len(lengths) ** 0.5
    assert lengths.mean() == pytest.approx(35.5, abs=5 * error)
    assert lengths.std() == pytest.approx(7.0, abs=5 * error / 2**0.5)
    words = np.array([int(word) for words in inputs for word in words])
    total = sum(rank**-exponent for rank in range(1, problem.num_symbols + 1))
    for rank in (1, 2, 10):
        share = rank**-exponent / total
        error = (share * (1 - share) / len(words)) ** 0.5
        assert (words == rank - 1).mean() == pytest.approx(share, abs=5 * error)


def test_a_subclass_can_shorten_its_samples(tmp_path):
    generate_data(Short(), str(tmp_path), "")
    assert len(list(tmp_path.glob("short-*"))) == 12

    def lengths(split):
        paths = Short().existing_filepaths(str(tmp_path), split)
        return [len(example["inputs"]) - 1 for example in records.read_examples(paths)]

    assert len(lengths("train")) == 300
    assert set(lengths("train")) == set(range(1, 6))
    assert len(lengths("eval")) == len(lengths("test")) == 200
    assert set(lengths("eval")) == set(lengths("test")) == set(range(1, 10))


def test_generating_twice_gives_the_same_bytes_and_each_split_its_own_samples(tmp_path):
    found = []
    for name in "ab":
        generate_data(Short(), str(tmp_path / name), "")
        files = sorted((tmp_path / name).iterdir())
        found.append([path.read_bytes() for path in files])
        assert len(set(found[-1])) == len(files)
    assert found[0] == found[1]


def test_ids_follow_padding_and_eos(tmp_path):
    generate_data(Short(), str(tmp_path), "")
    (sample, *_) = Short().generate_samples("", "", "eval")
    (example, *_) = records.read_examples([tmp_path / "short-dev-00000-of-00001"])
    assert example["inputs"] == [*(int(word) + 2 for word in sample["inputs"].split()), 1]
    assert example["targets"] == [*example["inputs"][-2::-1], 1]


def test_encodes_numbers_as_t2t():
    encoder = algorithmic.NumberTextEncoder(10)
    assert encoder.encode("3 1 4") == [5, 3, 6]
    assert encoder.decode([5, 3, 6]) == "3 1 4"


@given(st.lists(st.integers(0, 19)))
def test_encoding_is_undone_by_decoding(symbols):
    encoder = algorithmic.NumberTextEncoder(20)
    text = " ".join(map(str, symbols))
    assert encoder.decode(encoder.encode(text)) == text


@pytest.mark.parametrize("text", ["3 x", "10", "-1", "1.0", "٣"])
def test_anything_but_a_symbol_is_an_error_that_names_it(text):
    with pytest.raises(DataError, match=f"'{text.split()[-1]}' in '{text}' is not a symbol"):
        algorithmic.NumberTextEncoder(10).encode(text)
