"""What problems of text do with their samples, vocabularies and sides."""

import pytest

from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import (
    Text2ClassProblem,
    Text2SelfProblem,
    Text2TextProblem,
    VocabType,
)
from t2t_lite.errors import UserError
from t2t_lite.text.text_encoder import ClassLabelEncoder


class Pairs(Text2TextProblem):
    """Three pairs, in the same dictionary again and again."""

    inputs_prefix = "from "
    targets_prefix = "to "

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        sample = {"unused": 0}
        for number in range(3):
            sample |= {"inputs": f"a{number}", "targets": f"b{number}"}
            yield sample


class Half(Text2SelfProblem):
    targets_prefix = "to "

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return [{"targets": "b"}]


class Classes(Text2ClassProblem):
    vocab_type = VocabType.CHARACTER
    num_classes = 2

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return [{"inputs": "a", "label": 1}]


def test_samples_are_copies_of_the_sides():
    samples = list(Pairs().text_samples("", "", DatasetSplit.TRAIN))
    assert samples == [{"inputs": f"a{n}", "targets": f"b{n}"} for n in range(3)]


@pytest.mark.parametrize(
    ("problem", "first"),
    [
        (Pairs(), {"inputs": "from a0", "targets": "to b0"}),
        (Half(), {"inputs": "", "targets": "to b"}),
    ],
)
def test_prefixes_are_before_the_text_of_their_sides(problem, first):
    assert next(problem.prefixed(problem.text_samples("", "", DatasetSplit.TRAIN))) == first


@pytest.mark.parametrize(("most", "count"), [(None, 3), (2, 2), (9, 3)])
def test_a_vocabulary_is_built_from_the_first_samples(most, count, monkeypatch):
    monkeypatch.setattr(Pairs, "max_samples_for_vocab", most)
    texts = list(Pairs().generate_text_for_vocab("", ""))
    assert texts == [f"{side}{n}" for n in range(count) for side in "ab"]


def test_a_vocabulary_of_tokens_is_never_built(monkeypatch, tmp_path):
    monkeypatch.setattr(Pairs, "vocab_type", VocabType.TOKEN)
    Pairs().build_vocab(str(tmp_path), "")
    with pytest.raises(UserError, match="put your tokens, one per line, into"):
        Pairs().feature_encoders(str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("sides", "has_labels", "inputs", "targets"),
    [
        ((False, False), True, "text", "labels"),
        ((True, False), False, "labels", "text"),
        ((False, True), False, "text", "text"),
        ((True, True), False, "labels", "labels"),
    ],
)
def test_exchanged_and_copied_sides_of_a_classification(sides, has_labels, inputs, targets):
    problem = Classes(*sides)
    encoders = problem.get_feature_encoders("")
    kinds = {
        side: "labels" if isinstance(encoder, ClassLabelEncoder) else "text"
        for side, encoder in encoders.items()
    }
    assert kinds == {"inputs": inputs, "targets": targets}
    assert problem.has_labels is has_labels
    assert problem.can_split_sources is not has_labels
    assert problem.metrics == (("exact_match",) if has_labels else ("bleu",))
