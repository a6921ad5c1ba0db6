"""T2T's initialisation of dense kernels."""

import keras


def unit_scaling(gain: float) -> keras.initializers.Initializer:
    """Uniform with variance `gain / mean(fan_in, fan_out)`: T2T's `uniform_unit_scaling`."""
    return keras.initializers.VarianceScaling(gain, mode="fan_avg", distribution="uniform")


class SideBySide(keras.initializers.Initializer):
    """Initialises a fused kernel [D, sum(widths)] as separate kernels [D, width] would be.

    Args:
        initializer: initializer of each part.
        widths: columns of each part.
    """

    def __init__(self, initializer: keras.initializers.Initializer, widths: list[int]) -> None:
        self.initializer = initializer
        self.widths = widths

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> keras.KerasTensor:
        """Returns the initial kernel, `shape` [D, sum(widths)]."""
        # An initializer returns the same values on every call, so each part needs its own.
        parts = [self.initializer.clone()((shape[0], width), dtype=dtype) for width in self.widths]
        return keras.ops.concatenate(parts, axis=1)
