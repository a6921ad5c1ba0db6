"""Problems of a user directory of T2T's as members of a mixture."""

import pytest

from t2t_lite import registry
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.mixture import Direction, MultilingualProblem
from t2t_lite.data.records import read_examples
from t2t_lite.errors import UsageError
from t2t_lite.interop.t2t import names


def test_text_and_labels_of_users_are_members(usr_dir, tmp_path):
    class Tasks(MultilingualProblem):
        directions = (
            *(Direction("usr_counting", target_language="xx"), "usr_language_model_denoise"),
            *("usr_language_model", Direction("usr_sentiment", target_language="xx")),
        )
        approx_vocab_size = 330

    problem = Tasks()
    generate_data(problem, str(tmp_path), str(tmp_path))
    found = {}
    for member in problem.members:
        encoders = member.get_feature_encoders(str(tmp_path))
        found[member.name] = [
            tuple(encoders[side].decode(example[side]) for side in ("inputs", "targets"))
            for example in read_examples(member.existing_filepaths(str(tmp_path), "train"))
        ]
    plain, noisy = found["usr_language_model"], found["usr_language_model_denoise"]
    assert {source for source, _ in plain} == {""}
    assert sorted(text for _, text in plain) == sorted(text for _, text in noisy)
    assert any(source not in ("", text) for source, text in noisy)
    assert {target for _, target in found["usr_sentiment"]} == {"neg", "pos"}
    with pytest.raises(UsageError, match="has several texts in a source"):
        registry.problem("usr_counting+usr_same")


@pytest.mark.parametrize("module", ["multi_problem", "multi_problem_v2", "wiki_multi_problems"])
def test_a_mixture_takes_the_place_of_many_tasks(upstream, module):
    missing = names.missing(f"data_generators.{module}", "MultiProblem")
    assert "a mixture, whose members may be plain text" in missing.message
