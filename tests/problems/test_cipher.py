import itertools

import numpy as np
import pytest

from t2t_lite import registry

NAMES = {  # T2T's: key, number of symbols, length
    "algorithmic_cipher_shift5": ([1], 5, 100),
    "algorithmic_cipher_shift200": ([1], 200, 100),
    "algorithmic_cipher_vigenere5": ([1, 3], 5, 200),
    "algorithmic_cipher_vigenere200": ([1, 3], 200, 200),
}


def test_the_names_are_t2ts():
    names = registry.list_problems()
    assert {name for name in names if "cipher" in name} == NAMES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_symbols_are_drawn_by_t2ts_frequencies_and_moved_by_its_key(name):
    key, num_symbols, length = NAMES[name]
    problem = registry.problem(name)
    assert (problem.train_length, problem.dev_length) == (length, length)
    assert (problem.train_size, problem.dev_size) == (100_000, 10_000)
    assert problem.get_feature_encoders("")["inputs"].vocab_size == num_symbols + 2
    assert problem.can_split_sources == (len(key) == 1)
    samples = itertools.islice(problem.generate_samples("", "", "train"), 500)
    pairs = [[list(map(int, text.split())) for text in sample.values()] for sample in samples]
    inputs, targets = (np.array(side) for side in zip(*pairs, strict=True))
    assert inputs.shape == (500, length)
    moved = np.resize(key, length)
    assert (targets == (inputs - moved) % num_symbols).all()
    weights = np.array([0.4, 0.3, 0.2, 0.08, 0.02] if num_symbols == 5 else range(200))
    shares = weights / weights.sum()
    found = np.bincount(inputs.ravel(), minlength=num_symbols) / inputs.size
    assert (np.abs(found - shares) <= 5 * np.sqrt(shares * (1 - shares) / inputs.size)).all()
    assert (found > 0).sum() == np.count_nonzero(weights)


def test_by_hand():
    # T2T rotates the alphabet to the right: 0 becomes the last symbol.
    assert registry.problem("algorithmic_cipher_shift5").solve([0, 1, 4]) == [4, 0, 3]
    assert registry.problem("algorithmic_cipher_vigenere5").solve([0, 0, 4, 4]) == [4, 2, 3, 1]
