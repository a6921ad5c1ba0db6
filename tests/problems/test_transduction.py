import itertools

import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.problems import transduction


def flip(words):
    return [word for pair in zip(words[1::2], words[::2], strict=True) for word in pair]


NAMES = {  # T2T's: symbols, lengths of training and of evaluation, training samples, mapping
    "copy_sequence": (128, (8, 64), (65, 128), 1_000_000, list),
    "copy_sequence_small": (64, (4, 16), (17, 32), 100_000, list),
    "reverse_sequence": (128, (8, 64), (65, 128), 1_000_000, lambda words: words[::-1]),
    "reverse_sequence_small": (64, (4, 16), (17, 32), 100_000, lambda words: words[::-1]),
    "flip_bi_gram_sequence": (128, (8, 64), (66, 128), 1_000_000, flip),
}


def test_the_names_are_t2ts():
    assert {name for name in registry.list_problems() if name.endswith("sequence")} == {
        name for name in NAMES if not name.endswith("small")
    }
    assert NAMES.keys() <= set(registry.list_problems())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split", ["train", "eval", "test"])
def test_sequences_are_drawn_and_mapped_as_in_t2t(name, split):
    count, train_lengths, dev_lengths, train_size, solve = NAMES[name]
    problem = registry.problem(name)
    assert (problem.train_size, problem.dev_size) == (train_size, 10_000)
    assert problem.can_split_sources == (solve is list)
    samples = list(itertools.islice(problem.generate_samples("", "", split), 1500))
    inputs = [sample["inputs"].split() for sample in samples]
    assert [sample["targets"].split() for sample in samples] == list(map(solve, inputs))
    least, greatest = train_lengths if split == "train" else dev_lengths
    step = 2 if "flip" in name else 1
    lengths = np.array([len(words) for words in inputs])
    assert set(lengths) == set(range(least, greatest + 1, step))
    possible = np.arange(least, greatest + 1, step)
    error = possible.std() / len(lengths) ** 0.5
    assert lengths.mean() == pytest.approx(possible.mean(), abs=5 * error)
    symbols, counts = np.unique(list(itertools.chain(*inputs)), return_counts=True)
    assert set(symbols) == {f"sym_{number}" for number in range(1, count + 1)}
    assert counts == pytest.approx(counts.mean(), abs=5 * counts.mean() ** 0.5)


def test_each_split_has_its_own_samples():
    problem = registry.problem("copy_sequence")
    first = [next(problem.generate_samples("", "", split)) for split in ("eval", "test")]
    assert first[0] != first[1]
    assert first[0] == next(problem.generate_samples("", "", "eval"))


def test_the_vocabulary_lists_the_symbols_in_t2ts_order(tmp_path):
    class Few(transduction.CopySequenceSmall):
        base_name = "few"
        train_size, dev_size, num_symbols = 100, 20, 11
        dataset_splits = ({"split": "train", "shards": 1}, {"split": "eval", "shards": 1})

    generate_data(Few(), str(tmp_path), "", DatagenOptions(num_workers=1))
    tokens = ["<pad>", "<EOS>", "sym_1", "sym_10", "sym_11", *(f"sym_{i}" for i in range(2, 10))]
    assert (tmp_path / "vocab.few.tokens").read_text("utf-8").split() == tokens
    assert Few().get_feature_encoders(str(tmp_path))["inputs"].encode("sym_10 sym_2") == [3, 5]
