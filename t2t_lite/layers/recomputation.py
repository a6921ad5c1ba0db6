"""Recomputes activations in the backward pass instead of keeping them."""

import contextvars
import functools
from collections.abc import Callable

import keras

from t2t_lite.layers.auxiliary_losses import AuxiliaryLayer, Statistics, collected_statistics


def recomputed(
    layer: Callable[..., keras.KerasTensor], seeds: keras.random.SeedGenerator
) -> Callable[..., keras.KerasTensor]:
    """Returns `layer` wrapped so that it keeps no activations for the backward pass.

    `keras.remat` alone would draw different dropout masks the second time. Here the generator's
    state is saved and restored, so that both passes draw the same masks, which are those of a
    model that keeps its activations.

    Statistics of auxiliary losses are results of the wrapped layer, too. The second pass sees the
    context variables of the first, which the caller may have reset by then.

    Args:
        layer: maps tensors to a tensor; draws from `seeds` only.
        seeds: the model's seed generator.
    """

    def call(*tensors: keras.KerasTensor) -> keras.KerasTensor:
        start = seeds.state.value * 1  # a copy: in eager mode the value is the variable itself
        owners: list[AuxiliaryLayer] = []

        def pure(
            *tensors: keras.KerasTensor,
        ) -> tuple[keras.KerasTensor, keras.KerasTensor, list[Statistics]]:
            with (
                keras.StatelessScope(state_mapping=[(seeds.state, start)]),
                collected_statistics() as collected,
            ):
                result, end = layer(*tensors), seeds.state.value
            owners[:] = collected
            return result, end, list(collected.values())

        context = contextvars.copy_context()
        repeatable = keras.remat(functools.partial(context.run, pure))
        result, end, statistics = repeatable(*tensors)
        seeds.state.assign(end)
        for owner, sums in zip(owners, statistics, strict=True):
            owner.add_statistics(sums)
        return result

    return call
