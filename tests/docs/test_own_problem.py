"""The problem on the page about extending is ranked by a metric that fits it."""

import pyarrow as pa
import pyarrow.parquet as pq

from support.registries import restored
from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.metrics.by_name import score_by_metrics


def test_perfect_outputs_have_the_best_score(pages):
    """BLEU counts four words in a row, so that a perfect output of three has none."""
    with restored():
        code = pages["extending.md"].block("A problem", "python").code
        exec(compile(code, "extending.md", "exec"), {"__name__": "my_problems"})
        problem = registry.problem("spell_out")
        references = [sample["targets"] for sample in problem.generate_samples("", "", "dev")]
    right = [*map(Output, references)]
    scores = score_by_metrics([problem.metrics[0], "bleu"], right, references)
    assert scores[problem.metrics[0]].values[problem.metrics[0]] == 100
    assert scores["bleu"].values["bleu"] == 0
    wrong = [Output(reference.replace("seven", "nine")) for reference in references]
    (found,) = score_by_metrics(problem.metrics, wrong, references).values()
    assert 0 < found.values[problem.metrics[0]] < 100


def test_tables_are_read_as_the_page_says(pages, tmp_path):
    for name in ("train-00001-of-00002", "train-00000-of-00002", "validation-00000-of-00001"):
        rows = [{"translation": {"en": f"{name} {n}", "fr": f"le {n}"}} for n in range(3)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    with restored():
        code = pages["extending.md"].block("A problem", "python", 1).code
        exec(compile(code, "extending.md", "exec"), {"__name__": "my_tables"})
        problem = registry.problem("opus_books")
        samples = [*problem.text_samples("", str(tmp_path), "train")]
    expected = [f"train-0000{shard}-of-00002 {n}" for shard in range(2) for n in range(3)]
    assert [sample["inputs"] for sample in samples] == expected
    assert samples[-1]["targets"] == "le 2"
