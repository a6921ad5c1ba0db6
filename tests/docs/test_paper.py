"""docs/paper.md's table of long runs names what is registered; test_commands.py has the rest."""

from t2t_lite import registry


def test_the_table_of_long_runs_names_what_is_registered(pages):
    lines = pages["paper.md"].text.splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    runs = [row for row in cells if row[0].startswith("EN-") and len(row) == 7]
    assert len(runs) == 4
    for _, _, problem, hparams_set, *_ in runs:
        registry.problem(problem.strip("`"))
        registry.hparams(hparams_set.strip("`"))
