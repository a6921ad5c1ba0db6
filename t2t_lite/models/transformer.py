"""The Transformer (Vaswani et al. 2017), in its post-norm and pre-norm forms."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import AttentionHook, MultiHeadAttention, padding_bias
from t2t_lite.layers.base import Stack
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.prepended import joined, target_part
from t2t_lite.models.seq2seq import DecodeState, Features, Seq2Seq
from t2t_lite.models.transformer_parts import TransformerDecoder, TransformerEncoder


@keras.saving.register_keras_serializable(package="t2t_lite")
class Transformer(Seq2Seq):
    """Encoder and decoder stacks of attention and feed-forward layers.

    Without a source it is a language model, as in T2T: the decoder alone, whose layers have no
    attention to a source. `inputs` are then [B, 0].

    With the hparam `prepend_mode`, the decoder reads the source, too, before the target:
    `models/prepended.py`. `hidden` takes such joined targets, a call takes sources and targets.

    Examples:
        >>> model = Transformer(
        ...     "transformer_base",
        ...     inputs_vocab_size=32000,
        ...     targets_vocab_size=32000,
        ...     num_hidden_layers=3,
        ... )
        >>> logits = model({"inputs": inputs, "targets": targets})  # [B, T, V]

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source; 0: a language model.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = TransformerHParams
    hparams: TransformerHParams
    encoder_class: ClassVar[type[TransformerEncoder]] = TransformerEncoder
    decoder_class: ClassVar[type[TransformerDecoder]] = TransformerDecoder
    can_lack_inputs: ClassVar[bool] = True

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        if self.hparams.prepends_inputs and self.has_inputs:
            require_one_vocabulary(self.inputs_vocab_size, self.targets_vocab_size)
        if not self.has_inputs:
            self.encoder_layers = Stack(())
            self.decoder_class.add_layers(self)
            return
        # Not part by part: the optimizer's state in a checkpoint is in this order.
        make = self.encoder_class.sublayers(self)
        self.inputs_position = make.position()
        self.targets_position = make.position()
        self.dropout = make.dropout()
        self.encoder_layers = make.encoder_layers()
        self.decoder_layers = make.decoder_layers()
        self.encoder_end = make.end()
        self.decoder_end = make.end()
        self.target_space = make.target_space()

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Encodes `inputs` [B, S]; returns [B, S, D] and the padding bias [B, 1, 1, S]."""
        if not self.has_inputs:
            nothing = ops.zeros((*ops.shape(inputs), self.hparams.hidden_size), self.compute_dtype)
            return nothing, padding_bias(inputs)
        return self._encoder_view.encode(inputs, training)

    def decode(
        self,
        targets: keras.KerasTensor,
        encoder_output: keras.KerasTensor,
        padding: keras.KerasTensor,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Maps `targets` [B, T] to [B, T, D], given the results of `encode`."""
        return self._decoder_view.decode(targets, encoder_output, padding, training)

    def call(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns logits [B, T, V]; see `Seq2Seq.call`."""
        if not self.hparams.prepends_inputs:
            return super().call(features, training=training)
        self._require_sides(features)
        places = ops.arange(ops.shape(features["targets"])[1])
        return self._logits_of_targets(
            self._with_dropped_symbols(features, training), places, training
        )

    def _logits_of_targets(
        self, features: Features, places: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        """Returns the logits [B, N, V] at `places` [N] of the targets, which follow the inputs."""
        inputs, targets = features["inputs"], features["targets"]
        whole = self.hidden({"inputs": inputs, "targets": joined(inputs, targets)}, training)
        return self.output_projection(target_part(whole, inputs, places))

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D]."""
        encoder_output, padding = self.encode(features["inputs"], training)
        return self.decode(features["targets"], encoder_output, padding, training)

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        layers = self.attention_layers()
        own, of_target, of_source = (
            layers.get(kind, ()) for kind in ("encoder", "decoder", "encoder_decoder")
        )
        # The decoder's layers compute keys and values of the source, but per source token.
        memory = sum(flops_per_token(attention.kv) for attention in of_source)
        softmax = flops_per_token(self.softmax_embedding)
        return ForwardFlops(
            source=flops_per_token(self.encoder_layers) + memory,
            target=flops_per_token(self.decoder_layers) - memory + softmax,
            source_source=sum(attention.flops_per_pair() for attention in own),
            target_source=sum(attention.flops_per_pair() for attention in of_source),
            target_target=sum(attention.flops_per_pair() for attention in of_target),
        )

    @property
    def has_source_attention(self) -> bool:
        """See `Seq2Seq.has_source_attention`; prepended sources are read in two ways."""
        return super().has_source_attention and not self.hparams.prepends_inputs

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks the last layer's attention to the source; see `Seq2Seq.hook_attention`."""
        if not self.has_inputs:
            raise UsageError("a language model has no source to attend to")
        if self.hparams.prepends_inputs:
            raise UsageError(
                f"hparam prepend_mode={self.hparams.prepend_mode}: the attention to the source is "
                "not available, since the decoder reads the source, too"
            )
        attention = self.decoder_layers[-1].source_attention
        attention.attention_hook = lambda weights: hook(
            ops.mean(ops.cast(weights, "float32"), axis=1)
        )
        try:
            yield
        finally:
            attention.attention_hook = None

    def attention_layers(self) -> Mapping[str, Sequence[MultiHeadAttention]]:
        """Returns the attention of all layers; see `Seq2Seq.attention_layers`."""
        encoder, decoder = self.encoder_layers, self.decoder_layers
        kinds = {
            "encoder": [attention for layer in encoder for attention in layer.self_attentions],
            "decoder": [attention for layer in decoder for attention in layer.self_attentions],
            "encoder_decoder": [
                attention for layer in decoder for attention in layer.source_attentions
            ],
        }
        return {kind: layers for kind, layers in kinds.items() if layers}

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S] and computes keys and values of the source once."""
        if self.hparams.prepends_inputs:
            none = ops.zeros((ops.shape(inputs)[0], beams, length), "int32")
            return DecodeState(sentence=inputs, hypothesis=none)
        encoder_output, padding = self.encode(inputs)
        batch = ops.shape(inputs)[0]
        return DecodeState(
            sentence={
                "memory": [layer.memory(encoder_output) for layer in self.decoder_layers],
                "padding": padding,
            },
            hypothesis=[layer.empty_cache(batch, beams, length) for layer in self.decoder_layers],
            weights=self.output_projection.kernel(),
        )

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Lengthens every cache to `length` positions."""
        if self.hparams.prepends_inputs:
            missing = length - ops.shape(state.hypothesis)[2]
            return state._replace(
                hypothesis=ops.pad(state.hypothesis, [[0, 0], [0, 0], [0, missing]])
            )
        return state._replace(hypothesis=[cache.grown(length) for cache in state.hypothesis])

    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        if self.hparams.prepends_inputs:
            return self._recomputed_step(ids, step, state)
        # All beams [B, K, D] of a sentence are at the same position.
        x = self.targets_position(self._embed_step(ids, step), ops.reshape(step, (1,)))
        x, caches = self._step_layers(x, step, state)
        logits = self.output_projection(self.decoder_end(x, x), state.weights)
        return logits, state._replace(hypothesis=caches)

    def _recomputed_step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step without a cache: `state.hypothesis` has the targets [B, K, L] so far.

        Sources have different lengths, so that targets of one step are at different positions.
        """
        inputs, beams, length = state.sentence, ids.shape[1], ops.shape(state.hypothesis)[2]
        is_last = ops.equal(ops.arange(length), step - 1)  # [L]; nowhere at step 0
        targets = ops.where(is_last, ids[..., None], state.hypothesis)  # [B, K, L]
        features = {
            "inputs": ops.repeat(inputs, beams, axis=0),  # [B·K, S]
            "targets": ops.reshape(targets, (-1, length)),
        }
        logits = self._logits_of_targets(features, ops.reshape(step, (1,)))  # [B·K, 1, V]
        logits = ops.reshape(logits, (-1, beams, self.targets_vocab_size))
        return logits, state._replace(hypothesis=targets)

    def _step_layers(
        self, x: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, list[Any]]:
        """Runs one position `x` [B, K, D] through all layers; returns it and their caches."""
        padding = state.sentence["padding"]
        caches = []
        for layer, cache, memory in zip(
            self.decoder_layers, state.hypothesis, state.sentence["memory"], strict=True
        ):
            x, cache = layer.step(x, cache, step, memory, padding)
            caches.append(cache)
        return x, caches


def require_one_vocabulary(inputs_vocab_size: int, targets_vocab_size: int) -> None:
    """Raises UsageError if a decoder could not read sources, whose ids have another meaning."""
    if inputs_vocab_size != targets_vocab_size:
        raise UsageError(
            f"hparam prepend_mode: source and target need one vocabulary, and have "
            f"{inputs_vocab_size} and {targets_vocab_size} ids: share it, or set prepend_mode=none"
        )
