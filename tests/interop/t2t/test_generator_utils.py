"""T2T's files of text: what compile_data reads and writes, iterators, and cleaning."""

import gzip
import pathlib
from typing import ClassVar

import pytest

from support.texts import pairs_of
from support.usr_dirs import generate
from t2t_lite import registry
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.problem import Problem
from t2t_lite.data.records import read_examples
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.interop.t2t import (
    datasets,
    problem,
    text_iterators,
    text_problems,
    translate,
    translations,
)
from t2t_lite.text.bad_input import STRICT, BadInput

OWN = [["", ("own.en", "own.de")]]


def reading(source_data_files) -> Problem:
    """Registers a problem of translation with this method."""
    members = {"source_data_files": source_data_files}
    kind = type("Reading", (translate.TranslateProblem,), members)
    registry.register_problem("usr_reading")(kind)
    return registry.problem("usr_reading")


def test_compiled_files_are_written_once_for_the_same_data_sets(folders):
    path = translate.compile_data(folders[1], OWN, "compiled")
    first, second = pathlib.Path(f"{path}.lang1"), pathlib.Path(f"{path}.lang2")
    assert first.read_text() == "A first one. A second one.\nno sentence\n"
    assert second.read_text() == "Ein erster. Ein zweiter.\nkein Satz\n"
    first.write_text("kept\n")
    translate.compile_data(folders[1], OWN, "compiled")
    assert first.read_text() == "kept\n"
    translate.compile_data(folders[1], OWN, "compiled", datatypes_to_clean=["txt"])
    assert first.read_text() == "A first one.\nA second one.\n"


def test_compiled_files_of_other_data_sets_do_not_outlive_a_failure(folders):
    path = translate.compile_data(folders[1], OWN, "compiled")
    late = [pathlib.Path(folders[1], name) for name in ("late.en", "late.de")]
    other = [["", tuple(file.name for file in late)]]
    with pytest.raises(UserError, match=r"late\.en"):
        translate.compile_data(folders[1], other, "compiled")
    for file in late:
        file.write_text("late\n")
    translate.compile_data(folders[1], other, "compiled")
    assert pathlib.Path(f"{path}.lang1").read_text() == "late\n"


def test_a_custom_iterator_reads_compiled_files(upstream, folders):
    found = reading(lambda self, dataset_split: OWN).upstream
    read = found.generate_samples("", folders[1], "train", custom_iterator=lambda *paths: paths)
    stem = f"{folders[1]}/usr_reading-compiled-train"
    assert read == (f"{stem}.lang1", f"{stem}.lang2")


@pytest.mark.parametrize("label", ["1.5", "x", "", "9" * 5000, "pos"])
def test_labels_of_another_form_are_named_with_their_line(tmp_path, label):
    texts, labels = (str(tmp_path / name) for name in ("texts", "labels"))
    pathlib.Path(texts).write_text("a\nb\n")
    pathlib.Path(labels).write_text(f"-1\n{label}\n")
    with pytest.raises(DataError, match=r"labels, line 2: expected a number, got '"):
        list(text_problems.text2class_txt_iterator(texts, labels))
    with pytest.raises(DataError, match=r"labels, line 1: expected one of \['neg'\], got '-1'"):
        list(text_problems.text2class_txt_iterator(texts, labels, ["neg"]))
    pathlib.Path(texts).write_text(f"a\tExtra_Label: 1\nb\tExtra_Label: {label}\n")
    with pytest.raises(DataError, match=r"texts, line 2: expected text<TAB>Extra_Label: NUMBER"):
        list(text_problems.txt_and_label_iterator(texts))


@pytest.mark.parametrize(
    "read",
    [
        lambda texts, _: text_problems.txt_and_label_iterator(texts),
        text_problems.text2class_txt_iterator,
    ],
)
def test_skipped_lines_keep_the_numbers_of_the_others(tmp_path, read):
    texts, labels = (str(tmp_path / name) for name in ("texts", "labels"))
    pathlib.Path(texts).write_bytes(b"\xff\nb\tExtra_Label: 1\nc\n")
    pathlib.Path(labels).write_text("0\n1\nx\n")
    text_iterators.receive(BadInput(skip=True))
    try:
        with pytest.raises(DataError, match="line 3: expected"):
            list(read(texts, labels))
    finally:
        text_iterators.receive(STRICT)


@pytest.mark.parametrize("entries", [["own.en", "own.de"], ["ab"], [None], [("", "own.en")]])
def test_names_are_no_data_sets(upstream, folders, entries):
    found = reading(lambda self, dataset_split: entries)
    for read in (
        lambda: found.fetch_sources(folders[1], "train"),
        lambda: list(found.generate_text_for_vocab("", folders[1])),
    ):
        with pytest.raises(
            UsageError, match=r"^data set .*: expected an address and \(file, file\), "
        ):
            read()


@pytest.mark.parametrize("returned", [None, 3, "own.en", False])
def test_anything_but_a_list_of_data_sets_is_named(upstream, folders, returned):
    found = reading(lambda self, dataset_split: returned)
    for read in (
        lambda: found.fetch_sources(folders[1], "train"),
        lambda: list(found.generate_samples("", folders[1], "dev")),
        lambda: list(found.generate_text_for_vocab("", folders[1])),
        lambda: found.upstream.generate_samples("", folders[1], "dev", custom_iterator=len),
    ):
        with pytest.raises(UsageError, match=rf"source_data_files .*returned {returned!r}: expect"):
            read()


def test_iterators(tmp_path):
    one, other, labels, table = (str(tmp_path / name) for name in ("1", "2", "labels", "x.tsv"))
    pathlib.Path(one).write_text(" a \nb\n")
    pathlib.Path(other).write_text("c\nd\n")
    pathlib.Path(labels).write_text("x y\tExtra_Label: 3\n")
    pathlib.Path(table).write_text("a\tb\tc\nno tab\n")
    pairs = [{"inputs": "a", "targets": "c"}, {"inputs": "b", "targets": "d"}]
    assert list(text_problems.text2text_txt_iterator(one, other)) == pairs
    assert list(text_problems.text2text_txt_sharded_iterator(f"{one}*", f"{other}*")) == pairs
    assert list(text_problems.txt_line_sharded_iterator(f"{tmp_path}/[12]")) == list("abcd")
    assert list(text_problems.txt_and_label_iterator(labels)) == [["x y", 3]]
    tabbed = [{"inputs": "a", "targets": "b\tc"}]
    assert list(text_problems.text2text_txt_tab_iterator(table)) == tabbed
    assert list(text_problems.text2text_txt_tab_iterator(f"{tmp_path}/*.tsv*")) == tabbed
    assert list(text_problems.text2self_txt_iterator(other)) == [{"targets": "c"}, {"targets": "d"}]
    labelled = [{"inputs": "a", "label": 0}, {"inputs": "b", "label": 1}]
    assert list(text_problems.text2class_txt_iterator(one, other, ["c", "d"])) == labelled
    with pytest.raises(DataError, match="line 1: expected text<TAB>Extra_Label: NUMBER, got 'a'"):
        list(text_problems.txt_and_label_iterator(one))
    with pytest.raises(DataError, match="2 and 1 lines"):
        list(text_problems.text2text_txt_iterator(one, labels))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (["url", ("a",)], "expected an address and"),
        (["url", ("tsv", "0", "1", "*")], "expected an address and"),
        (["missing.tgz", ("a", "b")], "missing.tgz is missing, and has no address"),
        (["text.tgz", ("a", "b")], "none of its 2 members is 'a'"),
        (["text.tgz", ("tsv", 0, 1, "*.tsv")], "no member matches"),
        (["table.tsv.gz", ("tmx", "table.tsv.gz")], "expected text in two languages"),
    ],
)
def test_data_sets_that_cannot_be_read(folders, entry, message):
    with pytest.raises(UserError, match=message):
        list(datasets.pairs([entry], folders[1]))


def test_addresses_that_are_known_are_checked():
    url = "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz"
    assert datasets.remote_file(url).size == 918_311_367


def test_classes_of_wmt_can_be_derived_from():
    class Larger(translations.TranslateEndeWmt32k):
        additional_training_datasets: ClassVar = [["http://no.such.host/a.tgz", ("a", "b")]]

    train = Larger().source_data_files(problem.DatasetSplit.TRAIN)
    assert [url.rpartition("/")[2] for url, _ in train] == [
        "training-parallel-nc-v13.tgz",
        "training-parallel-commoncrawl.tgz",
        "training-parallel-europarl-v7.tgz",
        "a.tgz",
    ]
    assert train[1][1] == ("commoncrawl.de-en.en", "commoncrawl.de-en.de")
    vocabulary = translations.TranslateEndeWmt32k().vocab_filename
    assert vocabulary == "vocab.translate_ende_wmt32k.32768.subwords"
    assert translations.TranslateEnfrWmtCharacters().vocab_type == "character"


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        ("It is so.", "So ist es.", [("It is so.", "So ist es.")]),
        ("It is. It was.", "Es ist. Es war.", [("It is.", "Es ist."), ("It was.", "Es war.")]),
        ("It is. It was.", "Es ist und es war.", []),
        ("it is so.", "so", []),
        ("No end", "kein Ende", []),
        ("Mary: It is.", "Maria: Es ist.", []),
        ("Pages 3 4 are missing.", "Seiten fehlen.", []),
        ('"All of it."', "alles", []),
        ("An open (bracket.", "offen", []),
        ("LONDON - It is.", "London", []),
        ("It's a dog's life.", "Hund", [("It's a dog's life.", "Hund")]),
    ],
)
def test_cleaning_of_english(source, target, kept):
    assert list(datasets.clean_en_xx_pairs([(source, target)])) == kept


# ---- addresses, and translation memories


def _memory(*units: list[tuple[str, str]]) -> str:
    variants = (
        "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in unit)
        for unit in units
    )
    body = "".join(f"<tu>{unit}</tu>\n" for unit in variants)
    return f'<tmx version="1.4"><body>{body}</body></tmx>\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (["en_US", "de_DE"], [("0", "1"), ("2", "3")]),
        (["en-GB", "en-US", "fr-FR"], [("0", "2"), ("3", "5")]),
        (["pt_BR", "pt_PT"], [("0", "1"), ("2", "3")]),
    ],
)
def test_a_memory_may_have_variants_of_a_language(upstream, tmp_path, encoding, tags, expected):
    numbers = iter("012345")
    units = [[(tag, next(numbers)) for tag in tags] for _ in range(2)]
    (tmp_path / "m.tmx").write_text(_memory(*units), encoding=encoding)
    found = datasets.pairs([["", ("tmx", "m.tmx")]], str(tmp_path))
    assert pairs_of(found) == expected


def test_only_the_broken_units_of_a_memory_are_dropped(upstream, tmp_path, caplog):
    units = [[("en", f"{number} cats"), ("de", f"{number} Katzen")] for number in range(6)]
    units[1] = [("en", "cats & dogs"), ("de", "Katzen und Hunde")]
    units[4] = [("en", "a\x1b cat"), ("de", "eine Katze")]
    with gzip.open(tmp_path / "m.tmx.gz", "wt", encoding="utf-8") as file:
        file.write(_memory(*units))
    entries = [["", ("tmx", "m.tmx.gz")]]
    with pytest.raises(DataError, match=r"m\.tmx\.gz, line 2: not well-formed"):
        list(datasets.pairs(entries, str(tmp_path)))
    text_iterators.receive(BadInput(skip=True))
    found = datasets.pairs(entries, str(tmp_path))
    assert [pair["inputs"] for pair in found] == [f"{number} cats" for number in (0, 2, 3, 5)]
    assert "m.tmx.gz: skipped 2 bad lines" in caplog.text


@pytest.mark.parametrize(
    ("url", "there", "expected"),
    [
        ("http://x/get.php?f=corpus.zip", [], "get.php?f=corpus.zip"),
        ("http://x/get.php?f=news/v2/en-de.txt.zip", [], "en-de.txt.zip"),
        ("http://x/a.tgz?raw=true", [], "a.tgz"),
        ("http://x/table.tsv?raw=true", [], "table.tsv"),
        ("http://x/table.tsv?raw=true", ["table.tsv?raw=true"], "table.tsv?raw=true"),
        ("http://x/table.tsv.gz?raw=true", ["table.tsv.gz"], "table.tsv.gz"),
    ],
)
def test_an_address_with_a_query_has_t2ts_file(tmp_path, url, there, expected):
    for name in there:
        (tmp_path / name).touch()
    assert datasets.remote_file(url).path(str(tmp_path)).name == expected


# ---- lines that cannot be read


class Lines(text_problems.Text2TextProblem):
    vocab_type = "character"
    dataset_splits: ClassVar = [{"split": "train", "shards": 1}]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        if self.reader == "tab":
            return text_problems.text2text_txt_tab_iterator(f"{tmp_dir}/t.tsv")
        if self.reader == "shards":
            patterns = f"{tmp_dir}/s?.txt", f"{tmp_dir}/t?.txt"
            return text_problems.text2text_txt_sharded_iterator(*patterns)
        return text_problems.text2text_txt_iterator(f"{tmp_dir}/s1.txt", f"{tmp_dir}/t1.txt")


@pytest.mark.parametrize("reader", ["pair", "shards", "tab"])
def test_bad_lines_are_skipped_in_all_readers(upstream, tmp_path, reader):
    (tmp_path / "s1.txt").write_bytes(b"a\nb\xff\nc\n")
    (tmp_path / "t1.txt").write_bytes(b"A\nB\nC\n")
    (tmp_path / "t.tsv").write_bytes(b"a\tA\nb\t\xffB\nc\tC\n")
    registry.register_problem("usr_lines")(type("Lines", (Lines,), {"reader": reader}))
    folders = str(tmp_path / "data"), str(tmp_path)
    with pytest.raises(DataError, match="line 2: byte 0xff"):
        generate("usr_lines", folders)
    found = registry.problem("usr_lines")
    generator.generate_data(found, *folders, DatagenOptions(num_workers=1, skip_bad=True))
    examples = read_examples(found.existing_filepaths(folders[0], "train"))
    assert sorted(chr(example["inputs"][0] - 2) for example in examples) == ["a", "c"]
    assert found.bad_input.skipped == 1
