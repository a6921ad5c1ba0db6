"""Recurrent layers: LSTM and GRU cells, and a layer that runs one over a sequence."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_lite.layers.base import Layer
from t2t_lite.layers.dense import Projection, multiply, unit_scaling
from t2t_lite.layers.lstm_scan import lstm_scan
from t2t_lite.tensor_sizes import split


class LSTMState(NamedTuple):
    """The state that an LSTM cell passes to its next step."""

    output: keras.KerasTensor  # h, [..., D]
    cell: keras.KerasTensor  # c, [..., D]; with a projected output [..., H]


class GRUState(NamedTuple):
    """The state that a GRU cell passes to its next step."""

    output: keras.KerasTensor  # h, [..., D]


State = LSTMState | GRUState

# Maps projected inputs [..., gates · D], the state and the other inputs to the next state; there
# need not be inputs of both kinds.
Step = Callable[[keras.KerasTensor | None, Any, keras.KerasTensor | None], Any]


class Cell(Layer, abc.ABC):
    """One step of a recurrent layer.

    The rows of the kernel [inputs + D, gates · D] belong to the inputs, then to the previous
    output. A loop multiplies the inputs that it knows in advance by their rows, in one product
    over the whole sequence (`project`), and only the rest in every step (`stepper`).

    Args:
        inputs: features of the input.
        channels: D, features of the output.
        gain: scale of the initial variance.
        **kwargs: see `Layer`.
    """

    gate_count: int

    def __init__(self, inputs: int, channels: int, gain: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.channels = channels
        self.gain = gain

    def _make_gates(self, width: int) -> None:
        """Creates the kernel, with `width` columns for each gate."""
        widths, rows = [width] * self.gate_count, self.inputs + self.channels
        self.gates = Projection(
            rows, widths, self.gain, use_bias=True, by_rows=True, dtype=self.dtype_policy
        )

    @abc.abstractmethod
    def initial_state(self, zeros: keras.KerasTensor) -> Any:
        """Returns the state before the first step, made of `zeros` [..., D]."""

    @abc.abstractmethod
    def stepper(self, known: int) -> Step:
        """Returns the step of a loop, for inputs of which `project` takes the first `known`.

        Call it outside the loop: slicing a kernel inside would cost a gradient of the whole
        kernel's size in every step.
        """

    def project(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """Multiplies the first n inputs, `x` [..., n], by their rows; returns [..., gates · D]."""
        return multiply(self._cast(x), self._rows(0, x.shape[-1])) + self._bias()

    def call(self, x: keras.KerasTensor, state: Any) -> Any:
        """Maps `x` [..., inputs] and the previous state to the next state."""
        return self.stepper(0)(None, state, x)

    def scan(
        self,
        projected: keras.KerasTensor,
        state: Any,
        present: keras.KerasTensor | None,
        backward: bool,
    ) -> tuple[keras.KerasTensor, Any]:
        """Takes the steps of a sequence; the state passes through padding unchanged.

        Args:
            projected: [N, B, gates · D], all inputs, projected.
            state: the initial state, [B, D].
            present: [N, B, 1], 0 at padding; None: no padding.
            backward: whether to read from the last position to the first.

        Returns:
            The outputs [N, B, D], and the final state [B, D].
        """
        width, advance = projected.shape[-1], self.stepper(self.inputs)

        def step(before: Any, now: keras.KerasTensor) -> tuple[Any, Any]:
            if present is None:
                after = advance(now, before, None)
                return after, after
            gates, here = split(now, [width, 1])
            after = advance(gates, before, None)
            pairs = zip(after, before, strict=True)
            after = type(after)(*(ops.where(here > 0, *pair) for pair in pairs))
            return after, after

        if present is not None:  # packed: `scan` takes only one tensor of unknown length
            projected = ops.concatenate([projected, present], axis=-1)
        final, states = ops.scan(step, state, projected, reverse=backward)
        return states.output, final

    def _bias(self) -> keras.KerasTensor:
        return self._cast(self.gates.bias)

    def _rows(self, start: int, stop: int | None = None) -> keras.KerasTensor:
        kernel = self._cast(self.gates.matrix())
        return kernel if start == 0 and stop is None else kernel[start:stop]

    def _cast(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return ops.cast(x, self.compute_dtype)


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMCell(Cell):
    """A long short-term memory (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000).

    The columns of the kernel: input gate, forget gate, candidate, output gate.

    Args:
        inputs: features of the input.
        channels: D, features of output and cell.
        gain: scale of the initial variance.
        forget_bias: added to the forget gate; with 1, an untrained cell remembers (Jozefowicz et
            al. 2015).
        second_bias: whether there is another bias for the product with the previous output, as in
            cuDNN and PyTorch; it is added to the first.
        cells: features H of gates and cell, if the output is their projection to D features (Sak
            et al. 2014); 0: D, without a projection.
        **kwargs: see `Layer`.
    """

    gate_count = 4

    def __init__(
        self,
        inputs: int,
        channels: int,
        gain: float = 1.0,
        forget_bias: float = 1.0,
        second_bias: bool = False,
        cells: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(inputs, channels, gain, **kwargs)
        self.forget_bias = forget_bias
        self.second_bias = second_bias
        self.cells = cells
        self._make_gates(cells or channels)
        if second_bias:
            shape = (4 * (cells or channels),)
            self.output_bias = self.add_weight(shape, "zeros", name="output_bias")
        if cells:
            self.output_kernel = self.add_weight(
                (cells, channels), unit_scaling(gain), name="output_kernel"
            )

    def initial_state(self, zeros: keras.KerasTensor) -> LSTMState:
        """See `Cell.initial_state`."""
        cell = ops.repeat(zeros[..., :1], self.cells, axis=-1) if self.cells else zeros
        return LSTMState(zeros, cell)

    def stepper(self, known: int) -> Step:
        """See `Cell.stepper`."""
        kernel, bias = self._rows(known), self._bias()
        output_kernel = self._cast(self.output_kernel) if self.cells else None

        def step(
            projected: keras.KerasTensor | None, state: LSTMState, others: keras.KerasTensor | None
        ) -> LSTMState:
            x = state.output
            if others is not None:
                x = ops.concatenate([self._cast(others), x], axis=-1)
            gates = multiply(x, kernel) + (bias if projected is None else projected)  # [..., 4D]
            write, forget, new, read = ops.split(gates, 4, axis=-1)
            kept = ops.sigmoid(forget + self.forget_bias) * state.cell
            cell = kept + ops.sigmoid(write) * ops.tanh(new)
            output = ops.sigmoid(read) * ops.tanh(cell)
            if output_kernel is not None:
                output = multiply(output, output_kernel)
            return LSTMState(output, cell)

        return step

    def scan(
        self,
        projected: keras.KerasTensor,
        state: LSTMState,
        present: keras.KerasTensor | None,
        backward: bool,
    ) -> tuple[keras.KerasTensor, LSTMState]:
        """See `Cell.scan`; faster in training, unless the output is projected."""
        if self.cells:
            return super().scan(projected, state, present, backward)
        kernel = self._rows(self.inputs)
        outputs, cell = lstm_scan(projected, kernel, *state, present, self.forget_bias, backward)
        return outputs, LSTMState(outputs[0 if backward else -1], cell)

    def _bias(self) -> keras.KerasTensor:
        bias = self.gates.bias
        return self._cast(bias + self.output_bias if self.second_bias else bias)


@keras.saving.register_keras_serializable(package="t2t_lite")
class GRUCell(Cell):
    """A gated recurrent unit (Cho et al. 2014).

    The reset gate is applied after the product with the previous output, as in Keras and cuDNN,
    so that a step has one product. The columns of the kernel: update gate, reset gate, candidate.

    Args:
        inputs: features of the input.
        channels: D, features of the output.
        gain: scale of the initial variance.
        **kwargs: see `Layer`.
    """

    gate_count = 3

    def __init__(self, inputs: int, channels: int, gain: float = 1.0, **kwargs: Any) -> None:
        super().__init__(inputs, channels, gain, **kwargs)
        self._make_gates(channels)
        # Of the candidate's product with the previous output, before the reset gate.
        self.output_bias = self.add_weight((channels,), "zeros", name="output_bias")

    def initial_state(self, zeros: keras.KerasTensor) -> GRUState:
        """See `Cell.initial_state`."""
        return GRUState(zeros)

    def stepper(self, known: int) -> Step:
        """See `Cell.stepper`."""
        other_rows = self._rows(known, self.inputs)
        kernel, bias = self._rows(self.inputs), self._bias()
        output_bias = self._cast(self.output_bias)

        def step(
            projected: keras.KerasTensor | None, state: GRUState, others: keras.KerasTensor | None
        ) -> GRUState:
            gates = bias if projected is None else projected
            if others is not None:
                gates = gates + multiply(self._cast(others), other_rows)
            update, reset, new = ops.split(gates, 3, axis=-1)
            from_output = ops.split(multiply(state.output, kernel), 3, axis=-1)
            update = ops.sigmoid(update + from_output[0])
            reset = ops.sigmoid(reset + from_output[1])
            candidate = ops.tanh(new + reset * (from_output[2] + output_bias))
            return GRUState(update * state.output + (1.0 - update) * candidate)

        return step


CELLS: dict[str, type[Cell]] = {"lstm": LSTMCell, "gru": GRUCell}


def run_cell(
    cell: Cell,
    x: keras.KerasTensor,
    mask: keras.KerasTensor | None = None,
    state: Any = None,
    backward: bool = False,
) -> tuple[keras.KerasTensor, Any]:
    """Runs `cell` over a sequence; see `Recurrent.call`."""
    projected = ops.swapaxes(cell.project(x), 0, 1)  # [N, B, gates · D]
    if state is None:
        state = cell.initial_state(ops.zeros_like(projected[0, :, : cell.channels]))
    present = None
    if mask is not None:
        present = ops.cast(ops.swapaxes(mask, 0, 1), projected.dtype)[..., None]  # [N, B, 1]
    outputs, final = cell.scan(projected, state, present, backward)
    output = ops.swapaxes(outputs, 0, 1)  # [B, N, D]
    if mask is not None:
        output = output * ops.cast(mask, output.dtype)[..., None]
    return output, final


def supports_jit(cell: Cell) -> bool:
    """Returns whether XLA can compile a training step with `cell` in a loop of `run_cell`.

    TensorFlow's XLA cannot differentiate a loop of unknown length; `lstm_scan` needs not be.
    """
    own_gradient = isinstance(cell, LSTMCell) and not cell.cells
    return keras.backend.backend() != "tensorflow" or own_gradient


@keras.saving.register_keras_serializable(package="t2t_lite")
class Recurrent(Layer):
    """Runs a cell over sequences, forward or backward.

    The state passes through padding unchanged. So a backward layer starts at each sentence's last
    token, and the final state does not depend on padding on either side.

    Args:
        cell: an `LSTMCell` or a `GRUCell`.
        backward: whether to read from the last token to the first.
        **kwargs: see `Layer`.
    """

    def __init__(self, cell: Cell, backward: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cell = cell
        self.backward = backward
        self.supports_jit = supports_jit(cell)

    def call(
        self,
        x: keras.KerasTensor,
        mask: keras.KerasTensor | None = None,
        initial_state: Any = None,
        x_mask: keras.KerasTensor | None = None,
    ) -> tuple[keras.KerasTensor, Any]:
        """Reads `x` [B, N, inputs].

        Args:
            x: the inputs.
            mask: [B, N], False at padding (default: no padding).
            initial_state: the state before the first token read, [B, D] (default: zeros).
            x_mask: replaces `mask`; so Keras calls the mask of `x` if there is `initial_state`.

        Returns:
            The outputs [B, N, D], each at the position of its input and zero at padding, and the
            state after the last token read, [B, D].
        """
        mask = x_mask if mask is None else mask
        return run_cell(self.cell, x, mask, initial_state, self.backward)

    def step(self, x: keras.KerasTensor, state: Any) -> Any:
        """Maps one position `x` [..., inputs] and the previous state to the next state."""
        return self.cell(x, state)
