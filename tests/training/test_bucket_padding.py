import logging

import pytest
import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.training.bucket_padding import BucketShapes


def test_every_length_of_a_bucket_has_one_shape(caplog):
    hparams = BasicHParams(batch_size=256, max_length=40, length_bucket_step=1.5, xla_compile=True)
    buckets = len(BatchingScheme.from_hparams(hparams, training=True).batch_sizes)
    shapes = BucketShapes(hparams)
    seen = set()
    with caplog.at_level(logging.INFO):
        for longest in range(1, 41):
            for other in (1, longest):
                ids = tf.ones((2, 3, longest), tf.int32)
                padded = shapes.pad({"inputs": ids, "targets": ids[..., :other]})
                assert padded["inputs"].shape == padded["targets"].shape
                assert int(tf.reduce_sum(padded["targets"])) == 6 * other
                assert padded["inputs"].shape[-1] >= longest
                seen.add(tuple(padded["inputs"].shape))
    assert len(seen) == len(caplog.records) == buckets > 3
    assert f"2 × 3 × 40 subwords ({buckets} of at most {buckets})" in caplog.text


@pytest.mark.parametrize("length", [12, 80])
def test_a_batch_beyond_all_buckets_stays_as_it_is(length):
    shapes = BucketShapes(BasicHParams(batch_size=64, max_length=10))
    ids = tf.ones((1, 1, length), tf.int32)
    assert shapes.pad({"inputs": ids, "targets": ids})["inputs"].shape == (1, 1, length)


@pytest.mark.integration
def test_lengths_are_multiples_up_to_the_longest_of_the_bucket():
    hparams = BasicHParams(batch_size=256, max_length=40, length_bucket_step=1.5, length_multiple=4)
    limits = BatchingScheme.from_hparams(hparams, training=True).longest
    assert 11 in limits, "a bucket that ends between two multiples"
    shapes = BucketShapes(hparams)
    for source in range(1, 41):
        for target in range(1, 41):
            sides = {"inputs": source, "targets": target}
            features = {name: tf.ones((2, 3, length), tf.int32) for name, length in sides.items()}
            padded = shapes.pad(features)
            limit = min(limit for limit in limits if limit >= max(source, target))
            for name, length in sides.items():
                assert padded[name].shape == (2, 3, min(-(-length // 4) * 4, limit))
                assert int(tf.reduce_sum(padded[name])) == 6 * length
