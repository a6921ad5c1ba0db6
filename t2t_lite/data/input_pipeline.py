"""Input pipeline: from TFRecord files to batches of ids `[W, B, L]`, with tf.data.

    files -> records -> shuffle -> (rewrite) -> drop and bucket by length -> shuffle batches ->
    parse and pad

Records stay serialized (2-3 bytes per subword) until their batch is complete, so that the shuffle
buffers, which an iterator's checkpoint contains, stay small. The batches depend only on the files
and the seed (and on `tf.random.set_seed` if it is called). An iterator restored from a
`tf.train.Checkpoint` continues with exactly the next batch, even if the files have moved: the
checkpoint refers to them by their index in the list of paths.

Until it is parsed, every record carries its origin, epoch * MOST_EXAMPLES + example number; an
example has the same number in every epoch. (One number is faster than a pair.)

A mixture of problems has such a stream of bucketed examples, with epochs of its own, for each of
them; every next example is of a stream that is drawn at random.

Notation: W parts = replicas × accumulation steps, B sentences each, L = S or T positions.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.example_reader import MOST_EXAMPLES, ExampleReader, file_records
from t2t_lite.data.rewriting import Rewriter

# Files read in parallel, as in T2T, and records read from each per turn.
_INTERLEAVED_FILES = 8
_INTERLEAVED_RECORDS = 16
# Records in the shuffle buffer of an epoch: about 1 MB of serialized sentence pairs.
_SHUFFLED_RECORDS = 10_000
# Records parsed per call to measure their lengths.
_MEASURED_RECORDS = 1024
# Draws of the stream of the next example per call.
_DRAWN_AT_ONCE = 4096
# Upper bound of the epochs of a stream.
_MOST_EPOCHS = 2**32

# No function below has conditions or loops of TensorFlow's own: looking for them takes longer than
# all else that makes a dataset.
_without_autograph = tf.autograph.experimental.do_not_convert


class Mixing(NamedTuple):
    """How M streams of consecutive files are mixed.

    Attributes:
        files: the number of each stream's files.
        rates: [P, M], the probabilities that an example is of each stream; each row adds to 1.
        examples: [P], ascending: the number of the example that has a row's rates. Between two
            rows, rates lie on a straight line; beyond the first or last, they are constant.
        epoch: the number of examples that an epoch has.
        passes: the number of passes over a stream that an epoch takes at most.
    """

    files: Sequence[int]
    rates: Sequence[Sequence[float]]
    examples: Sequence[float] = (0.0,)
    epoch: int = 0
    passes: int = 0


@_without_autograph
def train_dataset(
    paths: Sequence[str],
    scheme: BatchingScheme,
    reader: ExampleReader,
    *,
    parts: int,
    seed: int,
    batch_shuffle_size: int,
    rewriter: Rewriter | None = None,
    epochs: tf.data.Dataset | None = None,
    mixing: Mixing | None = None,
) -> tf.data.Dataset:
    """Returns shuffled batches for training, endless by default.

    Every epoch covers all examples once, in an order given by (seed, epoch); that of a mixture has
    as many examples, each of a stream that is drawn. Buckets fill across epochs, so that no example
    is lost however few there are. If `scheme` drops all examples, the
    iterator never returns: see `data_statistics.count_examples`.

    Args:
        paths: the TFRecord files.
        scheme: lengths to keep, and B for each.
        reader: parses the examples.
        parts: W, the number of equal parts of every batch.
        seed: seed of all shuffling.
        batch_shuffle_size: size of the buffer that mixes the lengths of batches, in batches of
            one part; 0: no buffer.
        rewriter: replaces each example anew in every epoch; None: examples stay as they are.
        epochs: numbers of the epochs; None: 0, 1, 2 and so on, without end.
        mixing: how the files are mixed, if they are.

    Returns:
        A dataset of `{"inputs": int32 [W, B, S], "targets": int32 [W, B, T]}`, 0 for padding; with
        `alignment` [W, B, T] if the reader reads it.
    """
    reader_of_batches = rewriter.reader if rewriter else reader
    sources = _Sources(paths, scheme, reader, rewriter, seed)
    if mixing and len(mixing.files) > 1:
        examples = _mixed(sources, mixing, seed, epochs)
    else:
        every = tf.data.Dataset.counter() if epochs is None else epochs
        examples = sources.examples(range(len(paths)), every)
    batches = _grouped(examples, scheme, parts)
    if batch_shuffle_size:
        batches = batches.shuffle(max(1, batch_shuffle_size // parts), seed=seed)
    return _padded(batches, reader_of_batches, parts)


@dataclasses.dataclass(frozen=True)
class _Sources:
    """Where streams of examples come from; arguments as for `train_dataset`."""

    paths: Sequence[str]
    scheme: BatchingScheme
    reader: ExampleReader
    rewriter: Rewriter | None
    seed: int

    def examples(self, files: range, epochs: tf.data.Dataset, stream: int = 0) -> tf.data.Dataset:
        """Returns the examples of some files, as `_bucketed` does.

        Args:
            files: their indices in `paths`.
            epochs: numbers of the passes over them.
            stream: decides their order, with the seed and the epoch.
        """
        read, seeds_of = _file_reader(self.paths), _seeds_by_epoch(self.seed)

        def epoch(number: tf.Tensor) -> tf.data.Dataset:
            seeds = seeds_of(number + stream * _MOST_EPOCHS)
            indices = tf.data.Dataset.range(files.start, files.stop)
            records = _shuffled(indices, len(files), seeds).interleave(
                read, cycle_length=_INTERLEAVED_FILES, block_length=_INTERLEAVED_RECORDS
            )
            chunks = _shuffled(records, _SHUFFLED_RECORDS, seeds).batch(_MEASURED_RECORDS)
            return tf.data.Dataset.zip(tf.data.Dataset.from_tensors(number).repeat(), chunks)

        chunks = epochs.flat_map(epoch)
        if self.reader.change:
            # It may draw at random, which no iterator's checkpoint contains.
            options = tf.data.Options()
            ignore = tf.data.experimental.ExternalStatePolicy.IGNORE
            options.experimental_external_state_policy = ignore
            chunks = chunks.with_options(options)
        reader = self.reader
        if self.rewriter:
            chunks, reader = chunks.map(self.rewriter), self.rewriter.reader
        return _bucketed(chunks, self.scheme, reader)


def _mixed(
    sources: _Sources, mixing: Mixing, seed: int, epochs: tf.data.Dataset | None
) -> tf.data.Dataset:
    """Returns the examples of all streams, each of one drawn with the streams' rates."""
    ends = [*itertools.accumulate(mixing.files)]
    starts = [0, *ends[:-1]]

    def examples(epoch: tf.Tensor | int = 0) -> tf.data.Dataset:
        """Returns the endless examples that begin with those of an epoch."""
        passes = tf.data.Dataset.counter(epoch * mixing.passes)
        datasets = [
            sources.examples(range(start, end), passes, number)
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        ]
        first_block = epoch * -(-mixing.epoch // _DRAWN_AT_ONCE)
        return tf.data.Dataset.choose_from_datasets(datasets, _draws(mixing, seed, first_block))

    mixed = (
        examples()
        if epochs is None
        else epochs.flat_map(lambda epoch: examples(epoch).take(mixing.epoch))
    )
    return mixed.prefetch(_MEASURED_RECORDS)  # grouped in another thread


def _draws(mixing: Mixing, seed: int, first_block: tf.Tensor | int = 0) -> tf.data.Dataset:
    """Returns an endless dataset of numbers of streams, each drawn with its rate.

    The n-th number is a function of the seed and n, so that an iterator's checkpoint has n alone.
    The first numbers are those of `first_block`, of `_DRAWN_AT_ONCE` each.
    """
    low, high = tf.compat.v1.random.get_seed(seed)
    sums = [[*itertools.accumulate(row)][:-1] for row in mixing.rates]
    bounds = tf.constant(sums, tf.float64)  # [P, M - 1]
    points = tf.constant(mixing.examples, tf.float64)  # [P]
    last = len(mixing.examples) - 1

    def draw(block: tf.Tensor) -> tf.Tensor:
        own = tf.random.experimental.stateless_fold_in([low, high], block)
        uniform = tf.random.stateless_uniform([_DRAWN_AT_ONCE], own, dtype=tf.float64)  # [n]
        numbers = block * _DRAWN_AT_ONCE + tf.range(_DRAWN_AT_ONCE, dtype=tf.int64)
        examples = tf.cast(numbers, tf.float64)
        after = tf.searchsorted(points, examples, side="right")  # the next point's index
        start, end = tf.clip_by_value(after - 1, 0, last), tf.clip_by_value(after, 0, last)
        first, second = tf.gather(points, start), tf.gather(points, end)
        share = tf.math.divide_no_nan(examples - first, second - first)[:, None]  # [n, 1]
        own_bounds = tf.gather(bounds, start) * (1 - share) + tf.gather(bounds, end) * share
        return tf.math.count_nonzero(own_bounds <= uniform[:, None], axis=1)

    return tf.data.Dataset.counter(first_block).map(draw).unbatch()


@_without_autograph
def eval_dataset(
    paths: Sequence[str],
    scheme: BatchingScheme,
    reader: ExampleReader,
    *,
    parts: int,
) -> tf.data.Dataset:
    """Returns every example that `scheme` keeps, once, grouped by length, in a fixed order.

    Args:
        paths: the TFRecord files.
        scheme: lengths to keep, and the greatest B for each.
        reader: parses the examples.
        parts: W, the number of equal parts of every batch.

    Returns:
        A dataset of `{"inputs": int32 [W, B, S], "targets": int32 [W, B, T]}`, 0 for padding. The
        last batch of a bucket is filled with rows of padding to a multiple of W.
    """
    reader = reader.of_evaluation()
    return _padded(_grouped(_eval_examples(paths, scheme, reader), scheme, parts), reader, parts)


@_without_autograph
def limited_eval_dataset(
    paths: Sequence[str], scheme: BatchingScheme, reader: ExampleReader, *, parts: int, limit: int
) -> tuple[tf.data.Dataset, bool]:
    """As `eval_dataset`, but only with the examples of the first `limit` batches of W = 1.

    They are the same examples, whatever W is.

    Returns:
        The dataset, and whether it leaves examples out. To find out, this reads the files.
    """
    reader = reader.of_evaluation()
    batches = _grouped(_eval_examples(paths, scheme, reader), scheme, parts=1)
    has_more = any(True for _ in batches.skip(limit).take(1))
    batches = batches.take(limit)
    if parts > 1:
        batches = _grouped(batches.unbatch(), scheme, parts)
    return _padded(batches, reader, parts), has_more


def _eval_examples(
    paths: Sequence[str], scheme: BatchingScheme, reader: ExampleReader
) -> tf.data.Dataset:
    """Returns the examples of evaluations, in the order of the files, as `_bucketed` does."""
    records = tf.data.Dataset.range(len(paths)).flat_map(_file_reader(paths))
    epoch = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).repeat()
    chunks = tf.data.Dataset.zip(epoch, records.batch(_MEASURED_RECORDS))
    return _bucketed(chunks, scheme, reader)


def _seeds_by_epoch(seed: int) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Returns a function that computes the two shuffle seeds of an epoch.

    They equal the successive draws of `Dataset.shuffle(seed=seed).repeat()`, whose generator
    would be missing from a checkpoint once the files of an epoch have been opened.
    """
    low, high = tf.compat.v1.random.get_seed(seed)  # the first comes from `tf.random.set_seed`

    def seeds(epoch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # Two numbers per epoch; Philox generates four at once.
        drawn = tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=[2, 2],
            key=tf.constant([low], tf.uint64),
            counter=tf.stack([tf.cast(epoch // 2, tf.uint64), tf.constant(high, tf.uint64)]),
            alg=tf.random.Algorithm.PHILOX.value,
            dtype=tf.uint32,
        )
        first, second = tf.unstack(tf.cast(drawn[epoch % 2], tf.int64))
        return first, second

    return seeds


def _shuffled(
    dataset: tf.data.Dataset, size: int, seeds: tuple[tf.Tensor, tf.Tensor]
) -> tf.data.Dataset:
    """Shuffles with both seeds of TensorFlow's operation; `Dataset.shuffle` accepts only one."""
    specs = tf.nest.flatten(dataset.element_spec)
    variant = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        buffer_size=size,
        seed=seeds[0],
        seed2=seeds[1],
        reshuffle_each_iteration=False,
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
    )
    return tf.data.experimental.from_variant(variant, dataset.element_spec)


def _file_reader(paths: Sequence[str]) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """Returns a function from a file's index in `paths` to a dataset of (example number, record).

    Examples are numbered as if the files were read round-robin, so that no number depends on the
    record counts of other files.
    """
    locations = tf.constant(list(paths))

    def read(file: tf.Tensor) -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(file, tf.int64.max, len(paths))
        return tf.data.Dataset.zip(numbers, file_records(locations[file]))

    return read


def _bucketed(
    chunks: tf.data.Dataset, scheme: BatchingScheme, reader: ExampleReader
) -> tf.data.Dataset:
    """Drops records by length and finds the buckets of the others.

    Args:
        chunks: a dataset of (epoch, (example numbers `[n]`, records `[n]`)).
        scheme: lengths to keep.
        reader: parses the examples.

    Returns:
        A dataset of (origin, record, bucket).
    """
    boundaries = tf.constant(scheme.boundaries, tf.int64)

    def assign(
        epoch: tf.Tensor, chunk: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        examples, records = chunk
        lengths = tf.reduce_max(reader.lengths(records), axis=1)  # [n]
        is_kept = (lengths >= scheme.min_length) & (lengths <= scheme.max_length)
        kept = tf.squeeze(tf.where(is_kept), axis=1)
        buckets = tf.searchsorted(boundaries, lengths, side="right", out_type=tf.int64)
        origins = epoch * MOST_EXAMPLES + examples  # [n]
        return tf.gather(origins, kept), tf.gather(records, kept), tf.gather(buckets, kept)

    # `Dataset.bucket_by_sequence_length` does the same at a fifth of the speed: it finds the
    # bucket of one example at a time.
    return chunks.map(assign).prefetch(1).unbatch()  # parsed in a separate thread


def _grouped(examples: tf.data.Dataset, scheme: BatchingScheme, parts: int) -> tf.data.Dataset:
    """Groups the examples of `_bucketed`.

    Args:
        examples: a dataset of (origin, record, bucket).
        scheme: B for each bucket.
        parts: W, the number of equal parts of every batch.

    Returns:
        A dataset of (origins `[n]`, records `[n]`, their bucket `[n]`), where n is at most W times
        the bucket's batch size.
    """
    sizes = tf.constant(scheme.batch_sizes, tf.int64) * parts
    return examples.group_by_window(
        key_func=lambda origin, record, bucket: bucket,
        reduce_func=lambda bucket, group: group.batch(tf.gather(sizes, bucket)),
        window_size_func=lambda bucket: tf.gather(sizes, bucket),
    )


def _padded(batches: tf.data.Dataset, reader: ExampleReader, parts: int) -> tf.data.Dataset:
    """Converts the batches of `_grouped` to padded ids `[W, ceil(n / W), L]`."""

    def split(ids: tf.RaggedTensor) -> tf.Tensor:
        dense = tf.cast(ids, tf.int32).to_tensor()  # [n, L]
        if parts == 1:  # which takes half as long to trace
            return tf.expand_dims(dense, axis=0)
        missing = -tf.shape(dense)[0] % parts
        dense = tf.pad(dense, [[0, missing], [0, 0]])  # [W * B, L]
        rows, length = tf.unstack(tf.shape(dense))
        return tf.reshape(dense, [parts, rows // parts, length])  # [W, B, L]; L may be 0

    def parse(origins: tf.Tensor, records: tf.Tensor, buckets: tf.Tensor) -> dict[str, tf.Tensor]:
        return {name: split(ids) for name, ids in reader.parse(records).items()}

    options = tf.data.Options()
    options.deterministic = True
    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2).with_options(options)
