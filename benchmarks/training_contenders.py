"""The contenders of `train_throughput.py`: our update, its peers, its input pipeline.

All see the same sentences. PyTorch's model is in `pytorch_transformer.py`, its step in `peers.py`.
"""

import dataclasses
import itertools
import math
import os
import pathlib
from typing import Any

import numpy as np
import pairing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
THREADS = len(os.sched_getaffinity(0))


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of a model and of its batches."""

    layers: int  # in each of encoder and decoder
    channels: int  # D
    hidden: int  # features inside the feed-forward layer
    heads: int  # H
    vocabulary: int  # V
    sentences: int  # B
    length: int  # S = T, of the longest sentence

    @property
    def tokens(self) -> int:
        """Target cells of a batch, including padding."""
        return self.sentences * self.length

    @property
    def hparams(self) -> dict[str, int | float]:
        """Changes to `transformer_base`."""
        return {
            "num_hidden_layers": self.layers,
            "hidden_size": self.channels,
            "filter_size": self.hidden,
            "num_heads": self.heads,
            "batch_size": self.tokens,
            "layer_prepostprocess_dropout": DROPOUT,
            "attention_dropout": DROPOUT,
            "relu_dropout": DROPOUT,
            "label_smoothing": SMOOTHING,
        }

    def batches(self) -> list[dict[str, np.ndarray]]:
        """Four batches with lengths as in a bucket: 8 % of the cells are padding."""
        draw = np.random.default_rng(0)
        return [{name: self._sentences(draw) for name in ("inputs", "targets")} for _ in range(4)]

    def _sentences(self, draw: np.random.Generator) -> np.ndarray:
        ids = draw.integers(2, self.vocabulary, (self.sentences, self.length))
        shortest = int(self.length * 0.86)
        ends = draw.integers(shortest, self.length, (self.sentences, 1), endpoint=True)
        ends[0] = self.length
        return np.where(np.arange(self.length) < ends, ids, 0).astype(np.int32)


SHAPES = {
    "tiny": Shape(4, 128, 256, 4, 10_000, sentences=128, length=32),
    "base": Shape(6, 512, 2048, 8, 32_000, sentences=128, length=32),
    "big": Shape(6, 1024, 4096, 16, 32_000, sentences=128, length=32),
}
DROPOUT = SMOOTHING = 0.1


def prepare_ours(
    shape: Shape, dtype: str = "float32", xla: bool = False, devices: int = 1
) -> pairing.Step:
    """Our Transformer and training step, as the trainer sets them up.

    Args:
        shape: the sizes; the batch is divided evenly among the devices.
        dtype: of activations.
        xla: whether XLA compiles the step.
        devices: as in `prepare_model`.
    """
    changes = {**shape.hparams, "dtype": dtype, "xla_compile": xla}
    return prepare_model("transformer", "transformer_base", changes, shape, devices)


def prepare_model(
    name: str,
    hparams_set: str,
    changes: dict[str, Any],
    shape: Shape,
    devices: int = 1,
    parameters: int = 0,
) -> pairing.Step:
    """Any of our models and our training step, as the trainer sets them up.

    Args:
        name: the registered model.
        hparams_set: the registered set of its hparams.
        changes: hparams to change.
        shape: the sizes of vocabulary and batches.
        devices: GPUs, or parts of the CPU if there is no GPU.
        parameters: the number that the model must have; 0: any.
    """
    import tensorflow as tf

    from t2t_lite import registry
    from t2t_lite.training.devices import make_strategy
    from t2t_lite.training.optimizers import make_optimizer
    from t2t_lite.training.step import TrainStep

    hparams = registry.hparams(hparams_set).copy(**changes)
    if tf.config.list_physical_devices("GPU"):
        strategy = make_strategy(devices)
    else:
        strategy = make_strategy(None, devices if devices > 1 else 0)
    parts = strategy.num_replicas_in_sync
    with strategy.scope():
        model = registry.model(name)(hparams, shape.vocabulary, shape.vocabulary)
        optimizer = make_optimizer(hparams)
        optimizer.build(model.trainable_variables)
    assert parameters in (0, model.count_params())
    train_step = TrainStep(strategy, model, optimizer, parts, seed=1)
    batches = [
        {name: tf.reshape(ids, [parts, -1, shape.length]) for name, ids in batch.items()}
        for batch in shape.batches()
    ]
    number = itertools.count()

    def step() -> None:
        n = next(number)
        train_step(batches[n % len(batches)], n)
        train_step.window.sums.numpy()  # waits for the end

    return step


def prepare_pipeline(shape: Shape, data_dir: pathlib.Path) -> pairing.Step:
    """The input pipeline alone: batches with as many cells of targets as a step consumes.

    Args:
        shape: the sizes of the step to feed.
        data_dir: folder with t2t-datagen's files of translate_ende_locale.
    """
    from t2t_lite import registry
    from t2t_lite.data.batching import BatchingScheme
    from t2t_lite.data.example_reader import ExampleReader
    from t2t_lite.data.input_pipeline import train_dataset
    from t2t_lite.data.problem import DatasetSplit

    hparams = registry.hparams("transformer_base").copy(**shape.hparams)
    problem = registry.problem("translate_ende_locale")
    dataset = train_dataset(
        problem.existing_filepaths(str(data_dir), DatasetSplit.TRAIN),
        BatchingScheme.from_hparams(hparams, training=True),
        ExampleReader.of(problem, hparams),
        parts=1,
        seed=1,
        batch_shuffle_size=hparams.batch_shuffle_size,
    )
    batches = iter(dataset)
    ahead = 0  # cells that earlier steps read beyond their share

    def step() -> None:
        nonlocal ahead
        while ahead < shape.tokens:
            ahead += int(next(batches)["targets"].shape.num_elements())
        ahead -= shape.tokens

    return step


def prepare_products(shape: Shape, dtype: str = "float32") -> pairing.Step:
    """The matrix products of a step, each into a new array: the limit of the machine.

    A product A B has two more in the backward pass: those of the gradients of A and of B.
    """
    import tensorflow as tf

    products = [
        (count, *(tf.cast(tf.random.normal(size), dtype) for size in sizes))
        for count, *sizes in product_sizes(shape)
    ]

    def step() -> None:
        for count, a, b, c in products:
            for _ in range(count):
                tf.linalg.matmul(a, b)
                tf.linalg.matmul(c, b, transpose_b=True)
                last = tf.linalg.matmul(a, c, transpose_a=True)
        last[0, 0].numpy()  # waits

    return step


def product_sizes(shape: Shape) -> list[tuple]:
    """Returns (count, size of A, size of B, size of A B) for each product of the forward pass."""
    d, f, v, n = shape.channels, shape.hidden, shape.vocabulary, shape.layers
    tokens, length, per_head = shape.tokens, shape.length, d // shape.heads
    present = int(np.mean([np.count_nonzero(batch["targets"]) for batch in shape.batches()]))
    pairs = shape.sentences * shape.heads

    def product(count: int, rows: int, inner: int, columns: int, batch: tuple = ()) -> tuple:
        return (count, (*batch, rows, inner), (*batch, inner, columns), (*batch, rows, columns))

    return [
        product(2 * n, tokens, d, 3 * d),  # queries, keys and values of self-attention
        product(n, tokens, d, d),  # queries to the source
        product(n, tokens, d, 2 * d),  # keys and values of the source
        product(3 * n, tokens, d, d),  # outputs of the attentions
        product(3 * n, length, per_head, length, (pairs,)),  # queries times keys
        product(3 * n, length, length, per_head, (pairs,)),  # weights times values
        product(2 * n, tokens, d, f),
        product(2 * n, tokens, f, d),
        product(1, present, d, v),  # the softmax
    ]


def operations(shape: Shape) -> float:
    """Floating-point operations of those products, backward pass included."""
    total = 0.0
    for count, left, right, _ in product_sizes(shape):
        total += count * 3 * 2 * math.prod(left) * right[-1]
    return total
