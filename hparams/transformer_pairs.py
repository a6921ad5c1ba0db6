"""Transformers chosen by the number of pairs, where no data set has given its name to a set.

Few pairs need small batches and much dropout: Sennrich and Zhang, "Revisiting Low-Resource Neural
Machine Translation" (ACL 2019), for 5,000 to 160,000 pairs of German and English; Araabi and Monz,
"Optimizing Transformer for Low-Resource Neural Machine Translation" (COLING 2020), for the
Transformer. `t2t_lite/data/generation/choosing.py` says which set is for how many pairs;
docs/choosing.md has what was measured.
"""

from t2t_lite import registry
from t2t_lite.hparams.transformer import (
    TransformerHParams,
    transformer_multi30k2,
    transformer_multi30k_prenorm,
)


@registry.register_hparams
def transformer_pairs5k() -> TransformerHParams:
    """For some 5,000 pairs: `transformer_multi30k2` with batches of a quarter of the size.

    5,000 pairs of short sentences are some 60 batches. The learning rate peaks at 0.003 after 400
    updates and reaches 0 after 4,000, so train with `--train_steps=4000`.
    """
    return transformer_multi30k2().copy(
        batch_size=1024,
        learning_rate_constant=0.003,
        learning_rate_warmup_steps=400,
        learning_rate_decay_steps=3600,
    )


@registry.register_hparams
def transformer_pairs150k() -> TransformerHParams:
    """For some 150,000 pairs: `transformer_multi30k_prenorm` of twice the width, dropout 0.2.

    Half as wide as fairseq's `transformer_iwslt_de_en`, for 160,000 pairs, because of processors
    without a GPU. The learning rate peaks at 0.002 after 2,000 updates and reaches 0 after 20,000,
    so train with `--train_steps=20000`.
    """
    return transformer_multi30k_prenorm().copy(
        hidden_size=256,
        filter_size=1024,
        layer_prepostprocess_dropout=0.2,
        learning_rate_constant=0.002,
        learning_rate_warmup_steps=2000,
        learning_rate_decay_steps=18_000,
    )
