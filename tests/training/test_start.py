"""What a training says of its batches before its first step."""

import pytest

from t2t_lite.data.batching import batch_parts
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.training.start import excess_of_batches


@pytest.mark.parametrize(
    ("batch_size", "effective", "replicas", "remedy"),
    [
        (2048, 256, 1, 256),
        (2048, 256, 4, 64),
        (4096, 25_000, 1, 0),  # 7 parts are 14.7 % more
        (4096, 25_000, 2, 3125),  # 8 are 31 % more
        (100, 115, 1, 58),
        (100, 100, 1, 0),
        (115, 100, 1, 0),
        (116, 100, 1, 100),
        (4096, 0, 8, 0),
    ],
)
def test_a_batch_much_larger_than_the_wanted_one(batch_size, effective, replicas, remedy):
    hparams = BasicHParams(batch_size=batch_size, effective_batch_size=effective)
    parts = batch_parts(hparams, replicas)
    line = excess_of_batches(hparams, parts)
    assert bool(line) == bool(remedy)
    if remedy:
        shown = f"={effective}: an update has up to {parts * batch_size:,} subwords per side"
        assert shown in line
        assert line.endswith(f"batch_size={remedy}")
        hparams.batch_size = remedy
        assert (batch_parts(hparams, replicas), excess_of_batches(hparams, parts)) == (parts, "")
