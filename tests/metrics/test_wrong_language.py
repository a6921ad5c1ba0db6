"""Outputs in another language than the target's are found, named and counted."""

import importlib.util

import pytest

from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.errors import UsageError, UserError
from t2t_lite.metrics.by_name import check_metrics, score_outputs, split_metrics

GERMAN = [
    "Zwei Hunde spielen im Schnee vor dem Haus.",
    "Ein Mann sitzt auf einer Bank und liest die Zeitung.",
    "Klicken Sie auf die Schaltfläche, um das Dialogfeld zu öffnen.",
]
ENGLISH = "Two dogs are playing in the snow in front of the house."
FRENCH = "Un homme est assis sur un banc et lit le journal."


def test_a_missing_package_is_named(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "py3langid" else find(name)
    )
    with pytest.raises(UserError, match=r"needs more .*: pip install '\.\[languages\]'"):
        registry.metric("wrong_language:de").check()


def test_the_argument_may_be_left_out_with_its_colon():
    assert registry.metric("wrong_language").argument == "[CODE[+CODE...]]"
    with pytest.raises(UsageError, match=r"write wrong_language:\[CODE\[\+CODE\.\.\.\]\]"):
        registry.metric("wrong_language:")
    assert split_metrics("bleu,wrong_language:de+en") == ("bleu", "wrong_language:de+en")


class TestWithPackage:
    @pytest.fixture(autouse=True)
    def _package(self):
        pytest.importorskip("py3langid")

    def score(self, name, *outputs):
        return score_outputs(name, [Output(text) for text in outputs], ["x"] * len(outputs))

    @pytest.mark.integration
    @pytest.mark.parametrize("candidates", ["de", "de+en+fr", "deu_Latn"])
    def test_share_and_counts(self, candidates):
        name = f"wrong_language:{candidates}"
        found = self.score(name, *GERMAN, ENGLISH, FRENCH, ENGLISH)
        assert found.values[name] == 50
        first, signature, counts = found.report.splitlines()
        assert (
            first == f"wrong language (% of outputs not in {candidates.partition('+')[0]}) =  50.00"
        )
        among = "en+fr" if "+" in candidates else "all"
        assert f"among:{among}|ratio:10|version:py3langid-" in signature
        assert counts.endswith("): en 2, fr 1")
        assert found.statistics == [(False, 1)] * 3 + [(True, 1)] * 3

    @pytest.mark.integration
    def test_without_an_argument_the_language_is_that_of_the_problem(self):
        outputs = [*map(Output, [*GERMAN, FRENCH])]
        found = score_outputs("wrong_language", outputs, ["x"] * 4, language="deu")
        assert found.values["wrong_language"] == 25
        assert found.report.splitlines()[-1].endswith("not in their language): fr 1")
        french = score_outputs("wrong_language", outputs, ["x"] * 4, language="fr")
        assert french.values["wrong_language"] == 75
        with pytest.raises(UsageError, match="name it, wrong_language:de"):
            self.score("wrong_language", *GERMAN)

    @pytest.mark.integration
    def test_an_unknown_language_is_named_before_there_are_outputs(self):
        check_metrics(["bleu", "wrong_language"], "deu")
        check_metrics(["wrong_language:de"], "")
        with pytest.raises(UsageError, match="name it, wrong_language:de"):
            check_metrics(["bleu", "wrong_language"], "")
        with pytest.raises(UsageError, match="py3langid knows no language 'xx'"):
            check_metrics(["wrong_language"], "xx")

    def test_right_outputs_have_no_counts(self):
        found = self.score("wrong_language:de", *GERMAN)
        assert found.values["wrong_language:de"] == 0
        assert len(found.report.splitlines()) == 2

    @pytest.mark.integration
    def test_what_tells_no_language_is_not_wrong(self):
        for name in ("wrong_language:de", "wrong_language:de+en"):
            found = self.score(name, "", " ", "42", "OK", "...", "😀", "x", "LibreOffice 7.3")
            assert found.values[name] == 0

    @pytest.mark.integration
    def test_a_copy_of_the_source_is_found_among_its_two_languages(self):
        assert self.score("wrong_language:de+en", ENGLISH).values["wrong_language:de+en"] == 100
        assert self.score("wrong_language:en+de", ENGLISH).values["wrong_language:en+de"] == 0

    def test_lower_is_better(self):
        assert registry.metric("wrong_language:de").lower_is_better

    @pytest.mark.integration
    @pytest.mark.parametrize(
        ("argument", "message"),
        [
            ("German", "knows no language 'German'; did you mean 'de'"),
            ("de+qqq", "knows no language 'qqq'"),
            ("de+deu", r"name another language after \+"),
            ("de+", "knows no language ''"),
        ],
    )
    def test_wrong_codes_are_named(self, argument, message):
        with pytest.raises(UsageError, match=message):
            registry.metric(f"wrong_language:{argument}").check()
