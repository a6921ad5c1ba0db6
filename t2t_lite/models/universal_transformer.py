"""The Universal Transformer (Dehghani et al. 2018): the Transformer, recurrent in depth."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.universal_transformer import UniversalTransformerHParams
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.layers.auxiliary_losses import AuxiliaryLayer, Statistics
from t2t_lite.layers.base import Layer
from t2t_lite.layers.dense import unit_scaling
from t2t_lite.layers.transformer_layers import sinusoids
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.hparams_model import Decoder, Encoder
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.models.transformer import Transformer, TransformerDecoder, TransformerEncoder

# Maps the state [B, N, D] at a recurrent step, counted from 0, to the next one [B, N, D].
Transformation = Callable[[keras.KerasTensor, int], keras.KerasTensor]


class Pondering(NamedTuple):
    """What adaptive computation time spends on each position (Graves 2016, section 2)."""

    times: keras.KerasTensor  # [B, N], number of steps until the position halts (N(t))
    remainders: keras.KerasTensor  # [B, N], weight of the step at which it halts (R(t))


@keras.saving.register_keras_serializable(package="t2t_lite")
class UniversalSteps(Layer):
    """Applies a transformation a fixed number of times, with signals of position and step.

    As in T2T, the signals are added to the state before every step and stay in it.

    Args:
        channels: D.
        steps: number of recurrent steps.
        **kwargs: see `Layer`.
    """

    def __init__(self, channels: int, steps: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.steps = steps
        self.step_signals = self.add_weight(
            shape=(steps, channels),
            initializer=keras.initializers.RandomNormal(stddev=channels**-0.5),
            name="step_signals",
            autocast=False,  # signals are added up in float32
            precise=True,
        )

    def call(
        self,
        x: keras.KerasTensor,
        positions: keras.KerasTensor | None = None,
        *,
        transform: Transformation,
        training: bool = False,
        mask: keras.KerasTensor | None = None,
        x_mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, D] to [B, N, D].

        Args:
            x: the state before the first step.
            positions: [N], counted from 0 (default: 0 to N - 1).
            transform: the transformation.
            training: whether to pass on statistics for auxiliary losses, if the layer has any.
            mask: [B, N], False at padding, which statistics leave out; Keras passes that of `x`.
            x_mask: replaces `mask`; so Keras calls the mask of `x` if there are `positions`.
        """
        for step in range(self.steps):
            x = transform(self.with_signals(x, step, positions), step)
        return x

    def with_signals(
        self, x: keras.KerasTensor, step: int, positions: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Adds sinusoids of the positions, and √D times the step's learned vector, to the state.

        Args:
            x: [B, N, D].
            step: the step's number, from 0.
            positions: [N], counted from 0 (default: 0 to N - 1).
        """
        if positions is None:
            positions = ops.arange(ops.shape(x)[1])
        signals = sinusoids(positions, self.channels)  # [N, D]
        signals += self.step_signals[step] * self.channels**0.5
        return x + ops.cast(signals, x.dtype)[None]


class _Halting(NamedTuple):
    """The state of adaptive computation time between steps; each [B, N], float32."""

    running: keras.KerasTensor  # 1 where the position has not halted
    probability: keras.KerasTensor  # sum of the halting probabilities so far
    pondering: Pondering


@keras.saving.register_keras_serializable(package="t2t_lite")
class AdaptiveSteps(UniversalSteps, AuxiliaryLayer):
    """Recurrent steps with adaptive computation time (Graves 2016), for each position on its own.

    A position halts at the step at which its halting probabilities add up to more than 1 - ε.
    The output mixes the states after all steps; a step's weight is its halting probability, that
    of the halting step the remainder to 1. As in T2T, a position that has halted goes on being
    transformed, because others may attend to it; only its output stays. Hence a position's output
    depends neither on when others halt nor on the batch. All steps are computed, which gives the
    same results as T2T's loop, which ends when the whole batch has halted.

    The auxiliary loss `act` is the mean over tokens of the number of steps plus the remainder
    (Graves 2016, equation 12). T2T's mean includes padding.

    Args:
        channels: D.
        steps: maximum number of steps.
        accumulate: whether the output is the sum of the weighted states, as in the paper (T2T's
            `act_type=accumulated`), rather than T2T's `basic`: `w · state + (1 - w) · output`.
        epsilon: ε.
        bias: initial bias of the halting probability.
        gain: scale of the initial variance.
        loss_weight: weight of the auxiliary loss.
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        channels: int,
        steps: int,
        *,
        accumulate: bool = False,
        epsilon: float = 0.01,
        bias: float = 1.0,
        gain: float = 1.0,
        loss_weight: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(channels, steps, **kwargs)
        self.accumulate = accumulate
        self.epsilon = epsilon
        self.bias = bias
        self.gain = gain
        self.loss_weight = loss_weight
        self.kernel = self.add_weight(
            shape=(channels, 1),
            initializer=unit_scaling(gain),
            name="kernel",
            autocast=False,
            precise=True,
        )
        self.halting_bias = self.add_weight(
            shape=(1,),
            initializer=keras.initializers.Constant(bias),
            name="halting_bias",
            autocast=False,
        )

    def call(
        self,
        x: keras.KerasTensor,
        positions: keras.KerasTensor | None = None,
        *,
        transform: Transformation,
        training: bool = False,
        mask: keras.KerasTensor | None = None,
        x_mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, D] to [B, N, D]; see `UniversalSteps.call`."""
        output, (times, remainders) = self.ponder(x, positions, transform=transform)
        if training:
            mask = x_mask if mask is None else mask
            real = ops.ones_like(times) if mask is None else ops.cast(mask, "float32")
            cost = ops.sum((times + remainders) * real)
            self.add_statistics({"cost": cost, "tokens": ops.sum(real)})
        return output

    @property
    def statistics_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """See `AuxiliaryLayer`; what the tokens cost, and their number."""
        return {"cost": (), "tokens": ()}

    def auxiliary_losses(self, sums: Statistics) -> dict[str, keras.KerasTensor]:
        """Returns the loss `act`; see `AuxiliaryLayer`."""
        return {"act": self.loss_weight * sums["cost"] / ops.maximum(sums["tokens"], 1.0)}

    def ponder(
        self,
        x: keras.KerasTensor,
        positions: keras.KerasTensor | None = None,
        *,
        transform: Transformation,
    ) -> tuple[keras.KerasTensor, Pondering]:
        """As a call; returns the output [B, N, D] and what it took."""
        output = ops.zeros_like(x)
        zeros = ops.zeros(ops.shape(x)[:-1], "float32")
        halting = _Halting(zeros + 1.0, zeros, Pondering(zeros, zeros))
        for step in range(self.steps):
            x = self.with_signals(x, step, positions)
            halting, weights = self._halt(x, halting)
            x = transform(x, step)
            weights = ops.cast(weights, x.dtype)[..., None]  # [B, N, 1]
            output = x * weights + (output if self.accumulate else output * (1.0 - weights))
        return output, halting.pondering

    def _halt(self, x: keras.KerasTensor, before: _Halting) -> tuple[_Halting, keras.KerasTensor]:
        """Decides which positions of the state [B, N, D] halt; returns the step's weights [B, N].

        In float32, whatever the dtype of `x`: sums of bfloat16 numbers miss the threshold.
        """
        score = ops.matmul(ops.cast(x, "float32"), ops.convert_to_tensor(self.kernel))[..., 0]
        chance = ops.sigmoid(score + self.halting_bias)  # [B, N]
        total = before.probability + chance
        running = before.running * ops.cast(total <= 1.0 - self.epsilon, "float32")
        halts = before.running - running
        remainders = before.pondering.remainders + halts * (1.0 - before.probability)
        pondering = Pondering(before.pondering.times + before.running, remainders)
        weights = chance * running + remainders * halts
        probability = before.probability + chance * running
        return _Halting(running, probability, pondering), weights


def _steps(h: UniversalTransformerHParams) -> UniversalSteps:
    """Makes the recurrent steps of one stack."""
    if h.recurrence_type == "basic":
        return UniversalSteps(h.hidden_size, h.num_rec_steps)
    return AdaptiveSteps(
        h.hidden_size,
        h.act_max_steps,
        accumulate=h.act_type == "accumulated",
        epsilon=h.act_epsilon,
        bias=h.act_halting_bias_init,
        gain=h.initializer_gain,
        loss_weight=h.act_loss_weight,
    )


@keras.saving.register_keras_serializable(package="t2t_lite")
class UniversalEncoder(TransformerEncoder):
    """The encoder: ids [B, S] -> [B, S, D]; see `TransformerEncoder`."""

    hparams_class: ClassVar[type[BasicHParams]] = UniversalTransformerHParams
    hparams: UniversalTransformerHParams

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        super().make_layers()
        self.steps = _steps(self.hparams)

    def _run_layers(
        self,
        x: keras.KerasTensor,
        padding: keras.KerasTensor,
        mask: keras.KerasTensor,
        training: bool,
    ) -> keras.KerasTensor:
        run = self._run(self.stack[0], training, mask)
        return self.steps(
            x, transform=lambda y, step: run(y, padding), training=training, mask=mask
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class UniversalDecoder(TransformerDecoder):
    """The decoder: ids [B, T] and the encoder's output -> [B, T, D]; see `TransformerDecoder`."""

    hparams_class: ClassVar[type[BasicHParams]] = UniversalTransformerHParams
    hparams: UniversalTransformerHParams

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        super().make_layers()
        self.steps = _steps(self.hparams)

    def _run_layers(
        self,
        x: keras.KerasTensor,
        encoder_output: keras.KerasTensor,
        causal: keras.KerasTensor,
        padding: keras.KerasTensor,
        mask: keras.KerasTensor,
        training: bool,
    ) -> keras.KerasTensor:
        run = self._run(self.stack[0], training, mask)
        memory = self.stack[0].memory(encoder_output)  # the same at every step
        return self.steps(
            x,
            transform=lambda y, step: run(y, memory, causal, padding),
            training=training,
            mask=mask,
        )

    def start(self, memory: Any, beams: int, length: int) -> DecodeState:
        """Gives every recurrent step a cache of its own; see `Decoder.start`."""
        state = super().start(memory, beams, length)
        return state._replace(hypothesis=state.hypothesis * self.hparams.max_steps)

    def _step_layers(
        self, x: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, list[Any]]:
        (layer,), (memory,) = self.stack, state.sentence["memory"]
        caches = []

        def transform(y: keras.KerasTensor, number: int) -> keras.KerasTensor:
            y, cache = layer.step(
                y, state.hypothesis[number], step, memory, state.sentence["padding"]
            )
            caches.append(cache)
            return y

        x = self.steps(x, ops.reshape(step, (1,)), transform=transform)
        return x, caches


@keras.saving.register_keras_serializable(package="t2t_lite")
class UniversalTransformer(Transformer):
    """One encoder layer and one decoder layer, each applied again and again.

    Signals of position and step are added before every step. With `recurrence_type=act`, each
    position halts on its own (`AdaptiveSteps`). T2T has no cached decoding of this model; here, a
    step of the search keeps keys and values for every recurrent step.

    Args:
        hparams: a `UniversalTransformerHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = UniversalTransformerHParams
    hparams: UniversalTransformerHParams
    encoder_class: ClassVar[type[Encoder]] = UniversalEncoder
    decoder_class: ClassVar[type[Decoder]] = UniversalDecoder
    can_lack_inputs: ClassVar[bool] = False

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        for name in ("prepend_mode", "pos"):  # positions are added at every step
            if (value := getattr(self.hparams, name)) != "none":
                raise UsageError(f"hparam {name}={value}: expected none in this model")
        super().make_layers()

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass, adaptive steps at their maximum number."""
        once = super().forward_flops()
        steps = self.hparams.max_steps
        softmax = flops_per_token(self.softmax_embedding)
        memory = flops_per_token(self.decoder.stack[0].source_attention.kv)
        halting = 2.0 * self.hparams.hidden_size if self.hparams.recurrence_type == "act" else 0.0
        return ForwardFlops(
            source=(once.source - memory + halting) * steps + memory,
            target=(once.target - softmax + halting) * steps + softmax,
            **{
                name: getattr(once, name) * steps
                for name in ("source_source", "target_source", "target_target")
            },
        )

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks the last recurrent step's attention to the source; see `Seq2Seq`."""
        calls = 0

        def at_last_step(weights: keras.KerasTensor) -> None:
            nonlocal calls
            calls += 1
            if calls % self.hparams.max_steps == 0:
                hook(weights)

        with super().hook_attention(at_last_step):
            yield
