import json
import pathlib
from collections import Counter

import pytest

from support.folders import digests
from support.mixtures import CZECH, FRENCH, GERMAN, MIXTURE, Toy, generate, toys
from t2t_lite import registry
from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.findings import of_data
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.generation.report import report
from t2t_lite.data.mixture import Direction, MultilingualProblem, shares
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.records import read_examples
from t2t_lite.errors import DataError, UsageError, UserError, warn_once
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.metrics.parts import parts_of, without_split


@pytest.fixture(scope="module", autouse=True)
def _toys():
    with toys():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The data of MIXTURE."""
    folder = tmp_path_factory.mktemp("mixture")
    generate(folder)
    return folder


def test_a_name_tells_everything():
    problem = registry.problem(MIXTURE)
    assert problem.name == problem.base_name == MIXTURE
    assert [member.name for member in problem.members] == MIXTURE.split("+")
    assert [member.data_languages for member in problem.members] == [
        *(("en", "de"), ("en", "fr"), ("cs", "en"))
    ]
    assert problem.additional_reserved_tokens == ["<2de>", "<2en>", "<2fr>"]
    assert problem.data_languages == ("", "")
    assert registry.problem(f" {GERMAN} + {FRENCH}").name == f"{GERMAN}+{FRENCH}"
    weighted = registry.problem(f"{GERMAN}:0.75+{FRENCH}:.25")
    assert weighted.name == f"{GERMAN}:0.75+{FRENCH}:0.25"
    assert registry.problem(weighted.name).rates([1, 1], 1) == [0.75, 0.25]
    assert registry.problem(f" {GERMAN} : 75e-2 + {FRENCH}:0.250 ").name == weighted.name
    assert registry.problem(f"{GERMAN}:.75..0.75+{FRENCH}:.25..0.250").name == weighted.name
    changing = registry.problem(f"{GERMAN}:.75..1.0+{FRENCH}:.25..0.250")
    assert changing.name == f"{GERMAN}:0.75..1+{FRENCH}:0.25..0.25"
    copies = [f"{GERMAN}_rev_copy+{FRENCH}", f"{GERMAN}_copy_rev+{FRENCH}"]
    assert {registry.problem(name).name for name in copies} == {copies[0]}
    changing = f"{GERMAN}:0.9..0.5+{FRENCH}:0.1..0.5"
    assert registry.problem(changing).name == changing
    assert registry.problem(changing).final_rates == [0.5, 0.5]
    assert registry.problem(MIXTURE).final_rates == weighted.final_rates == []
    odd = registry.problem(f"{GERMAN}:1e20+{FRENCH}:0.123456789")
    assert registry.problem(odd.name).rates([1, 1], 1) == odd.rates([1, 1], 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{GERMAN}+translate_enfr_toi", "unknown problem 'translate_enfr_toi'; did you mean"),
        (f"{GERMAN}+", r"expected a name before and after each \+"),
        (f"{GERMAN}+{GERMAN}", f"names '{GERMAN}' twice"),
        (f"{GERMAN}:1+{FRENCH}", f"'{FRENCH}' has no weight"),
        (f"{GERMAN}:x+{FRENCH}:1", f"weight of '{GERMAN}' is 'x': expected a number"),
        (f"{GERMAN}:0+{FRENCH}:1", "expected a number above 0"),
        (f"{GERMAN}:1..0+{FRENCH}:1..2", r"weight 0\.0: expected a number above 0"),
        (f"{GERMAN}:1..2..3+{FRENCH}:1..2", r"is '1\.\.2\.\.3': expected .* two, as in"),
        (f"{GERMAN}:1..2+{FRENCH}:1", f"'{FRENCH}' has no final_weight"),
        (f"{GERMAN}:nan+{FRENCH}:1", "expected a number above 0"),
        (f"{GERMAN}:inf+{FRENCH}:1", "expected a number above 0"),
        (f"{GERMAN}+text2text_tmpdir", "'text2text_tmpdir' is unknown: name it"),
        ("languagemodel_ptb10k+text2self_tmpdir", "is plain text, and so are all others"),
        (f"{GERMAN}+sentiment_imdb", "'sentiment_imdb' is unknown: name it"),
        (f"{GERMAN}+wsj_parsing", "(in different ways|is unknown)"),
        (f"{GERMAN}+translate_many_libreoffice", "is a mixture: name its members"),
        ("translate_many_libreoffice_rev", "give its members _rev or _copy: translate_ende_"),
    ],
)
def test_wrong_names_are_refused(name, message):
    with pytest.raises(UsageError, match=message):
        registry.problem(name)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ((), "directions is empty"),
        ((f"{GERMAN}+{FRENCH}",), "is a mixture: name its members"),
        ((Direction(GERMAN, tag="2x"), FRENCH), "tag '2x': expected letters"),
        ((Direction(GERMAN, tag="a b"), FRENCH), "tag 'a b': expected letters"),
        ((Direction(GERMAN, target_language="d>"), FRENCH), "target_language 'd>': expected"),
    ],
)
def test_wrong_classes_are_refused(members, message):
    with pytest.raises(UsageError, match=message):
        type("Wrong", (MultilingualProblem,), {"directions": members})()


def test_languages_of_names():
    assert registry.problem("translate_ende_wmt32k").data_languages == ("en", "de")
    german = registry.problem(f"{GERMAN}_rev")
    assert (german.source_language, german.target_language) == ("de", "en")
    german = registry.problem(f"{GERMAN}_copy")
    assert (german.source_language, german.target_language) == ("en", "en")
    german = registry.problem(f"{GERMAN}_rev_copy")
    assert (german.source_language, german.target_language) == ("de", "de")
    french = registry.problem("translate_enfr_libreoffice_rev")
    assert (french.source_language, french.target_language) == ("fr", "en")
    assert registry.problem("translate_imported").target_language == ""
    assert registry.problem("text2text_tmpdir").target_language == ""
    assert type("TranslateTextTest", (Toy,), {})().data_languages == ("", ""), "te is, xt is none"


def test_a_direction_may_name_a_language():
    class Mixed(MultilingualProblem):
        directions = (GERMAN, Direction("text2text_tmpdir", target_language="nds"))

    assert Mixed().additional_reserved_tokens == ["<2de>", "<2nds>"]


def test_unknown_languages_that_are_all_are_one(caplog):
    warn_once.cache_clear()
    problem = registry.problem("text2text_tmpdir+text2text_tmpdir_bpe")
    assert problem.additional_reserved_tokens == []
    assert problem.data_languages == ("", "")
    assert caplog.messages == [
        "problem 'text2text_tmpdir+text2text_tmpdir_bpe': the languages of the targets of "
        "'text2text_tmpdir' and 'text2text_tmpdir_bpe' are unknown, and taken to be one: if they "
        "are several, name them as data_languages in the class of each problem, so that sources "
        "tell which one to write"
    ]


@pytest.mark.parametrize("other", ["text2text_tmpdir_bpe_rev", "plain_text_tmpdir"])
def test_both_directions_of_a_text_and_plain_text_need_no_names_of_languages(other, caplog):
    registry.problem(f"text2text_tmpdir_bpe+{other}")
    assert caplog.messages == []


def _texts(problem, folder, split):
    """The (source, target) pairs of each member's files, and the ids of the tokens before them."""
    found = {}
    for member in problem.members:
        encoders = member.get_feature_encoders(str(folder))
        examples = list(read_examples(member.existing_filepaths(str(folder), split)))
        pairs = {tuple(encoders[side].decode(ex[side]) for side in encoders) for ex in examples}
        starts = {tuple(encoders["inputs"].start_of(example["inputs"])) for example in examples}
        assert all(encoders["targets"].start_of(example["targets"]) == () for example in examples)
        found[member.name] = (pairs, starts)
    return found


@pytest.mark.parametrize("split", [DatasetSplit.TRAIN, DatasetSplit.EVAL, DatasetSplit.TEST])
def test_members_have_files_of_their_own(folder, split):
    problem = registry.problem(MIXTURE)
    found = _texts(problem, folder, split)
    tokens = problem.get_feature_encoders(str(folder))["inputs"].languages
    for name, (pairs, starts) in found.items():
        plain = registry.problem(name)
        sides = ("targets", "inputs") if plain.was_reversed else ("inputs", "targets")
        samples = plain.generate_samples("", "", split)
        assert pairs == {tuple(sample[side] for side in sides) for sample in samples}
        assert starts == {(tokens[plain.target_language],)}
    whole = problem.existing_filepaths(str(folder), split)
    assert whole == [
        path for m in problem.members for path in m.existing_filepaths(str(folder), split)
    ]


def test_an_optional_split_without_files_is_left_out(tmp_path):
    class WithOwnText(MultilingualProblem):
        base_name = "with_own_text"
        directions = (Direction("text2text_tmpdir", target_language="de"), FRENCH)

    problem, folder = WithOwnText(), str(tmp_path)
    own, french = problem.members
    (path,) = french.filepaths(folder, "test")
    pathlib.Path(path).write_bytes(b"x")
    assert problem.existing_filepaths(folder, "test") == [path]
    assert [part.label for part in parts_of(problem, "test", data_dir=folder)] == ["fr"]
    assert without_split(problem, "test", folder) == ["text2text_tmpdir"]
    assert [part.label for part in parts_of(problem, "eval", data_dir=folder)] == ["de", "fr"]

    (path,) = own.filepaths(folder, "test")
    pathlib.Path(path).write_bytes(b"x")
    assert [part.label for part in parts_of(problem, "test", data_dir=folder)] == ["de", "fr"]


def test_an_optional_split_of_no_member_names_its_texts(tmp_path):
    problem = registry.problem("text2text_tmpdir+text2text_tmpdir_rev")
    (part,) = parts_of(problem, "test", data_dir=str(tmp_path))
    with pytest.raises(UserError, match=r"put inputs\.test\.txt and targets\.test\.txt into --tmp"):
        part.problem.existing_filepaths(str(tmp_path), "test")


def test_names_of_files_stay_short(folder):
    assert max(len(path.name) for path in folder.iterdir()) < 80
    ten = "+".join(f"translate_en{c}_libreoffice" for c in ("de", "fr", "es", "it", "cs"))
    problem = registry.problem(ten + "+" + ten.replace("office", "office_plain"))
    assert max(len(path) for path in problem.filepaths("", DatasetSplit.TRAIN)) < 80


def test_neither_weights_nor_order_need_other_files(folder):
    name = f"{CZECH}_rev:1+{FRENCH}:2+{GERMAN}:3"
    before = digests(folder)
    generate(folder, name)
    assert digests(folder) == before
    assert registry.problem(f"{GERMAN}+{FRENCH}").dataset_filename() not in str(before)


def test_tags_stand_beside_languages(tmp_path):
    class Tagged(MultilingualProblem):
        directions = (GERMAN, Direction(f"{CZECH}_rev", tag="bt"), Direction(FRENCH, tag="crawl"))
        approx_vocab_size = 330
        base_name = "tagged"

    generate_data(Tagged(), str(tmp_path), "")
    found = _texts(Tagged(), tmp_path, DatasetSplit.TRAIN)
    assert [starts for _, starts in found.values()] == [{(3,)}, {(4, 6)}, {(5, 7)}]
    tokens = Tagged().get_feature_encoders(str(tmp_path))["inputs"].tokens
    assert tokens[3:8] == ["<2de>", "<2en>", "<2fr>", "<bt>", "<crawl>"]
    assert (tmp_path / "tagged-translate_ende_toy-dev-00000-of-00001").is_file()


def test_domains_of_one_pair_without_tags_need_no_token(tmp_path):
    name = f"{GERMAN}:1+{GERMAN}_copy:1"

    class Domains(MultilingualProblem):
        directions = (GERMAN, Direction(f"{GERMAN}_copy", target_language="de"))
        approx_vocab_size = 330

    generate_data(Domains(), str(tmp_path), "")
    found = _texts(Domains(), tmp_path, DatasetSplit.EVAL)
    assert [starts for _, starts in found.values()] == [{()}, {()}]
    assert all(source == target for source, target in found[f"{GERMAN}_copy"][0])
    assert registry.problem(name).has_language_tokens, "copies are English"


def test_domains_of_one_pair_with_tags_have_a_default(tmp_path):
    class Domains(MultilingualProblem):
        directions = (GERMAN, Direction(f"{GERMAN}_copy", None, "", "de", "copy"))
        approx_vocab_size = 330

    generate_data(Domains(), str(tmp_path), "")
    found = _texts(Domains(), tmp_path, DatasetSplit.EVAL)
    assert [starts for _, starts in found.values()] == [{(3,)}, {(3, 4)}]
    encoder = Domains().get_feature_encoders(str(tmp_path))["inputs"]
    assert encoder.language == "de"
    assert encoder.encode("a")[0] == 3
    assert encoder.encode(">>de+copy<<a")[:2] == [3, 4]


def test_tags_need_a_language():
    class Tagged(MultilingualProblem):
        directions = ("text2text_tmpdir", Direction("text2text_tmpdir_bpe", tag="bt"))

    with pytest.raises(UsageError, match="'text2text_tmpdir' is unknown: name it"):
        Tagged()


def test_the_vocabulary_takes_more_of_small_members():
    problem = registry.problem(f"{GERMAN}+{FRENCH}")
    lines = Counter(
        "small" if target.startswith("fr") else "large"
        for source, target in _pairs(problem.generate_text_for_vocab("", ""))
    )
    assert lines.total() == 360
    assert lines["small"] == round(360 * shares([300, 60], 5.0)[1])
    type(problem).max_samples_for_vocab, kept = 100, type(problem).max_samples_for_vocab
    try:
        assert sum(1 for _ in problem.generate_text_for_vocab("", "")) == 200
    finally:
        type(problem).max_samples_for_vocab = kept


def _pairs(lines):
    lines = list(lines)
    return zip(lines[::2], lines[1::2], strict=True)


def test_shares():
    assert shares([1, 3], 1) == [0.25, 0.75]
    assert shares([1, 16], 2) == [0.2, 0.8]
    assert shares([1, 10**300], 100) == pytest.approx([1 / 1001, 1000 / 1001])


def test_an_interrupted_generation_is_completed(tmp_path, folder, monkeypatch):
    french = type(registry.problem(FRENCH))
    with monkeypatch.context() as patch:
        samples = french.generate_samples
        calls = []

        def damaged(self, data_dir, tmp_dir, split):
            calls.append(split)  # once for the vocabulary, then for the files
            patch.setattr(self, "stop", 50 * (len(calls) > 1), raising=False)
            return samples(self, data_dir, tmp_dir, split)

        patch.setattr(french, "generate_samples", damaged)
        with pytest.raises(DataError, match="the next line is bad"):
            generate(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert any(f"{GERMAN}-train" in name for name in names)
    assert not any(f"{FRENCH}-train-0" in name for name in names)
    generate(tmp_path)
    assert _data(tmp_path) == _data(folder)


def _data(folder):
    """Digests of all but fingerprints, which have times."""
    return {name: d for name, d in digests(folder).items() if "fingerprint" not in name}


def test_data_of_something_else_is_refused(tmp_path, monkeypatch):
    class Many(MultilingualProblem):
        directions = (GERMAN, FRENCH)
        approx_vocab_size = 330

    generate_data(Many(), str(tmp_path), "")
    monkeypatch.setattr(Many, "vocab_temperature", 1.0)
    with pytest.raises(UserError, match=r"vocab_temperature: 5.0 -> 1.0"):
        generate_data(Many(), str(tmp_path), "")
    monkeypatch.undo()
    monkeypatch.setattr(Many, "directions", (GERMAN, FRENCH, CZECH))
    with pytest.raises(UserError, match="additional_reserved_tokens"):
        generate_data(Many(), str(tmp_path), "")
    monkeypatch.undo()
    entry = json.loads((tmp_path / "many-translate_ende_toy.fingerprint.json").read_text())
    assert entry["train"]["options"]["language"] == "<2de>"


def test_missing_data_names_the_command_of_the_mixture(tmp_path):
    problem = registry.problem(f"{GERMAN}+{FRENCH}")
    for one in (problem, *problem.members):
        message = rf"t2t-datagen --problem={GERMAN}\+{FRENCH} --data_dir"
        with pytest.raises(UserError, match=message):
            one.existing_filepaths(str(tmp_path), DatasetSplit.TRAIN)
        with pytest.raises(UserError, match=message):
            one.get_feature_encoders(str(tmp_path))
    with pytest.raises(UserError, match="has no unseen split; it has train, dev, test"):
        problem.filepaths(str(tmp_path), DatasetSplit.UNSEEN)


def test_a_report_is_on_each_member(folder):
    text = "\n".join(report(registry.problem(MIXTURE), str(folder), "", DatagenOptions(), None))
    for name in MIXTURE.split("+"):
        assert f"-{name} train" in text
    assert "unknown to the vocabulary: 0" in text


def test_cleaning_applies_to_each_member(tmp_path):
    problem = registry.problem(f"{GERMAN}+{FRENCH}")
    generate_data(problem, str(tmp_path), "", DatagenOptions(clean="max_length=3"))
    for pairs, _ in _texts(problem, tmp_path, DatasetSplit.TRAIN).values():
        assert max(len(source.split()) for source, _ in pairs) == 3
    lines = problem.generate_text_for_vocab("", "")
    assert max(len(line.split()) for line in lines) == 3


def test_a_file_of_alignments_is_refused(tmp_path):
    (tmp_path / "links").write_text("0-0\n")
    options = DatagenOptions(alignments=str(tmp_path / "links"))
    with pytest.raises(UsageError, match=r"several problems.*use --alignments=auto"):
        generate_data(registry.problem(MIXTURE), str(tmp_path / "data"), "", options)


def test_metrics_are_those_of_all_or_chrf():
    assert registry.problem(MIXTURE).metrics == ("bleu",)
    prefix, suffix = "translate_en", "_libreoffice_plain"
    assert registry.problem(f"{prefix}de{suffix}+{prefix}zh{suffix}").metrics == ("chrf",)
    of_each = [m.metrics for m in registry.problem(f"{GERMAN}+{prefix}zh{suffix}_rev").members]
    assert of_each == [("bleu",), ("bleu",)]


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("translate_ende_wmt32k+translate_enfr_wmt32k", True),  # by themselves, T2T's subwords
        ("text2text_tmpdir+text2text_tmpdir_rev", True),
        ("parsing_tmpdir_16k+parsing_tmpdir_32k", False),
    ],
)
def test_sources_are_read_in_their_form_unless_that_could_change_words(name, is_read):
    assert registry.problem(name).reads_source_form is is_read


def test_the_registered_one():
    problem = registry.problem("translate_many_libreoffice")
    assert problem.dataset_filename() == "translate_many_libreoffice"
    assert problem.additional_reserved_tokens == [f"<2{c}>" for c in ("cs", "de", "es", "fr", "it")]
    assert problem.is_plain_text


def test_a_member_that_changes_its_examples_is_refused(monkeypatch):
    problem, hparams = registry.problem(MIXTURE), BasicHParams()
    assert ExampleReader.of(problem, hparams).change is None
    french = type(registry.problem(FRENCH))
    monkeypatch.setattr(french, "change_of_examples", lambda *_: dict, raising=False)
    with pytest.raises(UsageError, match=f"'{FRENCH}' changes its examples"):
        ExampleReader.of(problem, hparams)


def test_findings_name_the_member(folder, tmp_path):
    problem = registry.problem(MIXTURE)
    assert of_data(problem, str(folder)) == []
    name = f"{problem.members[1].dataset_filename()}.findings.json"
    (tmp_path / name).write_text('{"train": ["train: 1 inputs are odd"]}')
    assert of_data(problem, str(tmp_path)) == [f"{FRENCH}, train: 1 inputs are odd"]


@pytest.mark.integration
def test_a_vocabulary_goes_on_from_that_of_a_smaller_mixture(tmp_path):
    fewer, more = tmp_path / "fewer", tmp_path / "more"
    old = generate(fewer, f"{GERMAN}+{FRENCH}")
    new = registry.problem(MIXTURE)
    generate_data(new, str(more), str(more), DatagenOptions(extend_vocab=str(fewer)))
    there, here = (p.get_feature_encoders(str(f))["inputs"] for p, f in ((old, fewer), (new, more)))
    assert here.tokens[: there.vocab_size] == there.tokens
    assert {code: here.languages[code] for code in there.languages} == there.languages
    assert here.languages.keys() - there.languages.keys() == {"en"}
    assert here.languages["en"] >= there.vocab_size
    english = new.members[2].get_feature_encoders(str(more))["inputs"]
    assert english.encode("abcd")[0] == here.languages["en"]
