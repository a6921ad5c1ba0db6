"""The problem on the page about extending is ranked by a metric that fits it."""

from support.registries import restored
from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.metrics.by_name import score_by_metrics


def test_perfect_outputs_have_the_best_score(pages):
    """BLEU counts four words in a row, so that a perfect output of three has none."""
    with restored(registry._problems):
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
