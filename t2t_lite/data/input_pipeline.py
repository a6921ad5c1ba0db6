"""Input pipeline: TFRecord files to batches of ids `[W, B, L]`, by tf.data.

    files -> records -> shuffle -> drop and bucket by length -> shuffle batches -> parse and pad

Records stay serialized (2-3 bytes a subword) until their batch goes out, so that the shuffle
buffers, which an iterator's checkpoint holds, stay small. What comes out is a function of the
files and the seed (and of `tf.random.set_seed`, where that is called), and an iterator restored
from a `tf.train.Checkpoint` goes on with the very batch that would have come next.

Notation: W workers = replicas × accumulation steps, B sentences each, L = S or T positions.
"""

from collections.abc import Sequence

import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.example_reader import ExampleReader

# Files read at a time, as in T2T, and how many records each gives in its turn.
_INTERLEAVED_FILES = 8
_INTERLEAVED_RECORDS = 16
# Records held to be shuffled within an epoch: about 1 MB of serialized sentence pairs.
_SHUFFLED_RECORDS = 10_000
# Records parsed in one call to learn their lengths.
_MEASURED_RECORDS = 256


def train_dataset(
    paths: Sequence[str],
    scheme: BatchingScheme,
    reader: ExampleReader,
    *,
    workers: int,
    seed: int,
    batch_shuffle_size: int,
) -> tf.data.Dataset:
    """Endless shuffled batches for training.

    Every epoch goes through all examples once, in an order given by (seed, epoch). Buckets fill
    across epochs, so that no example is lost however few there are. If `scheme` drops all
    examples, the iterator never returns: see `example_reader.count_examples`.

    Args:
        paths: the TFRecord files.
        scheme: lengths to keep, and B for each.
        reader: what an example becomes.
        workers: W, equal parts of every batch.
        seed: of all shuffling.
        batch_shuffle_size: batches of one worker held to be shuffled, so that lengths mix; 0: none.

    Returns:
        A dataset of `{"inputs": int32 [W, B, S], "targets": int32 [W, B, T]}`, 0 for padding.
    """
    records = (
        tf.data.Dataset.from_tensor_slices(list(paths))
        .shuffle(len(paths), seed=seed)
        .interleave(
            tf.data.TFRecordDataset,
            cycle_length=_INTERLEAVED_FILES,
            block_length=_INTERLEAVED_RECORDS,
        )
        .shuffle(_SHUFFLED_RECORDS, seed=seed)
        .repeat()
    )
    batches = _bucketed(records, scheme, reader, workers)
    if batch_shuffle_size:
        batches = batches.shuffle(max(1, batch_shuffle_size // workers), seed=seed)
    return _padded(batches, reader, workers)


def eval_dataset(
    paths: Sequence[str], scheme: BatchingScheme, reader: ExampleReader, *, workers: int
) -> tf.data.Dataset:
    """Every example that `scheme` keeps, once, grouped by length, in a fixed order.

    Args:
        paths: the TFRecord files.
        scheme: lengths to keep, and the greatest B for each.
        reader: what an example becomes.
        workers: W, equal parts of every batch.

    Returns:
        A dataset of `{"inputs": int32 [W, B, S], "targets": int32 [W, B, T]}`, 0 for padding. A
        bucket's last batch is filled up with rows of padding until W divides it.
    """
    records = tf.data.TFRecordDataset(list(paths))
    return _padded(_bucketed(records, scheme, reader, workers), reader, workers)


def padding_share(features: dict[str, tf.Tensor]) -> tf.Tensor:
    """Returns the fraction of cells of a batch that are padding, both sides together (a scalar)."""
    cells = [tf.reshape(ids, [-1]) for ids in features.values()]  # each [W*B*L]
    return tf.math.zero_fraction(tf.concat(cells, axis=0))


def _bucketed(
    records: tf.data.Dataset, scheme: BatchingScheme, reader: ExampleReader, workers: int
) -> tf.data.Dataset:
    """Drops and groups records by length: strings `[n]`, n up to W times the bucket's size."""
    boundaries = tf.constant(scheme.boundaries, tf.int64)
    sizes = tf.constant(scheme.batch_sizes, tf.int64) * workers

    def assign(chunk: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        lengths = tf.reduce_max(reader.lengths(chunk), axis=1)  # [n]
        kept = (lengths >= scheme.min_length) & (lengths <= scheme.max_length)
        buckets = tf.searchsorted(boundaries, lengths, side="right", out_type=tf.int64)
        return chunk[kept], buckets[kept]

    # `Dataset.bucket_by_sequence_length` does the same at a fifth of the speed: it looks for the
    # bucket of one example at a time.
    return (
        records.batch(_MEASURED_RECORDS)
        .map(assign)
        .unbatch()
        .group_by_window(
            key_func=lambda _, bucket: bucket,
            reduce_func=lambda bucket, group: group.batch(sizes[bucket]),
            window_size_func=lambda bucket: sizes[bucket],
        )
        .map(lambda batch, _: batch)
    )


def _padded(batches: tf.data.Dataset, reader: ExampleReader, workers: int) -> tf.data.Dataset:
    """Parses batches of records `[n]` into padded ids `[W, ceil(n / W), L]`."""

    def split(ids: tf.RaggedTensor) -> tf.Tensor:
        dense = tf.cast(ids.to_tensor(), tf.int32)  # [n, L]
        missing = -tf.shape(dense)[0] % workers
        dense = tf.pad(dense, [[0, missing], [0, 0]])  # [W * B, L]
        return tf.reshape(dense, [workers, -1, tf.shape(dense)[1]])  # [W, B, L]

    def parse(records: tf.Tensor) -> dict[str, tf.Tensor]:
        return {name: split(ids) for name, ids in reader.parse(records).items()}

    options = tf.data.Options()
    options.deterministic = True
    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2).with_options(options)
