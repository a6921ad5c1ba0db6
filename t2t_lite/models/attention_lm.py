"""T2T's attention_lm: the Transformer's decoder alone, as a language model."""

from typing import Any

import keras

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.models.transformer import Transformer


@keras.saving.register_keras_serializable(package="t2t_lite")
class AttentionLM(Transformer):
    """A language model (T2T: `models/research/attention_lm.py`).

    Layers of self-attention to earlier targets and of a feed-forward network: what a `Transformer`
    is without a source. Only its name, and so T2T's sets and commands, differ. With the hparam
    `prepend_mode` it translates: the decoder reads each source before its target.

    Examples:
        >>> model = AttentionLM("attention_lm_small", 0, targets_vocab_size=32000)
        >>> logits = model({"inputs": targets[:, :0], "targets": targets})  # [B, T, V]

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        inputs_vocab_size: 0, since there is no source; with `prepend_mode`, V.
        targets_vocab_size: V.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.

    Raises:
        UsageError: the problem has inputs, or an hparam is wrong.
    """

    def __init__(
        self,
        hparams: BasicHParams | str,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(hparams, 0, targets_vocab_size, **kwargs)
        self.require_reader(inputs_vocab_size)
