"""The quality of an output, as a translator's encoder and decoder see it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.dense import OutputProjection
from t2t_lite.models.hparams_model import make_embedding
from t2t_lite.models.seq2seq import VocabularyRows
from t2t_lite.models.transformer import TransformerDecoder
from t2t_lite.models.transformer_encoder import weights_of_mean
from t2t_lite.models.transformer_regressor import TransformerRegressor
from t2t_lite.text.text_encoder import EOS_ID


@keras.saving.register_keras_serializable(package="t2t_lite")
class TransformerEstimator(TransformerRegressor):
    """The predictor-estimator of Kim, Lee and Na (2017), with the Transformer as predictor.

    A text is a source, EOS, an output and EOS. Encoder and decoder read the two as a translator
    reads a pair in training. They have a translator's names, so that a warm start takes its
    weights. A number is the mean probability of the output's tokens, to which training adds a
    linear layer's output. That layer reads the means of three kinds of features of the tokens: the
    probability, the log-probability, and the decoder's state times the token's softmax weights,
    element by element, the sum of which is the logit.

    See https://aclanthology.org/W17-4763/.
    """

    reads_translations: ClassVar[bool] = True

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`.

        Raises:
            UsageError: symbols are to be dropped.
        """
        super().make_layers()
        h = self.hparams
        if h.symbol_dropout:
            raise UsageError(
                f"hparam symbol_dropout={h.symbol_dropout}: transformer_estimator needs each token "
                "of an output, whose probability it reads; set symbol_dropout=0"
            )
        self.decoder = TransformerDecoder(
            h, self.targets_embedding, seeds=self.seeds, name=f"{self.name}_decoder"
        )
        self.token_logits = OutputProjection(
            self.softmax_embedding, h.softmax_bias, h.softmax_padding
        )

    @property
    def _width(self) -> int:
        return self.hparams.hidden_size + 2

    @property
    def _gain(self) -> float:
        return 1e-8  # The mean probability is better than anything at random.

    def _make_embeddings(self) -> None:
        """Creates the matrices of a translator: both texts have the vocabulary of the inputs."""
        h, size = self.hparams, self.inputs_vocab_size
        shares_all = h.shared_embedding_and_softmax_weights
        shares = shares_all or h.shared_embedding
        shares_softmax = shares_all or h.shared_target_and_softmax_weights
        self.targets_embedding = make_embedding(h, size)
        self.inputs_embedding = self.targets_embedding if shares else make_embedding(h, size)
        self.softmax_embedding = (
            self.targets_embedding if shares_softmax else make_embedding(h, size)
        )

    def vocabulary_rows(self) -> Iterator[VocabularyRows]:
        """See `Seq2Seq.vocabulary_rows`."""
        yield VocabularyRows("targets_embedding", self.targets_embedding.matrix, "inputs")
        yield from super().vocabulary_rows()
        for weight in self.token_logits.variables:
            yield VocabularyRows(f"output_projection/{weight.name}", weight, "inputs")

    def _outputs(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """See `MeanOfEncoder`; the mean is that over the output."""
        texts = TwoTexts.of(inputs)
        output = texts.second
        memory = self.encoder.encode(texts.first, training)
        states = self.decoder(output, memory, training=training)  # [B, S, D]
        logits = ops.cast(self.token_logits(states), "float32")  # [B, S, V]
        own = ops.take_along_axis(logits, output[..., None], axis=-1)
        log_probs = own - ops.logsumexp(logits, axis=-1, keepdims=True)
        tokens = ops.take(ops.convert_to_tensor(self.softmax_embedding.matrix), output, axis=0)
        products = ops.cast(states, "float32") * ops.cast(tokens, "float32")
        features = ops.concatenate([products, log_probs, ops.exp(log_probs)], axis=-1)
        weights = weights_of_mean(ops.not_equal(output, 0))
        means = ops.sum(features * weights[..., None], axis=1)  # [B, D + 2]
        numbers = means[:, -1:] + self.class_projection(means)
        return numbers, weights_of_mean(texts.is_second)

    def forward_flops(self) -> None:
        """Returns nothing: a token is read by the encoder or the decoder, as its text is."""

    def attention_layers(self) -> Mapping[str, Sequence[MultiHeadAttention]]:
        """Returns the attention of all layers; see `Seq2Seq.attention_layers`."""
        stack = self.decoder.stack
        return {
            **super().attention_layers(),
            "decoder": [attention for layer in stack for attention in layer.self_attentions],
            "encoder_decoder": [
                attention for layer in stack for attention in layer.source_attentions
            ],
        }


class TwoTexts(NamedTuple):
    """Two texts on a line, as a regressor's problem gives them, with EOS between them.

    Attributes:
        first: [B, S], the first text and its EOS, then padding.
        second: [B, S], likewise; padding alone where there is none.
        is_second: [B, S], where the second text stood.
    """

    first: keras.KerasTensor
    second: keras.KerasTensor
    is_second: keras.KerasTensor

    @classmethod
    def of(cls, ids: keras.KerasTensor) -> "TwoTexts":
        """Returns the texts of ids [B, S]."""
        ids = ops.cast(ids, "int32")
        ends = ops.cast(ops.equal(ids, EOS_ID), "int32")
        is_first = ops.equal(ops.cumsum(ends, axis=1) - ends, 0)
        first = ops.where(is_first, ids, 0)
        is_second = ops.logical_and(ops.logical_not(is_first), ops.not_equal(ids, 0))
        # The second text moves to the front.
        size = ops.shape(ids)[1]
        moved = ops.count_nonzero(first, axis=1)[:, None] + ops.arange(size, dtype="int32")
        second = ops.take_along_axis(ids, ops.minimum(moved, size - 1), axis=1)
        return cls(first, ops.where(moved < size, second, 0), is_second)
