"""What the sets for Multi30k, 29,000 captions, have in common."""

from typing import TypeVar

from t2t_lite.hparams.basic import BasicHParams

_HParams = TypeVar("_HParams", bound=BasicHParams)


def for_multi30k(hparams: _HParams, learning_rate: float) -> _HParams:
    """Returns the hparams with the batches and the optimizer of `transformer_multi30k`.

    Args:
        hparams: a model's, with its sizes and its dropout.
        learning_rate: the peak, after 300 updates; then the rate falls with the inverse square
            root of the step. The peak comes early because many models are slow: on one CPU core,
            20 minutes are some 1,000 updates.
    """
    return hparams.copy(
        shared_embedding_and_softmax_weights=True,
        optimizer_adam_beta2=0.98,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="constant*linear_warmup*rsqrt_normalized_decay",
        learning_rate_constant=learning_rate,
        learning_rate_warmup_steps=300,
        batch_shuffle_size=64,
    )
