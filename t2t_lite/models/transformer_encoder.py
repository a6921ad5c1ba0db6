"""T2T's `transformer_encoder`: a classifier (`models/transformer.TransformerEncoder`).

Its base, `MeanOfEncoder`, is that of the regressor, too.
"""

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import AttentionHook, MultiHeadAttention
from t2t_lite.layers.dense import EXCLUDED, GivenLogits, OutputProjection, Projection
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.hparams_model import make_embedding
from t2t_lite.models.seq2seq import DecodeState, Features, Seq2Seq, VocabularyRows
from t2t_lite.models.transformer import TransformerEncoder
from t2t_lite.text.text_encoder import EOS_ID, RESERVED_TOKENS


class MeanOfEncoder(Seq2Seq):
    """The Transformer's encoder; the mean of its outputs; a linear layer.

    Padding does not count in the mean, unlike T2T's. A subclass says what the outputs of the linear
    layer are to a search: there is one for each id but padding and EOS. EOS follows with certainty.

    Logits are float32 in every dtype: those of ids that cannot occur are `EXCLUDED`.

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        inputs_vocab_size: V of the texts.
        targets_vocab_size: outputs + 2, for padding and EOS.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.

    Raises:
        UsageError: there are no inputs or no outputs, or an hparam is wrong.

    Attributes:
        kind_of_outputs: what the outputs are, for errors.
    """

    hparams_class: ClassVar[type[BasicHParams]] = TransformerHParams
    hparams: TransformerHParams
    kind_of_outputs: ClassVar[str]

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        h = self.hparams
        if h.prepends_inputs:
            raise UsageError(
                f"hparam prepend_mode={h.prepend_mode}: {self.kind_of_outputs} are not text, "
                "so no source can be prepended to them; set it to none"
            )
        outputs = self.targets_vocab_size - len(RESERVED_TOKENS)
        if outputs < 1:
            raise UsageError(
                f"targets_vocab_size={self.targets_vocab_size}: expected the number of "
                f"{self.kind_of_outputs} and 2 more, for padding and EOS"
            )
        self.encoder = TransformerEncoder(
            h, self.inputs_embedding, seeds=self.seeds, name=f"{self.name}_encoder"
        )
        # In float32, as 16 bits would round a number to two or three digits.
        self.class_projection = Projection(
            self._width, (outputs,), self._gain, use_bias=True, dtype="float32"
        )
        self._attention_hook: AttentionHook | None = None

    @property
    def _gain(self) -> float:
        """Scale of the initial variance of the linear layer."""
        return self.hparams.initializer_gain

    @property
    def _width(self) -> int:
        """How many features the linear layer reads."""
        return self.hparams.hidden_size

    def _make_embeddings(self) -> None:
        """Creates one matrix: targets are not embedded."""
        self.inputs_embedding = make_embedding(self.hparams, self.inputs_vocab_size)
        self.targets_embedding = self.softmax_embedding = self.inputs_embedding

    def _make_output_projection(self) -> OutputProjection:
        return GivenLogits()

    def vocabulary_rows(self) -> Iterator[VocabularyRows]:
        """See `Seq2Seq.vocabulary_rows`; an output is a column of the kernel."""
        yield VocabularyRows("inputs_embedding", self.inputs_embedding.matrix, "inputs")
        projection, first = self.class_projection, len(RESERVED_TOKENS)
        axis = 0 if projection.is_transposed else 1
        yield VocabularyRows("class_projection/kernel", projection.kernel, "targets", axis, first)
        yield VocabularyRows("class_projection/bias", projection.bias, "targets", 0, first)

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the logits [B, T, V], which `output_projection` leaves as they are."""
        outputs, weights = self._outputs(features["inputs"], training)
        positions = ops.arange(ops.shape(features["targets"])[1])
        return self._at(outputs, weights, positions)

    def _outputs(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Returns the linear layer's outputs [B, V - 2], and the weights [B, S] of the mean."""
        encoded, _ = self.encoder.encode(inputs, training)
        weights = weights_of_mean(ops.not_equal(inputs, 0))
        mean = ops.sum(ops.cast(encoded, "float32") * weights[..., None], axis=1)  # [B, D]
        return self.class_projection(mean), weights

    @abc.abstractmethod
    def _logits(
        self, outputs: keras.KerasTensor, positions: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Returns the logits [B, N, V - 2] at `positions` [N] of all ids but padding and EOS."""

    @property
    @abc.abstractmethod
    def _length(self) -> int:
        """How many ids each target has, without EOS."""

    def _at(
        self, outputs: keras.KerasTensor, weights: keras.KerasTensor, positions: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Returns logits [B, N, V] at `positions` [N]; arguments as `_outputs` returns them."""
        if self._attention_hook is not None:
            self._attention_hook(weights[:, None] * ops.ones_like(positions, "float32")[:, None])
        logits = self._logits(outputs, positions)
        reserved = ops.full((1, 1, len(RESERVED_TOKENS)), EXCLUDED) + ops.zeros_like(
            logits[..., :1]
        )
        logits = ops.concatenate([reserved, logits], axis=-1)
        ended = ops.where(ops.arange(self.targets_vocab_size) == EOS_ID, 0.0, EXCLUDED)
        return ops.where((positions < self._length)[:, None], logits, ended)

    def forward_flops(self) -> ForwardFlops | None:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        attention = self.attention_layers()["encoder"]
        return ForwardFlops(
            source=flops_per_token(self.encoder.stack),
            target=flops_per_token(self.class_projection),
            source_source=sum(layer.flops_per_pair() for layer in attention),
        )

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks the weights of the mean, which are equal; see `Seq2Seq.hook_attention`."""
        self._attention_hook = hook
        try:
            yield
        finally:
            self._attention_hook = None

    def attention_layers(self) -> Mapping[str, Sequence[MultiHeadAttention]]:
        """Returns the encoder's self-attention; see `Seq2Seq.attention_layers`."""
        layers = self.encoder.stack
        return {"encoder": [attention for layer in layers for attention in layer.self_attentions]}

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Reads `inputs` [B, S]; a hypothesis has nothing of its own."""
        return DecodeState(self._outputs(inputs), ops.zeros((ops.shape(inputs)[0], beams, 0)))

    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        outputs, weights = state.sentence
        return self._at(outputs, weights, ops.full((ids.shape[1],), step)), state


def weights_of_mean(counts: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the weights [B, N], float32, of the mean over the positions that count, [B, N]."""
    present = ops.cast(counts, "float32")
    return present / ops.maximum(ops.sum(present, axis=1, keepdims=True), 1.0)


@keras.saving.register_keras_serializable(package="t2t_lite")
class TransformerClassifier(MeanOfEncoder):
    """The Transformer's encoder; the mean of its outputs; a linear layer to the classes.

    A target is a label and EOS: the first symbol has the distribution of the classes.

    Examples:
        >>> model = TransformerClassifier("transformer_tiny", 8000, targets_vocab_size=2 + 3)
        >>> logits = model({"inputs": texts, "targets": labels})  # [B, 2, 5]
    """

    only_labels: ClassVar[bool] = True
    kind_of_outputs: ClassVar[str] = "classes"
    _length = 1

    def _logits(
        self, outputs: keras.KerasTensor, positions: keras.KerasTensor
    ) -> keras.KerasTensor:
        return outputs[:, None]
