"""T2T's class of regression: its records, encoders, metrics and iterator."""

from typing import ClassVar

import numpy as np
import pytest

from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.records import read_examples
from t2t_lite.errors import DataError, UserError
from t2t_lite.interop.t2t import metrics, text_encoder, text_problems
from t2t_lite.interop.t2t.adapter import adapted
from t2t_lite.interop.t2t.modalities import ModalityType


class Shares(text_problems.Text2RealProblem):
    """The share of digits."""

    name = "shares"
    vocab_type = "character"
    dataset_splits: ClassVar = [{"split": "train", "shards": 1}]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        yield {"inputs": "a1", "targets": [0.5]}
        yield {"inputs": "abc1", "targets": [np.float32(0.25)]}


class Encodes(Shares):
    """By T2T's own method."""

    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        for sample in super().generate_encoded_samples(data_dir, tmp_dir, dataset_split):
            yield {**sample, "targets": [2 * number for number in sample["targets"]]}


def generate(problem, folder):
    generator.generate_data(problem, str(folder), str(folder), DatagenOptions(num_workers=1))
    paths = problem.existing_filepaths(str(folder), "train")
    return sorted(one["targets"] for one in read_examples(paths, ("targets",)))


def test_numbers_are_floats_in_examples(tmp_path):
    problem = adapted(Shares())
    assert generate(problem, tmp_path) == [[0.25], [0.5]]
    assert problem.get_feature_encoders(str(tmp_path))["targets"].vocab_size == 3
    assert problem.metrics == ["rmse", "pearson"]
    assert problem.has_numbers


def test_texts_before_sources_and_targets_are_not_for_numbers(tmp_path):
    prefixes = {"inputs_prefix": "x", "targets_prefix": "1"}
    problem = adapted(type("Shares", (Shares,), prefixes)())
    assert generate(problem, tmp_path) == [[0.25], [0.5]]
    sources = read_examples(problem.existing_filepaths(str(tmp_path), "train"), ("targets",))
    assert [99, 51, 1] in [example["inputs"] for example in sources]


def test_samples_may_be_encoded_by_the_class(tmp_path):
    assert generate(adapted(Encodes()), tmp_path) == [[0.5], [1.0]]


@pytest.mark.parametrize("targets", [["x"], None, 1, [None]])
def test_encoded_samples_have_numbers(tmp_path, targets):
    wrong = {"inputs": [5, 1], "targets": targets}
    kind = type("Wrong", (Shares,), {"generate_encoded_samples": lambda *_: [wrong]})
    with pytest.raises(DataError, match=r"lists of integers `inputs` and numbers `targets`"):
        generate(adapted(kind()), tmp_path)


def test_metrics_are_those_of_numbers():
    names = [metrics.Metrics.ACC, metrics.Metrics.UNPADDED_MSE, metrics.Metrics.APPROX_BLEU]
    kind = type("Own", (Shares,), {"eval_metrics": lambda self: names, "ntasks": 2})
    assert adapted(kind()).metrics == ["mse"]
    assert adapted(type("Two", (Shares,), {"ntasks": 2})()).metrics == ["rmse"]


def test_another_loss_is_refused(tmp_path):
    def hparams(self, defaults, model_hparams):
        text_problems.Text2RealProblem.hparams(self, defaults, model_hparams)
        defaults.modality["targets"] = ModalityType.REAL_LOG_POISSON_LOSS

    problem = adapted(type("Poisson", (Shares,), {"hparams": hparams})())
    with pytest.raises(UserError, match=r"targets are 'real_log_poisson'; the loss of numbers is"):
        problem.feature_encoders(str(tmp_path))


def test_the_iterator_reads_numbers_and_names_bad_lines(tmp_path):
    (tmp_path / "in").write_text("one\ntwo\n")
    (tmp_path / "out").write_text("1 2.5\n-3\t4\n")
    files = str(tmp_path / "in"), str(tmp_path / "out")
    found = [*text_problems.text2real_txt_iterator(*files)]
    assert found == [
        {"inputs": "one", "targets": [1.0, 2.5]},
        {"inputs": "two", "targets": [-3.0, 4.0]},
    ]
    (tmp_path / "out").write_text("1\ntwo\n")
    with pytest.raises(DataError, match="out, line 2: expected numbers, got 'two'"):
        [*text_problems.text2real_txt_iterator(*files)]


def test_the_encoder_is_t2ts():
    encoder = text_encoder.RealEncoder()
    assert encoder.encode("1.5 -2") == [1.5, -2.0]
    assert encoder.decode([1.5, -2.0]) == "1.5 -2.0"
