"""Names: defaults, parsing, lookup, and typing errors."""

from collections.abc import Iterable, Iterator

import pytest

from support.registries import restored
from t2t_lite import registry
from t2t_lite.bin.registry_help import registry_help
from t2t_lite.data import text_problems
from t2t_lite.errors import UsageError
from t2t_lite.metrics.base import MetricValue, OutputMetric
from t2t_lite.names import ProblemName, Registry, snake_case
from t2t_lite.settings import HParams


@pytest.fixture(autouse=True)
def _forget_registrations() -> Iterator[None]:
    """Removes a test's registrations."""
    with restored():
        yield


class Pairs(text_problems.Text2TextProblem):
    def generate_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterable[text_problems.Sample]:
        return [{"inputs": "a", "targets": "b"}]


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("TranslateEndeWmt32k", "translate_ende_wmt32k"),
        ("TranslateEndeWmt32kPacked", "translate_ende_wmt32k_packed"),
        ("LSTMSeq2SeqAttention", "lstm_seq2_seq_attention"),
        ("TypicalCamelCase", "typical_camel_case"),
        ("NumbersFuse2gether", "numbers_fuse2gether"),
        ("NumbersFuse2Gether", "numbers_fuse2_gether"),
        ("LSTMSeq2Seq", "lstm_seq2_seq"),
        ("starting", "starting"),
        ("Transformer", "transformer"),
    ],
)
def test_default_names(class_name: str, name: str):
    assert snake_case(class_name) == name


def test_a_decorator_may_be_bare_called_or_named():
    @registry.register_problem
    class BareOne(Pairs): ...

    @registry.register_problem()
    class CalledOne(Pairs): ...

    @registry.register_problem("another_name")
    class NamedOne(Pairs): ...

    assert type(registry.problem("bare_one")) is BareOne
    assert type(registry.problem("called_one")) is CalledOne
    assert type(registry.problem("another_name")) is NamedOne
    assert registry.problem("another_name").name == "another_name"


def test_a_name_is_registered_once():
    registry.register_hparams("mine")(HParams)
    with pytest.raises(KeyError, match="'mine' is already registered"):
        registry.register_hparams("mine")(HParams)


@pytest.mark.parametrize("name", ["x_rev", "x_copy"])
def test_reserved_endings(name: str):
    with pytest.raises(ValueError, match="_rev or _copy"):
        registry.register_problem(name)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("x", ProblemName("x", False, False)),
        ("x_rev", ProblemName("x", True, False)),
        ("x_copy", ProblemName("x", False, True)),
        ("x_rev_copy", ProblemName("x", True, True)),
        ("x_copy_rev", ProblemName("x", True, True)),
        ("x_review", ProblemName("x_review", False, False)),
    ],
)
def test_endings_are_taken_off(name: str, parsed: ProblemName):
    assert ProblemName.parse(name) == parsed


@pytest.mark.parametrize("name", ["x_rev_rev", "x_copy_rev_copy"])
def test_an_ending_stands_once(name: str):
    with pytest.raises(UsageError, match="only once"):
        ProblemName.parse(name)


def test_reversed_and_copied_problems():
    registry.register_problem("pairs")(Pairs)
    problem = registry.problem("pairs_copy_rev")
    assert (problem.was_reversed, problem.was_copy) == (True, True)
    assert problem.base_name == "pairs"
    assert problem.name == "pairs_rev_copy"
    assert problem.filepaths("data", "eval") == ["data/pairs-dev-00000-of-00001"]


def test_unknown_names_bring_the_nearest():
    with pytest.raises(UsageError, match=r"hparams set 'transformer_bsae'.*'transformer_base'"):
        registry.hparams("transformer_bsae")
    with pytest.raises(UsageError, match="unknown model 'transfomer'; did you mean 'transformer'"):
        registry.model("transfomer")
    with pytest.raises(UsageError, match="unknown model 'transfomer'; did you mean 'transformer'"):
        registry.require_model("transfomer")
    with pytest.raises(UsageError, match="unknown problem 'zzz' "):
        registry.problem("zzz_rev")


def test_a_set_without_return_is_a_type_error():
    registry.register_hparams("forgetful")(lambda: None)
    with pytest.raises(UsageError, match=r"'forgetful' .* returned None: .* `return hparams`"):
        registry.hparams("forgetful")


def test_every_lookup_gives_a_fresh_set():
    registry.hparams("transformer_base").batch_size = 1
    assert registry.hparams("transformer_base").batch_size == 4096


def test_a_model_by_address_is_loaded_when_asked_for():
    registry.register_model_at("late", "fractions:Fraction")
    registry.register_model_at("absent", "no_such_module:Model")
    assert "absent" in registry.list_models()
    registry.require_model("absent")
    assert registry.model("late").__name__ == "Fraction"
    with pytest.raises(ModuleNotFoundError):
        registry.model("absent")


def test_a_metric_is_registered_by_a_class():
    @registry.register_metric
    class FirstWord(OutputMetric):
        def statistics(self, segments):
            return [(s.output.split()[:1] == s.reference.split()[:1], 1) for s in segments]

    @registry.register_metric("other_name")
    class Named(FirstWord):
        title = "a title"
        lower_is_better = True

    assert registry.metric("first_word").values == [MetricValue("first_word", "first word")]
    assert registry.metric("other_name").values == [MetricValue("other_name", "a title", True)]
    assert list(registry.metrics())[-2:] == ["first_word", "other_name"]
    assert {"bleu", "chrf", "chrf_plus_plus", "ter", "loss"} <= set(registry.list_metrics())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("blue", "unknown metric 'blue'; did you mean 'bleu'"),
        ("bleu:zh", "metric 'bleu:zh': write bleu"),
        ("command", "metric 'command': write command:PROGRAM"),
        ("command:", "metric 'command:': write command:PROGRAM"),
    ],
)
def test_a_misnamed_metric(name: str, message: str):
    with pytest.raises(UsageError, match=message):
        registry.metric(name)


@pytest.mark.parametrize(
    "name",
    ["a,b", "a:b", "step", "kind", "target_tokens", "first_batches", "bleu_signature", "a__b"],
)
def test_names_that_no_metric_can_have(name: str):
    with pytest.raises(ValueError, match="expected letters, digits and single underscores"):
        registry.register_metric(name)


class Mine(OutputMetric):
    pass


@pytest.mark.parametrize(
    ("name", "extras", "message"),
    [
        ("recall", [], "'recall' is already a value of metric 'bracketing_f1'"),
        ("mine", ["precision"], "'precision' is already a value of metric 'bracketing_f1'"),
        ("mine", ["bleu"], "'bleu' is already a value of metric 'bleu'"),
        ("mine", ["part", "part"], "two values named 'part'"),
        ("mine", ["mine"], "two values named 'mine'"),
        ("mine", ["step"], "'step': expected letters"),
    ],
)
def test_names_of_metric_values_are_unique(name, extras, message):
    values = [MetricValue(extra, extra) for extra in extras]
    with pytest.raises(ValueError, match=message):
        registry.register_metric(name)(type("Other", (Mine,), {"extras": values}))
    assert "mine" not in registry.list_metrics()


def test_a_derived_metric_shares_the_further_values_of_its_base():
    base = registry.metrics()["bracketing_f1"]
    registry.register_metric("mine")(type("Derived", (base,), {}))
    assert [value.name for value in registry.metric("mine").values][:3] == [
        "mine",
        "bracketing_f1_of_all",
        "recall",
    ]


def test_registry_help_groups_names_by_first_word():
    registry.register_problem("zebra_one")(Pairs)
    registry.register_problem("zebra_two")(Pairs)
    text = registry_help()
    assert "    zebra:\n      * zebra_one\n      * zebra_two\n" in text
    assert text.index("Problems:") < text.index("Models:") < text.index("HParams:")
    assert text.index("HParams:") < text.index("Metrics:") < text.index("      * bracketing_f1\n")
    assert "      * transformer_base\n" in text


def test_objects_of_other_types_are_named():
    registry.register_problem("usr_bare")(type("Bare", (), {}))
    with pytest.raises(
        UsageError, match=r"'usr_bare_rev': <class '.*Bare'> is not a Problem: derive it"
    ):
        registry.problem("usr_bare_rev")
    registry.register_hparams("usr_number")(3)
    registry.register_hparams("usr_text")(lambda: "hidden_size=3")
    for name in ("usr_number", "usr_text"):
        with pytest.raises(UsageError, match=f"hparams set {name!r} .* needs a `return hparams`"):
            registry.hparams(name)


def test_a_notebook_cell_may_run_again():
    known = Registry("thing", "t2t_lite.problems")
    cells = [type("Mine", (), {"__module__": "__main__"}) for _ in range(2)]
    for cell in cells:
        known.add("mine", cell)
    assert known["mine"] is cells[1]
    with pytest.raises(KeyError, match="already registered"):
        known.add("mine", type("Mine", (), {"__module__": "elsewhere"}))
