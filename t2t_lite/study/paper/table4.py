"""Table 4, and the problems and sets that train its Transformers."""

from t2t_lite.study.paper.parameter_counts import count
from t2t_lite.study.paper.published import TABLE_4, Parser
from t2t_lite.study.paper.table import CellValue, Column, Table

# Problem, hparams set and vocabulary size of each Transformer, by its training data (section 6.3).
_HERE = {
    "WSJ only, discriminative": ("parsing_wsj_16k", "transformer_paper_parsing", 16_000),
    "semi-supervised": ("parsing_wsj_semi_32k", "transformer_paper_parsing_semi", 32_000),
}


def published_parser(problem: str) -> Parser:
    """Returns the paper's Transformer for a problem; for other treebanks, the WSJ-only one."""
    transformers = [row for row in TABLE_4 if _is_transformer(row)]
    return next((row for row in transformers if _HERE[row.training][0] == problem), transformers[0])


def _is_transformer(row: Parser) -> bool:
    return row.name.startswith("Transformer")


def table() -> Table:
    """Returns Table 4, with the size of the Transformers and what trains them here."""
    command = "t2t-paper --table=4"
    rows: list[list[CellValue]] = []
    for row in TABLE_4:
        problem, hparams_set, vocabulary = (
            _HERE[row.training] if _is_transformer(row) else ("", "", 0)
        )
        parameters = count(hparams_set).at(vocabulary) / 1e6 if vocabulary else None
        rows.append([row.name, row.training, row.f1, parameters, problem, hparams_set])
    columns = [
        Column("parser"),
        Column("training"),
        Column("F1", "published", ".1f"),
        Column("parameters 10⁶", "computed", ".1f", command),
        Column("problem"),
        Column("hparams_set"),
    ]
    notes = [
        "Parameters: with 16,000 and 32,000 subwords in one vocabulary. The problems here have one "
        "of words and another of symbols, so that three matrices take its place.",
        "F1 here: t2t-trainer --problem=PROBLEM --model=transformer --hparams_set=HPARAMS_SET, "
        "then t2t-decoder --decode_hparams=beam_size=21,alpha=0.3,extra_length=300 "
        "--eval_use_test_set; docs/paper.md has the whole commands. t2t-paper "
        "--table=parsing-search chooses dropout, learning rate and beam.",
    ]
    return Table("Table 4: WSJ, section 23", columns, rows, notes)
