"""The sets of the paper's models hold the values of its tables."""

import pytest

from t2t_lite import registry

_BASE = "transformer_paper_base"


def test_base_is_section_5():
    base = registry.hparams(_BASE).to_dict()
    # Post-norm, one matrix for embeddings and softmax, dropout of sub-layer outputs alone.
    assert (base["layer_preprocess_sequence"], base["layer_postprocess_sequence"]) == (
        "none",
        "dan",
    )
    assert base["shared_embedding_and_softmax_weights"]
    assert (base["attention_dropout"], base["relu_dropout"]) == (0.0, 0.0)
    adam = ("optimizer_adam_beta1", "optimizer_adam_beta2", "optimizer_adam_epsilon")
    assert [base[name] for name in adam] == [0.9, 0.98, 1e-9]
    assert (base["learning_rate_warmup_steps"], base["effective_batch_size"]) == (4000, 25_000)


# N, d_model, d_ff, h, d_k, d_v, P_drop, ε_ls, as Table 3 prints or implies them.
@pytest.mark.parametrize(
    ("row", "sizes"),
    [
        ("base", (6, 512, 2048, 8, 64, 64, 0.1, 0.1)),
        ("a1", (6, 512, 2048, 1, 512, 512, 0.1, 0.1)),
        ("a2", (6, 512, 2048, 4, 128, 128, 0.1, 0.1)),
        ("a3", (6, 512, 2048, 16, 32, 32, 0.1, 0.1)),
        ("a4", (6, 512, 2048, 32, 16, 16, 0.1, 0.1)),
        ("b1", (6, 512, 2048, 8, 16, 64, 0.1, 0.1)),
        ("b2", (6, 512, 2048, 8, 32, 64, 0.1, 0.1)),
        ("c1", (2, 512, 2048, 8, 64, 64, 0.1, 0.1)),
        ("c2", (4, 512, 2048, 8, 64, 64, 0.1, 0.1)),
        ("c3", (8, 512, 2048, 8, 64, 64, 0.1, 0.1)),
        ("c4", (6, 256, 2048, 8, 32, 32, 0.1, 0.1)),
        ("c5", (6, 1024, 2048, 8, 128, 128, 0.1, 0.1)),
        ("c6", (6, 512, 1024, 8, 64, 64, 0.1, 0.1)),
        ("c7", (6, 512, 4096, 8, 64, 64, 0.1, 0.1)),
        ("d1", (6, 512, 2048, 8, 64, 64, 0.0, 0.1)),
        ("d2", (6, 512, 2048, 8, 64, 64, 0.2, 0.1)),
        ("d3", (6, 512, 2048, 8, 64, 64, 0.1, 0.0)),
        ("d4", (6, 512, 2048, 8, 64, 64, 0.1, 0.2)),
        ("e", (6, 512, 2048, 8, 64, 64, 0.1, 0.1)),
        ("big", (6, 1024, 4096, 16, 64, 64, 0.3, 0.1)),
    ],
)
def test_sizes_are_those_of_table_3(row, sizes):
    h = registry.hparams(f"transformer_paper_{row}")
    keys, values = h.key_channels // h.num_heads, h.value_channels // h.num_heads
    assert sizes == (
        *(h.num_hidden_layers, h.hidden_size, h.filter_size, h.num_heads, keys, values),
        *(h.layer_prepostprocess_dropout, h.label_smoothing),
    )
    assert h.pos == ("emb" if row == "e" else "timing")
