"""Holds a model to what another program computes: whatever differs is refused by name."""

import re
from collections.abc import Collection

from t2t_lite.errors import UserError
from t2t_lite.hparams.basic import steps_of_model
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.models.plain_transformer import require_plain
from t2t_lite.models.seq2seq import Seq2Seq

# What other hparams turn on, which are compared themselves, and what is of training alone.
_WITHOUT_EFFECT = re.compile(
    "moe_.*|parameter_attention_.*|max_relative_position|guided_alignment_weight|num_hidden_layers"
)
# The programs add 1e-6 or 1e-5 to a variance. That shows where variances are small: with embeddings
# that are not scaled and learned positions, logits of transformers differ by up to 2e-4.
_LARGEST_EPSILON = 1e-5


def explicit_hparams(model: Seq2Seq, program: str) -> TransformerHParams:
    """Returns the hyperparameters of a plain Transformer, none of which refers to another.

    Args:
        model: any model.
        program: that is to run it, for errors.

    Raises:
        UserError: it is not a plain Transformer.
    """
    h = require_plain(model, program)
    both = model.inputs_embedding is model.targets_embedding
    softmax = model.softmax_embedding is model.targets_embedding
    return h.copy(
        num_encoder_layers=h.encoder_layers,
        num_decoder_layers=h.decoder_layers,
        attention_key_channels=0 if h.key_channels == h.hidden_size else h.key_channels,
        attention_value_channels=0 if h.value_channels == h.hidden_size else h.value_channels,
        layer_final_sequence="n" if "n" in steps_of_model(h.final_sequence) else "none",
        shared_embedding_and_softmax_weights=both and softmax,
        shared_embedding=both and not softmax,
        shared_target_and_softmax_weights=softmax and not both,
    )


def require_same(
    own: TransformerHParams, written: TransformerHParams, program: str, free: Collection[str] = ()
) -> None:
    """Refuses a model that a program would compute otherwise.

    Args:
        own: the model's hyperparameters, explicit. Fields that `written` lacks, of a user's set or
            another model's, have no effect: `require_plain` has checked what the model computes.
        written: those that reading the written settings gives.
        program: for the error.
        free: the names of those that are written otherwise than as settings.

    Raises:
        UserError: a hyperparameter has no counterpart.
    """
    others = written.computed_fields()
    for name, value in own.computed_fields().items():
        is_same = value == others.get(name, value)
        if name in free or _WITHOUT_EFFECT.fullmatch(name) or is_same:
            continue
        if name == "norm_epsilon" and value < _LARGEST_EPSILON:
            continue
        only = getattr(written, name)
        raise UserError(
            f"hparam {name}={getattr(own, name)}: {program} computes only "
            f"{'none' if only == '' else only}; export a SavedModel (--format=savedmodel)"
        )
