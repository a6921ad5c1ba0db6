"""Activations that are computed again in the backward pass instead of being kept."""

from collections.abc import Callable

import keras


def recomputed(
    layer: Callable[..., keras.KerasTensor], seeds: keras.random.SeedGenerator
) -> Callable[..., keras.KerasTensor]:
    """Returns `layer` with none of its activations kept for the backward pass.

    `keras.remat` alone would draw other dropout masks the second time. Here the state of the
    generator is held fast and returned, so that both passes draw from the same state, and the
    masks are those of a model that keeps its activations.

    Args:
        layer: maps tensors to a tensor; draws from `seeds` alone.
        seeds: the model's generator.
    """

    def call(*tensors: keras.KerasTensor) -> keras.KerasTensor:
        start = seeds.state.value * 1  # a copy: in eager mode the value is the variable itself

        @keras.remat
        def pure(*tensors: keras.KerasTensor) -> tuple[keras.KerasTensor, keras.KerasTensor]:
            with keras.StatelessScope(state_mapping=[(seeds.state, start)]):
                return layer(*tensors), seeds.state.value

        result, end = pure(*tensors)
        seeds.state.assign(end)
        return result

    return call
