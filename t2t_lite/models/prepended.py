"""Source and target as one sequence: T2T's `prepend_mode`.

The decoder reads the source, a separator with id 0, and the target. With masked attention it learns
to predict all of them; with full attention, where each position of the source sees all of it, the
target alone. Evaluation, scoring and search see the target's part alone, so that whatever uses the
model meets sources and targets as ever.
"""

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import MASKED
from t2t_lite.models.hparams_model import DecodeState
from t2t_lite.models.seq2seq import EncoderDecoder, Features
from t2t_lite.names import snake_case


def joined(inputs: keras.KerasTensor, targets: keras.KerasTensor) -> keras.KerasTensor:
    """Returns each source [B, S], the separator and its target [B, T] in a row: [B, S + 1 + T].

    A source's padding moves to the end of its row.
    """
    length = ops.shape(inputs)[1]
    whole = ops.pad(
        ops.concatenate([inputs, ops.zeros_like(inputs[:, :1]), targets], axis=1),
        [[0, 0], [0, length]],
    )  # [B, S + 1 + T + S]
    start = target_start(inputs)[:, None]
    places = ops.arange(length + 1 + ops.shape(targets)[1])[None, :]
    padding = ops.where(places < start, 0, length + 1 - start)
    return ops.take_along_axis(whole, places + padding, axis=1)


def target_start(inputs: keras.KerasTensor) -> keras.KerasTensor:
    """Returns where the targets of sources [B, S] start in `joined`, [B]."""
    return ops.cast(ops.count_nonzero(inputs, axis=1), "int32") + 1


def target_part(
    x: keras.KerasTensor, inputs: keras.KerasTensor, places: keras.KerasTensor
) -> keras.KerasTensor:
    """Returns what `x` [B, S + 1 + T, D], computed from `joined`, has at places of the targets.

    Args:
        x: one vector for each position.
        inputs: [B, S].
        places: [N], counted from the targets' start.

    Returns:
        [B, N, D].
    """
    places = target_start(inputs)[:, None] + places[None, :]  # [B, N]
    return ops.take_along_axis(x, places[..., None], axis=1)


def full_attention_bias(ids: keras.KerasTensor) -> keras.KerasTensor:
    """Returns a bias [B, 1, L, L]: positions see the source's part, and earlier ones of the target.

    Args:
        ids: [B, L], of `joined`.
    """
    is_separator = ops.cast(ops.equal(ids, 0), "int32")
    in_target = ops.cumsum(is_separator, axis=1) - is_separator  # 0 up to the separator
    place = ops.cumsum(in_target, axis=1)  # grows with each position of the target
    hidden = place[:, None, :] > place[:, :, None]  # [B, query, key]
    return ops.where(hidden, MASKED, 0.0)[:, None]


def require_one_vocabulary(inputs_vocab_size: int, targets_vocab_size: int) -> None:
    """Raises UsageError if a decoder could not read sources, whose ids have another meaning."""
    if inputs_vocab_size != targets_vocab_size:
        raise UsageError(
            f"hparam prepend_mode: source and target need one vocabulary, and have "
            f"{inputs_vocab_size} and {targets_vocab_size} ids: share it, or set prepend_mode=none"
        )


class MayPrepend(EncoderDecoder):
    """Base of models that obey the hparam `prepend_mode`.

    A call takes sources and targets. With masked attention, `hidden` takes joined targets, all of
    which training predicts.
    """

    hparams: TransformerHParams

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        if self.hparams.prepends_inputs and self.has_inputs:
            require_one_vocabulary(self.inputs_vocab_size, self.targets_vocab_size)
        super().make_layers()

    def require_reader(self, inputs_vocab_size: int) -> None:
        """Raises UsageError if a model without an encoder would ignore or misread sources."""
        if inputs_vocab_size and not self.hparams.prepends_inputs:
            raise UsageError(
                f"{snake_case(type(self).__name__)} is a language model, and the problem has "
                "inputs, which it would ignore: use --model=transformer, or --hparams=prepend_mode="
                "prepend_inputs_masked_attention"
            )
        if inputs_vocab_size:
            require_one_vocabulary(inputs_vocab_size, self.targets_vocab_size)

    @property
    def takes_inputs(self) -> bool:
        """Whether a call takes sources: for an encoder, or prepended to the targets."""
        return super().takes_inputs or self.hparams.prepends_inputs

    def call(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns logits [B, T, V]; see `Seq2Seq.call`."""
        if not self.hparams.prepends_inputs:
            return super().call(features, training=training)
        self._require_sides(features)
        features = self.with_dropped_symbols(features, training)
        return self.output_projection(self._hidden_of_targets(features, training=training))

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """See `Seq2Seq.hidden`."""
        if self.hparams.predicts_inputs or not self.hparams.prepends_inputs:
            return super().hidden(features, training=training)
        return self._hidden_of_targets(features, training=training)

    def _hidden_of_targets(
        self, features: Features, places: keras.KerasTensor | None = None, training: bool = False
    ) -> keras.KerasTensor:
        """Returns `hidden` [B, N, D] at `places` [N] of the targets (default: all)."""
        inputs, targets = features["inputs"], features["targets"]
        whole = {"inputs": inputs, "targets": joined(inputs, targets)}
        places = ops.arange(ops.shape(targets)[1]) if places is None else places
        return target_part(super().hidden(whole, training=training), inputs, places)

    @property
    def has_source_attention(self) -> bool:
        """See `Seq2Seq.has_source_attention`; prepended sources are read in two ways."""
        return super().has_source_attention and not self.hparams.prepends_inputs

    def _require_source(self) -> None:
        super()._require_source()
        if self.hparams.prepends_inputs:
            raise UsageError(
                f"hparam prepend_mode={self.hparams.prepend_mode}: the attention to the source is "
                "not available, since the decoder reads the source, too"
            )

    @property
    def can_narrow(self) -> bool:
        """See `Seq2Seq.can_narrow`."""
        return super().can_narrow and not self.hparams.prepends_inputs

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """See `Seq2Seq.start_decoding`; without a cache, a hypothesis has its targets [B, K, L]."""
        if not self.hparams.prepends_inputs:
            return super().start_decoding(inputs, beams, length)
        none = ops.zeros((ops.shape(inputs)[0], beams, length), "int32")
        return DecodeState(sentence=inputs, hypothesis=none)

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """See `Seq2Seq.grow`."""
        if not self.hparams.prepends_inputs:
            return super().grow(state, length)
        missing = length - ops.shape(state.hypothesis)[2]
        return state._replace(hypothesis=ops.pad(state.hypothesis, [[0, 0], [0, 0], [0, missing]]))

    def decode_step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """See `Seq2Seq.decode_step`; with prepended sources, everything is computed again.

        Sources have different lengths, so that targets of one step are at different positions.
        """
        if not self.hparams.prepends_inputs:
            return super().decode_step(ids, step, state)
        inputs, beams, length = state.sentence, ids.shape[1], ops.shape(state.hypothesis)[2]
        is_last = ops.equal(ops.arange(length), step - 1)  # [L]; nowhere at step 0
        targets = ops.where(is_last, ids[..., None], state.hypothesis)  # [B, K, L]
        features = {
            "inputs": ops.repeat(inputs, beams, axis=0),  # [B·K, S]
            "targets": ops.reshape(targets, (-1, length)),
        }
        hidden = self._hidden_of_targets(features, ops.reshape(step, (1,)))  # [B·K, 1, D]
        logits = self.output_projection(ops.reshape(hidden, (-1, beams, hidden.shape[-1])))
        return logits, state._replace(hypothesis=targets)
