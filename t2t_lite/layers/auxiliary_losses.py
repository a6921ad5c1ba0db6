"""Losses in addition to that of the tokens, the same however a batch is divided.

A layer of a model may add a loss of its own: mixtures of experts balance their experts, adaptive
computation time charges for its steps. Such a loss is a function of *sums over the batch*, and may
be non-linear, such as a squared coefficient of variation. Its value for a batch is thus neither the
sum nor the mean of its values for the parts that replicas or micro-batches see. So a layer passes
on its sums, not its loss:

1. It derives from `AuxiliaryLayer`, and names its sums and their shapes in `statistics_shapes`.
2. When called with `training=True`, it calls `add_statistics` with sums over the *real tokens* of
   what it has seen: in float32, padding left out. They depend on the weights, and gradients flow
   through them.
3. `auxiliary_losses` maps the sums over the whole batch to losses by name, already multiplied by
   their weights, on the scale of the *mean* loss of a token. All sums may be 0.

The training step adds the sums of all replicas and micro-batches before it asks for the losses
(`training/auxiliary_slopes.py`). In a Keras model outside of it, each call adds the losses of its
own batch by `add_loss`, and `fit` includes them. Losses of the same name, from several layers, add
up. They appear in the metrics of training as `NAME_loss`; the loss in evaluations is that of the
tokens alone.

The weighted mean of a number of steps for each token, for example, as in adaptive computation time:

    class Ponder(AuxiliaryLayer):
        @property
        def statistics_shapes(self):
            return {"steps": (), "tokens": ()}

        def call(self, x, steps, present, training=False):  # [B, L, D], [B, L], [B, L]
            if training:
                real = ops.cast(present, "float32")
                self.add_statistics({"steps": ops.sum(steps * real), "tokens": ops.sum(real)})
            return x

        def auxiliary_losses(self, sums):
            return {"ponder": 0.01 * sums["steps"] / ops.maximum(sums["tokens"], 1.0)}

A layer that is called several times adds up the sums of its calls. One inside a compiled loop
(`ops.scan`, `ops.while_loop`) cannot call `add_statistics`: its tensors do not exist outside the
loop. The loop must return the sums, and the layer around it must add them.
"""

import abc
import contextlib
import contextvars
from collections.abc import Iterator, Mapping

import keras
from keras import ops

from t2t_lite.layers.base import Layer

# Sums over real tokens, by name.
Statistics = dict[str, keras.KerasTensor]


class AuxiliaryLayer(Layer, abc.ABC):
    """A layer with losses of its own; the module's description says how to write one."""

    @property
    @abc.abstractmethod
    def statistics_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of the sums, by name."""

    @abc.abstractmethod
    def auxiliary_losses(self, sums: Statistics) -> dict[str, keras.KerasTensor]:
        """Returns the weighted losses of a batch by name, float32 scalars, given its sums."""

    def add_statistics(self, statistics: Statistics) -> None:
        """Adds sums over the real tokens of one call."""
        collected = _collected.get()
        if collected is None:
            self.add_loss(sum(self.auxiliary_losses(statistics).values()))
        elif self in collected:
            before = collected[self]
            collected[self] = {name: before[name] + more for name, more in statistics.items()}
        else:
            collected[self] = statistics

    def no_statistics(self) -> Statistics:
        """Returns the sums over no tokens."""
        return {name: ops.zeros(shape) for name, shape in self.statistics_shapes.items()}


_collected = contextvars.ContextVar[dict[AuxiliaryLayer, Statistics] | None](
    "collected", default=None
)


@contextlib.contextmanager
def collected_statistics() -> Iterator[dict[AuxiliaryLayer, Statistics]]:
    """Collects what layers add inside the block; no losses are added to them."""
    collected: dict[AuxiliaryLayer, Statistics] = {}
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)
