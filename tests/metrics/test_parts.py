"""The values of a mixture: named by member, and their means."""

import math
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.errors import UsageError
from t2t_lite.metrics import parts
from t2t_lite.metrics.parts import Part, combined, labels_in, parts_of, split_field
from t2t_lite.runs.selection import Criterion

TEXT = {"has_numbers": False, "has_labels": False, "has_text_targets": True}


def problem(source="en", target="de", name="", metrics=("bleu",), splits=("train", "eval")):
    return types.SimpleNamespace(
        name=name or f"translate_{source}{target}",
        source_language=source,
        target_language=target,
        metrics=metrics,
        has_split=lambda split, data_dir=None: split in splits,
        **TEXT,
    )


def mixture(*members, metrics=("chrf",)):
    return types.SimpleNamespace(metrics=metrics, members=members, name="mixture", **TEXT)


def labels(*members, split="eval"):
    return [part.label for part in parts_of(mixture(*members), split)]


def test_a_problem_is_its_only_part():
    plain = problem(metrics=("bleu", "ter"))
    plain.members = (plain,)
    assert parts_of(plain, "eval") == [Part("", plain, ("bleu", "ter"))]
    assert parts_of(plain, "eval", ["chrf"]) == [Part("", plain, ("chrf",))]
    assert parts_of(plain, "test") == [Part("", plain, ("bleu", "ter"))], "reading it fails"
    assert parts.without_split(plain, "test") == []


def test_labels_are_target_languages_if_these_tell_members_apart():
    assert labels(problem("en", "de"), problem("en", "fr")) == ["de", "fr"]
    assert labels(problem("en", "de"), problem("en", "zh-Hant")) == ["de", "zh_Hant"]


def test_or_else_pairs_of_languages():
    assert labels(problem("en", "de"), problem("fr", "de")) == ["en_de", "fr_de"]
    assert labels(problem("en", "de"), problem("", "fr"), problem("", "cs")) == ["de", "fr", "cs"]


def test_or_else_names_of_problems():
    same = problem(name="a"), problem(name="b__x")
    assert labels(*same) == ["a", "b_x"]
    assert labels(problem("", "de", "a"), problem("en", "de", "b")) == ["a", "b"]
    assert labels(problem("", "", "a"), problem("en", "de", "b")) == ["a", "b"]


def test_members_without_the_split_are_left_out_and_change_no_label():
    members = problem("en", "de"), problem("fr", "de", splits=["train", "test"])
    assert labels(*members) == ["en_de"]
    assert labels(*members, split="test") == ["fr_de"]
    assert parts.without_split(mixture(*members), "eval") == ["translate_frde"]
    of_none = mixture(*members)
    assert parts_of(of_none, "unseen") == [Part("", of_none, ("chrf",))]


def test_members_are_scored_by_their_own_metrics_too():
    members = problem(), problem(target="zh", metrics=("bleu_zh", "chrf"))
    found = {part.label: part.metrics for part in parts_of(mixture(*members), "eval")}
    assert found == {"de": ("chrf", "bleu"), "zh": ("chrf", "bleu_zh")}
    found = {part.label: part.metrics for part in parts_of(mixture(*members), "eval", ["ter"])}
    assert found == {"de": ("ter",), "zh": ("ter",)}


def test_a_problem_keeps_its_values():
    values = {"loss": 1.0, "target_tokens": 3, "bleu_signature": "tok:13a"}
    assert list(combined({"": values}).items()) == list(values.items())


def test_means_come_first_and_count_members_equally():
    german = {"loss": 1.0, "target_tokens": 30, "chrf": 40.0, "chrf_signature": "c", "ter": 7.0}
    chinese = {"loss": 4.0, "target_tokens": 10, "chrf": 20.0, "chrf_signature": "c"}
    found = combined({"de": german, "zh": chinese})
    assert list(found.items()) == [
        *(("loss", 2.5), ("target_tokens", 40), ("chrf", 30.0), ("chrf_signature", "c")),
        *(("loss__de", 1.0), ("target_tokens__de", 30), ("chrf__de", 40.0), ("ter__de", 7.0)),
        *(("loss__zh", 4.0), ("target_tokens__zh", 10), ("chrf__zh", 20.0)),
    ]


def test_a_text_that_differs_is_of_its_member():
    found = combined({"de": {"a_signature": "x"}, "zh": {"a_signature": "y", "b_signature": "z"}})
    assert found == {"b_signature": "z", "a_signature__de": "x", "a_signature__zh": "y"}


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1.7e308])
def test_a_mean_with_what_is_not_finite_is_not(bad):
    found = combined({"de": {"loss": bad}, "fr": {"loss": bad}})
    assert not math.isfinite(found["loss"])


@pytest.mark.integration
@given(st.sampled_from(["de", "en_de", "a_b"]), st.from_regex(r"[a-z]+(_[a-z]+)*", fullmatch=True))
def test_fields_tell_names_and_labels(label, name):
    some = ["de", "en_de", "a_b"]
    assert split_field(Part(label, None, ()).field(name), some) == (name, label)
    assert split_field(name, some) == (name, "")
    assert labels_in([Part(one, None, ()).field("loss") for one in ("", *some)]) == some


def test_fields_of_programs():
    assert split_field("command:./my__de__fr", ["fr"]) == ("command:./my__de", "fr")
    assert split_field("command:./my__de", ["fr"]) == ("command:./my__de", "")


def test_a_criterion_may_be_of_a_member():
    of = mixture(problem(), problem(target="zh", metrics=("bleu_zh", "ter")))
    assert Criterion.named("", of) == Criterion("chrf", minimize=False)
    assert Criterion.named("loss", of) == Criterion("loss", minimize=True)
    assert Criterion.named("bleu__de", of) == Criterion("bleu__de", minimize=False)
    assert Criterion.named("ter__zh", of) == Criterion("ter__zh", minimize=True)
    with pytest.raises(UsageError, match="unknown metric 'bleu_de'; did you mean 'bleu__de'"):
        Criterion.named("bleu_de", of)
    with pytest.raises(UsageError, match="unknown metric 'bleu_zh'; did you mean 'bleu_zh__zh'"):
        Criterion.named("bleu_zh", of)  # one member alone has it: there is no mean
    plain = problem()
    plain.members = (plain,)
    with pytest.raises(UsageError, match="unknown metric 'bleu__de'; did you mean 'bleu'"):
        Criterion.named("bleu__de", plain)


def test_metrics_of_outputs_need_outputs():
    """A language model's is found before the first step, not at the first evaluation."""
    for has_inputs, metrics in ((True, ("bleu",)), (False, ("perplexity", "accuracy"))):
        own = problem(metrics=metrics)
        own.has_inputs = has_inputs
        Part("", own, metrics).check()
    own.name = "diary"
    with pytest.raises(
        UsageError, match=r"'diary' has no inputs, .* for exact_match, chrf to score"
    ):
        Part("", own, ("perplexity", "exact_match", "chrf")).check()
