"""Hyperparameters of the Universal Transformer, and its registered sets under T2T's names."""

import dataclasses
from typing import ClassVar

from t2t_lite import registry
from t2t_lite.hparams.multi30k import for_multi30k
from t2t_lite.hparams.transformer import (
    TransformerHParams,
    transformer_base,
    transformer_multi30k_prenorm,
    transformer_tiny,
)
from t2t_lite.settings import setting


@dataclasses.dataclass
class UniversalTransformerHParams(TransformerHParams):
    """The Transformer's fields, and those of the recurrence in depth.

    There is one encoder layer and one decoder layer: the numbers of layers play no part.
    """

    of_training: ClassVar[tuple[str, ...]] = (*TransformerHParams.of_training, "act_loss_weight")

    recurrence_type: str = setting(
        "basic",
        "basic: num_rec_steps; act: adaptive computation time (Graves 2016).",
        choices=("basic", "act"),
        group="Universal Transformer",
    )
    num_rec_steps: int = setting(6, "Recurrent steps of basic.", minimum=1)
    act_type: str = setting(
        "basic",
        "Output of act: basic: interpolated; accumulated: the paper's sum.",
        choices=("basic", "accumulated"),
    )
    act_max_steps: int = setting(12, "Maximum number of recurrent steps.", minimum=1)
    act_epsilon: float = setting(
        0.01,
        "A position halts when its probabilities exceed 1 - act_epsilon.",
        minimum=0,
        below=1,
    )
    act_halting_bias_init: float = setting(
        1.0, "Initial bias of the halting probability.", minimum=-100, maximum=100
    )
    act_loss_weight: float = setting(
        0.01, "Weight of the mean steps and remainders in the loss.", minimum=0
    )

    @property
    def encoder_layers(self) -> int:
        """Number of encoder layers: one."""
        return 1

    @property
    def decoder_layers(self) -> int:
        """Number of decoder layers: one."""
        return 1

    @property
    def max_steps(self) -> int:
        """Number of recurrent steps, or the maximum number if they are adaptive."""
        return self.act_max_steps if self.recurrence_type == "act" else self.num_rec_steps


def _universal(hparams: TransformerHParams, num_rec_steps: int = 6) -> UniversalTransformerHParams:
    """Returns a set of the Transformer as one of the Universal Transformer."""
    fields = {field.name: getattr(hparams, field.name) for field in dataclasses.fields(hparams)}
    # Positions are added at every step, not to the embeddings.
    return UniversalTransformerHParams(**{**fields, "pos": "none"}, num_rec_steps=num_rec_steps)


@registry.register_hparams
def universal_transformer_small() -> UniversalTransformerHParams:
    """The layer of `transformer_base`, 6 times."""
    return _universal(transformer_base())


@registry.register_hparams
def universal_transformer_base() -> UniversalTransformerHParams:
    """Twice the width of `transformer_base`, for about as many parameters; 6 steps."""
    return universal_transformer_small().copy(
        hidden_size=1024, filter_size=4096, num_heads=16, layer_prepostprocess_dropout=0.3
    )


@registry.register_hparams
def universal_transformer_big() -> UniversalTransformerHParams:
    """Twice the width of `universal_transformer_base`."""
    return universal_transformer_base().copy(hidden_size=2048, filter_size=8192)


@registry.register_hparams
def universal_transformer_tall() -> UniversalTransformerHParams:
    """The layer of `transformer_base`, 16 times."""
    return universal_transformer_small().copy(num_rec_steps=16)


@registry.register_hparams
def universal_transformer_tiny() -> UniversalTransformerHParams:
    """The layer of `transformer_tiny`, 8 times."""
    return _universal(transformer_tiny(), num_rec_steps=8).copy(act_max_steps=4)


@registry.register_hparams
def adaptive_universal_transformer_base() -> UniversalTransformerHParams:
    """`universal_transformer_base` with adaptive computation time, at most 12 steps."""
    return universal_transformer_base().copy(recurrence_type="act")


@registry.register_hparams
def adaptive_universal_transformer_small() -> UniversalTransformerHParams:
    """`universal_transformer_small` with adaptive computation time, at most 12 steps."""
    return universal_transformer_small().copy(recurrence_type="act")


@registry.register_hparams
def adaptive_universal_transformer_tiny() -> UniversalTransformerHParams:
    """`universal_transformer_tiny` with adaptive computation time, at most 4 steps."""
    return universal_transformer_tiny().copy(recurrence_type="act")


@registry.register_hparams
def universal_transformer_multi30k() -> UniversalTransformerHParams:
    """For 29,000 captions: a layer of `transformer_multi30k_prenorm`, 4 times.

    It does as many operations as that set's 4 layers; see `for_multi30k`.
    """
    small = _universal(transformer_multi30k_prenorm(), num_rec_steps=4).copy(act_max_steps=6)
    return for_multi30k(small, learning_rate=0.003)


@registry.register_hparams
def adaptive_universal_transformer_multi30k() -> UniversalTransformerHParams:
    """`universal_transformer_multi30k` with adaptive computation time, at most 6 steps."""
    return universal_transformer_multi30k().copy(recurrence_type="act")
