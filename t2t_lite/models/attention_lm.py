"""T2T's attention_lm: the Transformer's decoder alone, as a language model."""

import keras

from t2t_lite.errors import UsageError
from t2t_lite.models.transformer import Transformer


@keras.saving.register_keras_serializable(package="t2t_lite")
class AttentionLM(Transformer):
    """A language model (T2T: `models/research/attention_lm.py`).

    Layers of self-attention to earlier targets and of a feed-forward network: what a `Transformer`
    is without a source. Only its name, and so T2T's sets and commands, differ.

    Examples:
        >>> model = AttentionLM("attention_lm_small", 0, targets_vocab_size=32000)
        >>> logits = model({"inputs": targets[:, :0], "targets": targets})  # [B, T, V]

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        inputs_vocab_size: 0, since there is no source.
        targets_vocab_size: V.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.

    Raises:
        UsageError: the problem has inputs, or an hparam is wrong.
    """

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        if self.has_inputs:
            raise UsageError(
                "attention_lm is a language model, and the problem has inputs, which it would "
                "ignore: use --model=transformer"
            )
        super().make_layers()
