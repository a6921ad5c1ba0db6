"""Table 3: the variations, their published results, and their hparams sets here."""

from t2t_lite import registry
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.study.paper.parameter_counts import best_vocabulary, count
from t2t_lite.study.paper.published import TABLE_3, VOCABULARY, Variation
from t2t_lite.study.paper.table import CellValue, Column, Table


def table() -> Table:
    """Returns Table 3 with the sizes of every row's hparams set."""
    command, best = "t2t-paper --table=3", best_vocabulary()
    sizes = [
        Column(name, "computed", "g", command)
        for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "ε_ls")
    ]
    columns = [
        Column("variation"),
        *sizes,
        Column("steps", "published", ",d"),
        Column("PPL", "published", ".2f"),
        Column("BLEU", "published", ".1f"),
        Column("10⁶", "published", "g"),
        Column(f"10⁶, V={VOCABULARY:,}", "computed", ".1f", command),
        Column(f"10⁶, V={best:,}", "computed", ".1f", command),
        Column("hparams_set"),
    ]
    notes = [
        "Sizes: from the hparams set. PPL and BLEU here: t2t-paper --table=3 --scale=full trains "
        "all rows, t2t-trainer --hparams_set=HPARAMS_SET one of them; docs/paper.md has the "
        "full commands."
    ]
    return Table("Table 3: variations", columns, [_row(row, best) for row in TABLE_3], notes)


def _row(row: Variation, best: int) -> list[CellValue]:
    h = registry.hparams(row.hparams_set)
    assert isinstance(h, TransformerHParams)
    counted = count(row.hparams_set)
    return [
        row.label,
        h.num_hidden_layers,
        h.hidden_size,
        h.filter_size if h.ffn_layer == "dense_relu_dense" else None,
        h.num_heads,
        h.key_channels // h.num_heads,
        h.value_channels // h.num_heads,
        h.layer_prepostprocess_dropout,
        h.label_smoothing,
        row.steps,
        row.perplexity,
        row.bleu,
        row.parameters,
        counted.at(VOCABULARY) / 1e6,
        counted.at(best) / 1e6,
        row.hparams_set,
    ]
