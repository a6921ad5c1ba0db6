"""Data of regression: numbers become floats in examples, as in T2T."""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.data import example_reader, problem, text_problems
from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.data_statistics import count_examples
from t2t_lite.data.generation import generator, report
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.records import read_examples
from t2t_lite.errors import DataError, UsageError
from t2t_lite.text.text_encoder import VocabType

OPTIONS = DatagenOptions(num_workers=1)


class Warmth(text_problems.Text2RealProblem):
    """Repeats a few samples."""

    base_name = "warmth"
    samples = (("red", [0.1, 3]), ("blue", np.array([-2.5, 1e-8])), ("red", [0.1, 3]))
    ntasks = 2
    vocab_type = VocabType.CHARACTER

    @property
    def dataset_splits(self):
        return [{"split": problem.DatasetSplit.TRAIN, "shards": 1}]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return ({"inputs": text, "targets": numbers} for text, numbers in self.samples)


class Pairs(Warmth, text_problems.TextConcat2RealProblem):
    """Pairs of texts, with one number that is not in a list."""

    ntasks = 1
    samples = ((["red", "blue"], 1.5), (["red\tdark", "red"], np.float32(0)))


def generated(found, data, options=OPTIONS):
    generator.generate_data(found, str(data), "", options)
    return found.existing_filepaths(str(data), "train")


def test_examples_are_t2ts(data):
    paths = generated(Warmth(), data)
    for record in tf.data.TFRecordDataset(paths):
        feature = tf.train.Example.FromString(record.numpy()).features.feature
        text = bytes(i - 2 for i in feature["inputs"].int64_list.value[:-1]).decode()
        wanted = [0.1, 3] if text == "red" else [-2.5, 1e-8]
        np.testing.assert_array_equal(feature["targets"].float_list.value, np.float32(wanted))
        assert not feature["targets"].int64_list.value
    found = sorted(one["targets"] for one in read_examples(paths, ("targets",)))
    np.testing.assert_array_equal(found, np.float32([[-2.5, 1e-8], [0.1, 3], [0.1, 3]]))
    with pytest.raises(DataError, match=r"record 1: targets are floats, not ids \(int64\)"):
        list(read_examples(paths))


def test_they_are_read_as_ids_and_eos(data):
    paths = generated(Warmth(), data)
    reader = example_reader.ExampleReader.of_whole(Warmth())
    pairs = example_reader.eval_examples(paths, reader)
    encoder = Warmth().get_feature_encoders(str(data))["targets"]
    assert {encoder.decode(ids) for _, ids in pairs} == {"0.1 3", "-2.5 1e-08"}
    assert all(ids[-1] == 1 and len(ids) == 3 for _, ids in pairs)


def test_records_of_unlike_counts_are_named(data):
    (path,) = generated(Warmth(), data)

    def record(*numbers):
        floats = tf.train.Feature(float_list=tf.train.FloatList(value=numbers))
        ids = tf.train.Feature(int64_list=tf.train.Int64List(value=[5, 1]))
        features = tf.train.Features(feature={"inputs": ids, "targets": floats})
        return tf.train.Example(features=features).SerializeToString()

    with tf.io.TFRecordWriter(path) as file:
        for one in (record(1, 2), record(3, 4), record(5)):
            file.write(one)
    reader = example_reader.ExampleReader.of_whole(Warmth())
    scheme = BatchingScheme.from_hparams(registry.hparams("transformer_test"), training=True)
    with pytest.raises(DataError, match="record 3: 1 number, but record 1 has 2"):
        count_examples([path], scheme, reader)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("prepend_mode=prepend_inputs_masked_attention", "'warmth' has no text to prepend inputs"),
        ("term_augmentation=0.5", "term_augmentation: the targets of problem 'warmth' are not te"),
        ("guided_alignment_weight=1", "guided_alignment_weight: the targets of problem 'warmth'"),
    ],
)
def test_what_needs_texts_as_targets_is_named(change, message):
    hparams = registry.hparams("transformer_test").override(change)
    with pytest.raises(UsageError, match=message):
        example_reader.ExampleReader.of(Warmth(), hparams)


def test_several_texts_have_one_number(data):
    (path,) = generated(Pairs(), data)
    texts = {
        bytes(i - 2 for i in one["inputs"][:-1]).decode(): one["targets"]
        for one in read_examples([path], ("targets",))
    }
    assert texts == {"red$blue": [1.5], "red dark$red": [0.0]}


def test_cleaning_and_reports_see_the_numbers(data):
    cleaned = DatagenOptions(num_workers=1, clean="duplicates")
    assert len([*read_examples(generated(Warmth(), data, cleaned), ("targets",))]) == 2
    table = "".join(report.report(Warmth(), str(data), "", OPTIONS, None))
    assert "words of targets    2.0" in table
    with pytest.raises(UsageError, match=r"--clean: max_ratio .* 'warmth'"):
        generated(Warmth(), data / "other", DatagenOptions(num_workers=1, clean="max_ratio=3"))


_COUNT = r"warmth: sample 2 of generate_samples: targets .*: expected 2 numbers"


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        *((x, _COUNT) for x in ([1], [1, 2, 3], 1.0, None, "1 2", ["red", 1], [], {})),
        *((x, _COUNT) for x in (b"12", {1: 2, 3: 4}, {1, 2}, [10**400, 1])),
        ([math.nan, 1], "sample 2: targets: expected numbers, got 'nan'"),
        ([1, math.inf], "sample 2: targets: expected numbers, got 'inf'"),
        ([1e39, 1], r"sample 2: targets: expected numbers, got '1e\+39'"),
    ],
)
def test_samples_have_as_many_finite_numbers(data, targets, message):
    samples = [{"inputs": "red", "targets": [1, 2]}, {"inputs": "blue", "targets": targets}]
    wrong = type("Wrong", (Warmth,), {"generate_samples": lambda *_: samples})
    with pytest.raises(DataError, match=message):
        generated(wrong(), data)


def test_numbers_are_on_one_side_alone():
    assert Warmth().has_numbers
    assert not Warmth().can_split_sources
    assert Warmth().metrics == ("rmse", "pearson", "spearman")
    with pytest.raises(UsageError, match=r"'warmth' has numbers as targets, .* no _rev or _copy"):
        Warmth(was_reversed=True)
