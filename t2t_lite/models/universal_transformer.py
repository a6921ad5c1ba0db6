"""The Universal Transformer (Dehghani et al. 2018): the Transformer, recurrent in depth."""

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.universal_transformer import UniversalTransformerHParams
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.layers.universal import AdaptiveSteps, UniversalSteps
from t2t_lite.models.encoder_decoder import Decoder, Encoder
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_parts import TransformerDecoder, TransformerEncoder


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
        run = self._run(self.stack[0], training, mask=mask)
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
        run = self._run(self.stack[0], training, x_mask=mask)
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
