"""Cleaning: the pairs that each rule drops, the flag's syntax, and counts on real noisy corpora."""

import gzip
import logging
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.data.generation.cleaning import Cleaner, CleaningRules, SeenPairs, clean
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import clean_vocabulary_text, generate_data
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdir
from t2t_lite.text.sample import Sample

ALL = "empty,identical,max_length=4,max_ratio=2,script=Latn-Cyrl+Latn,duplicates"

_TEXTS = st.text("aж 1", max_size=9)
_PAIRS = st.lists(st.tuples(_TEXTS, _TEXTS), max_size=40)
_RULES = st.sampled_from([ALL, *ALL.split(","), f"{ALL},unit=char"]).map(CleaningRules.parse)


def pair(source: str, target: str) -> Sample:
    return {"inputs": source, "targets": target}


def keeps(rules: str, source: str, target: str) -> bool:
    return Cleaner(CleaningRules.parse(rules)).keeps(pair(source, target))


def lines(path: pathlib.Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]


def dropped(rules: str, sources: pathlib.Path, targets: pathlib.Path) -> dict[str, int]:
    cleaner = Cleaner(CleaningRules.parse(rules))
    for source, target in zip(lines(sources), lines(targets), strict=True):
        cleaner.keeps(pair(source, target))
    return dict(cleaner.dropped)


# ---- one rule after the other


@pytest.mark.parametrize(
    ("rules", "source", "target", "kept"),
    [
        ("", "", "", True),
        ("empty", "a", "b", True),
        ("empty", " \u3000", "b", False),
        ("empty", "a", "\u200b\u2060", False),
        ("empty", "a", "", False),
        ("identical", "a b", "a  b", True),
        ("identical", "a b ", " a b", False),
        ("max_length=3", "a b c", "a b c", True),
        ("max_length=3", "a", "a b c d", False),
        ("max_length=3,unit=char", "今日は", "abc", True),
        ("max_length=3,unit=char", "今日は。", "abc", False),
        ("max_ratio=2", "a", "a b c", True),  # (3 + 1) / (1 + 1) is 2
        ("max_ratio=2", "a b c d", "a", False),
        ("max_ratio=1.5", "", "a", False),
        ("max_ratio=2,unit=char", "今日", "today", True),
        ("max_ratio=2,unit=char", "今日", "monday", False),
        ("script=Latn-Cyrl", "one 1", "один 1", True),
        ("script=Latn-Cyrl", "one", "one", False),
        ("script=Latn-Cyrl", "один", "один", False),
        ("script=Cyrl-Latn", "один", "one", True),
        ("script=Latn-Latn", "Škoda œuvre ʼn", "weiß", True),
        ("script=Latn-Latn", "abcжж", "a", True),
        ("script=Latn-Latn", "abжж", "a", True),  # half is not more than half
        ("script=Latn-Latn", "aжж", "a", False),
        ("script=Latn-Grek", "42!", "— 42", True),  # no letters, no script
        ("script=Latn-Hani+Hira+Kana", "coffee", "コーヒーを飲む", True),
        ("script=Latn-Hani", "coffee", "コーヒーを飲む", False),
    ],
)
def test_rule(rules: str, source: str, target: str, kept: bool):
    assert keeps(rules, source, target) is kept


def test_a_pair_counts_under_the_first_rule_that_it_breaks():
    cleaner = Cleaner(CleaningRules.parse(ALL))
    broken = [
        ("empty", pair("", "")),
        ("identical", pair("a b c d e", "a b c d e")),
        ("max_length", pair("a b c d e", "a")),
        ("max_ratio", pair("ж ж ж ж", "a")),
        ("script", pair("ж", "a")),
        ("duplicates", pair("a", "b")),
    ]
    assert cleaner.keeps(pair("a", "b"))
    for number, (rule, sample) in enumerate(broken):
        assert not cleaner.keeps(sample)
        assert list(cleaner.dropped.values()) == [1] * (number + 1) + [0] * (5 - number), rule
    assert list(cleaner.dropped) == [rule for rule, _ in broken]
    assert cleaner.kept == 1


# ---- properties


@given(_PAIRS, _RULES)
def test_cleaning_keeps_order_adds_up_and_is_idempotent(pairs, rules):
    cleaner = Cleaner(rules)
    samples = [pair(*sides) for sides in pairs]
    kept = [sample for sample in samples if cleaner.keeps(sample)]
    rest = iter(samples)
    assert all(sample in rest for sample in kept)  # a subsequence
    assert cleaner.kept == len(kept)
    assert cleaner.kept + sum(cleaner.dropped.values()) == len(samples)
    again = Cleaner(rules)
    assert all(again.keeps(sample) for sample in kept)


@given(_PAIRS)
def test_duplicates_are_those_of_a_set(pairs):
    cleaner = Cleaner(CleaningRules(duplicates=True))
    assert [sides for sides in pairs if cleaner.keeps(pair(*sides))] == list(dict.fromkeys(pairs))


def test_the_border_between_the_sides_counts():
    seen = SeenPairs()
    assert all(seen.add(*sides) for sides in [("ab", "c"), ("a", "bc"), ("c", "ab"), ("abc", "")])


def test_the_table_of_seen_pairs_grows_and_forgets_nothing():
    seen = SeenPairs()
    numbers = [str(number) for number in range(5000)]
    assert all(seen.add(number, "") for number in numbers)
    assert not any(seen.add(number, "") for number in numbers)


def test_a_full_table_still_knows_the_first_pairs_and_takes_no_new_ones():
    seen = SeenPairs(max_slots=16)
    numbers = [str(number) for number in range(100)]
    assert [seen.add(number, "") for number in numbers] == [True] * 100
    assert [seen.add(number, "") for number in numbers] == [False] * 12 + [True] * 88


# ---- the stream


def test_clean_logs_counts_and_share(caplog: pytest.LogCaptureFixture):
    samples = [pair("a", "b"), pair("a", "a"), pair("a", "b"), pair("c", "")]
    with caplog.at_level(logging.INFO, "t2t_lite"):
        kept = list(clean(iter(samples), CleaningRules.parse("duplicates,identical"), "zoo"))
    assert kept == [samples[0], samples[3]]
    assert caplog.messages == [
        "zoo: cleaning kept 2 of 4 pairs (50.0%); dropped: identical 1, duplicates 1"
    ]


def test_clean_without_rules_passes_everything_silently(caplog: pytest.LogCaptureFixture):
    samples = [pair("", ""), pair("", "")]
    with caplog.at_level(logging.INFO, "t2t_lite"):
        assert list(clean(samples, CleaningRules(), "zoo")) == samples
    assert caplog.messages == []


def test_clean_is_lazy():
    def endless():
        while True:
            yield pair("a", "a")
            yield pair("a", "b")

    assert next(clean(endless(), CleaningRules(identical=True), "zoo")) == pair("a", "b")


def test_nothing_left_is_an_error():
    with pytest.raises(DataError, match=r"^zoo: cleaning left nothing: kept 0 of 1 pairs .* 1;"):
        list(clean([pair("a", "a")], CleaningRules(identical=True), "zoo"))


def test_nothing_at_all_is_not_the_fault_of_cleaning():
    assert list(clean([], CleaningRules(identical=True), "zoo")) == []


# ---- the flag


def test_parse():
    assert CleaningRules.parse("") == CleaningRules()
    assert CleaningRules.parse(
        " identical, max_length=200,max_ratio=3 ,script=Latn-Cyrl,duplicates,unit=char,"
    ) == CleaningRules(
        identical=True,
        max_length=200,
        max_ratio=3.0,
        script="Latn-Cyrl",
        duplicates=True,
        unit="char",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_ratoi=3", "duplicates, unit; did you mean 'max_ratio'"),
        ("dup", "unknown cleaning rule 'dup'; known rules: empty, identical, max_length"),
        ("identical=1", "'identical=1': write identical"),
        ("max_ratio", "'max_ratio': write max_ratio=VALUE"),
        ("max_ratio=x", "max_ratio: 'x' is not a number"),
        ("max_ratio=nan", "max_ratio=nan: at least 1"),
        ("max_ratio=0.5", "max_ratio=0.5: at least 1"),
        ("max_length=1.5", "max_length: '1.5' is not a whole number"),
        ("max_length=0", "max_length=0: at least 1"),
        ("empty,empty", "'empty' is given twice"),
        ("script=Latn", "script=Latn: expected the codes of both sides"),
        ("script=Latn-", "'' is not an ISO 15924 code"),
        ("script=Latn-Klin", "'Klin' is not an ISO 15924 code"),
        ("script=Latn-L}", "'L}' is not an ISO 15924 code"),
        ("unit=words", "unit=words: write word or char"),
    ],
)
def test_parse_refuses(text: str, message: str):
    with pytest.raises(UsageError) as error:
        CleaningRules.parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


# ---- real corpora; the numbers are those that their description names


@pytest.mark.parametrize(
    ("rules", "counts"),
    [
        ("empty", {"empty": 1}),
        ("identical", {"identical": 14}),
        ("max_ratio=2", {"max_ratio": 209}),
        ("duplicates", {"duplicates": 42}),
    ],
)
def test_opennmt(shared_data: pathlib.Path, rules: str, counts: dict[str, int]):
    folder = shared_data / "opennmt"
    assert dropped(rules, folder / "src-train.txt.gz", folder / "tgt-train.txt.gz") == counts


def test_wmt14(shared_data: pathlib.Path):
    folder = shared_data / "wmt14_10k"
    files = (folder / "train.10k.en.gz", folder / "train.10k.de.gz")
    assert dropped("max_ratio=2", *files) == {"max_ratio": 879}


def test_europarl(shared_data: pathlib.Path):
    stem = shared_data / "europarl" / "europarl-v7.fr-en"
    files = (pathlib.Path(f"{stem}.en.gz"), pathlib.Path(f"{stem}.fr.gz"))
    assert dropped("empty", *files) == {"empty": 36}
    assert dropped("identical", *files) == {"identical": 33}
    assert dropped("script=Latn-Latn", *files) == {"script": 0}


def test_sides_of_another_script_are_found_in_real_text(shared_data: pathlib.Path):
    english = lines(shared_data / "multi30k" / "test_2016_flickr.en.gz")
    cleaner = Cleaner(CleaningRules.parse("script=Latn-Cyrl"))
    assert not any(cleaner.keeps(pair(line, line)) for line in english)
    assert cleaner.dropped == {"script": len(english)}


# ---- the vocabulary


class Few(Text2textTmpdir):
    """One training file, and a vocabulary of few pairs."""

    base_name = "few"
    approx_vocab_size = 300
    dataset_splits = ({"split": "train", "shards": 1}, {"split": "eval", "shards": 1})
    max_samples_for_vocab = 3


def test_the_vocabulary_is_built_from_the_pairs_that_are_kept(tmp_path, data):
    sources = ["жук", "bee", "bee", "ant", "fly", "moth"] * 5
    for name, texts in (("train", sources), ("eval", ["bee"])):
        for side in ("inputs", "targets"):
            (tmp_path / f"{side}.{name}.txt").write_text("\n".join(texts), encoding="utf-8")
    problem, options = Few(), DatagenOptions(clean="script=Latn-Latn,duplicates", num_workers=1)
    clean_vocabulary_text(problem, options)
    for _ in range(2):  # the first reading is not what the second one repeats
        text = list(problem.generate_text_for_vocab(str(data), str(tmp_path)))
        assert text == [word for word in ("bee", "ant", "fly") for _ in range(2)]

    generate_data(Few(), str(data), str(tmp_path), options)
    assert "ж" not in (data / problem.vocab_filename).read_text(encoding="utf-8")
