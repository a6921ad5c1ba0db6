"""An LSTM over a whole sequence, with a backward pass of its own.

Differentiated automatically, the loop would add a gradient of the recurrent kernel's size in every
step. Here, the backward loop computes the gates' gradients alone, and one product over all
positions then gives the kernel's. TensorFlow's XLA can compile it, too.
"""

from collections.abc import Callable
from typing import NamedTuple

import keras
from keras import ops

from t2t_lite.tensor_sizes import split

_Tensors = tuple[keras.KerasTensor, ...]


class _Run(NamedTuple):
    """What the backward pass needs of a run over N positions."""

    kernel: keras.KerasTensor  # [D, 4D], of the previous output
    outputs: keras.KerasTensor  # [N, B, D]
    cells: keras.KerasTensor  # [N, B, D]
    activated: keras.KerasTensor  # [N, B, 4D], the gates after their non-linearities
    masks: _Tensors  # [N, B, 1], 0 at padding; or none


def lstm_scan(
    gates: keras.KerasTensor,
    kernel: keras.KerasTensor,
    output: keras.KerasTensor,
    cell: keras.KerasTensor,
    mask: keras.KerasTensor | None = None,
    forget_bias: float = 0.0,
    backward: bool = False,
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Runs an LSTM; its state passes through padding unchanged.

    Args:
        gates: [N, B, 4D], the inputs' products with the kernel, with the bias: input gate, forget
            gate, candidate, output gate.
        kernel: [D, 4D], for the previous output.
        output: [B, D], the initial output.
        cell: [B, D], the initial cell.
        mask: [N, B, 1], 0 at padding (default: no padding).
        forget_bias: added to the forget gate.
        backward: whether to read from the last position to the first.

    Returns:
        The outputs [N, B, D], at padding those of the position before, and the final cell [B, D].
    """
    channels = output.shape[-1]

    @ops.custom_gradient
    def run(
        gates: keras.KerasTensor,
        kernel: keras.KerasTensor,
        output: keras.KerasTensor,
        cell: keras.KerasTensor,
        *masks: keras.KerasTensor,
    ) -> tuple[_Tensors, Callable[..., _Tensors]]:
        def step(before: _Tensors, now: keras.KerasTensor) -> tuple[_Tensors, _Tensors]:
            output, cell, _ = before
            gates, present = split(now, [4 * channels, 1]) if masks else (now, None)
            gates = gates + ops.matmul(output, kernel)
            write, forget, new, read = ops.split(gates, 4, axis=-1)
            write, forget = ops.sigmoid(write), ops.sigmoid(forget + forget_bias)
            new, read = ops.tanh(new), ops.sigmoid(read)
            new_cell = forget * cell + write * new
            new_output = read * ops.tanh(new_cell)
            if present is not None:
                new_cell = ops.where(present > 0, new_cell, cell)
                new_output = ops.where(present > 0, new_output, output)
            activated = ops.concatenate([write, forget, new, read], axis=-1)
            after = (new_output, new_cell, activated)
            return after, after

        # Packed: `scan` takes only one tensor of unknown length, and returns no more than it
        # carries.
        packed = ops.concatenate([gates, *masks], axis=-1)
        first = (output, cell, ops.zeros_like(gates[0]))
        (_, final, _), past = ops.scan(step, first, packed, reverse=backward)
        outputs, cells, activated = past
        seen = _Run(kernel, outputs, cells, activated, masks)

        def gradient(*upstream: keras.KerasTensor) -> _Tensors:
            by_outputs, by_final = keras.tree.flatten(upstream)
            return _gradient(seen, output, cell, by_outputs, by_final, backward)

        return (outputs, final), gradient

    return run(gates, kernel, output, cell, *(() if mask is None else (mask,)))


def _gradient(
    seen: _Run,
    output: keras.KerasTensor,
    cell: keras.KerasTensor,
    by_outputs: keras.KerasTensor,
    by_final: keras.KerasTensor,
    backward: bool,
) -> _Tensors:
    """Returns the gradients of gates, kernel, initial output and cell, and masks (zeros)."""
    write, forget, new, read = ops.split(seen.activated, 4, axis=-1)
    squashed = ops.tanh(seen.cells)
    # Derivatives of the cell by the output, and of output and cell by the gates, before their
    # non-linearities. None passes at padding.
    by_gates = [
        read * (1.0 - ops.square(squashed)),
        new * write * (1.0 - write),
        _before(seen.cells, cell, backward) * forget * (1.0 - forget),
        write * (1.0 - ops.square(new)),
        squashed * read * (1.0 - read),
    ]
    if seen.masks:
        present = seen.masks[0]
        by_gates = [part * present for part in by_gates]
        forget = ops.where(present > 0, forget, ops.ones_like(forget))
    absent = [1.0 - mask for mask in seen.masks]
    width, transposed = output.shape[-1], ops.transpose(seen.kernel)
    sizes = [width] * 7 + [1] * len(absent)

    def step(after: _Tensors, now: keras.KerasTensor) -> tuple[_Tensors, _Tensors]:
        by_output, by_cell, _ = after
        here, forget, to_cell, write, keep, new, read, *absent = split(now, sizes)
        by_output = by_output + here
        by_cell = by_cell + by_output * to_cell
        by_gates = ops.concatenate(
            [by_cell * write, by_cell * keep, by_cell * new, by_output * read], axis=-1
        )
        passed = ops.matmul(by_gates, transposed)
        passed = passed + absent[0] * by_output if absent else passed
        before = (passed, by_cell * forget, by_gates)
        return before, before

    packed = ops.concatenate([by_outputs, forget, *by_gates, *absent], axis=-1)
    last = (ops.zeros_like(output), by_final, ops.zeros_like(seen.activated[0]))
    (by_output, by_cell, _), (_, _, by_gates_all) = ops.scan(
        step, last, packed, reverse=not backward
    )
    previous = ops.reshape(_before(seen.outputs, output, backward), (-1, width))
    by_kernel = ops.matmul(
        ops.transpose(previous), ops.reshape(by_gates_all, (-1, 4 * width))
    )  # [D, N · B] [N · B, 4D]
    return by_gates_all, by_kernel, by_output, by_cell, *map(ops.zeros_like, seen.masks)


def _before(
    values: keras.KerasTensor, first: keras.KerasTensor, backward: bool
) -> keras.KerasTensor:
    """Returns the values [N, B, D] before each position, in the order of reading."""
    if backward:
        return ops.concatenate([values[1:], first[None]], axis=0)
    return ops.concatenate([first[None], values[:-1]], axis=0)
