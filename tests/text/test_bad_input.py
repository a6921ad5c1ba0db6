"""Errors in raw text name file and line; skipping one leaves everything else aligned."""

import bz2
import gzip
import itertools
import logging
import pathlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.archives import write_archive
from support.texts import pairs_of
from t2t_lite.data.corpora import archives, corpora, segments
from t2t_lite.data.corpora.corpora import AlignedCorpus, RemoteFile, Text, TmxCorpus, TsvCorpus
from t2t_lite.errors import DataError
from t2t_lite.text import linear_trees, text_files, trees
from t2t_lite.text.bad_input import STRICT, UNREADABLE, BadInput

# Everything but "\n" at which some reader or other ends a line.
SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
BOM = b"\xef\xbb\xbf"


@pytest.fixture
def bad(caplog) -> BadInput:
    caplog.set_level(logging.INFO)
    return BadInput(skip=True)


@pytest.fixture
def write(tmp_path):
    def write(name: str, contents: bytes | str) -> pathlib.Path:
        path = tmp_path / name
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return path

    return write


def local(path: pathlib.Path, member: str | None = None) -> Text:
    return Text(RemoteFile(f"https://example.invalid/{path.name}"), member)


def numbered(count: int, word: str = "line") -> bytes:
    """Lines that compress poorly, so that a cut loses some of them."""
    digits = random.Random(word)
    return b"".join(
        b"%s %d %d\n" % (word.encode(), i, digits.getrandbits(99)) for i in range(count)
    )


# ---- what is told


def test_strict_is_an_error_with_the_message_alone():
    with pytest.raises(DataError, match=r"^a, line 1: bad$") as caught:
        BadInput()(DataError("a, line 1: bad"))
    assert caught.value.__suppress_context__
    assert STRICT.skipped == 0


def test_the_first_of_each_corpus_are_named_and_all_are_counted(bad, caplog):
    def lines(count: int):
        for number in range(count):
            bad(DataError(f"line {number}: bad"))
            yield number

    for name, count in (("one", 12), ("two", 0), ("three", 3)):
        assert list(bad.counted(lines(count), name)) == list(range(count))
    assert caplog.messages == [
        *(f"skipped: line {number}: bad" for number in range(10)),
        "more lines are skipped; from here on they are only counted",
        "one: skipped 12 bad lines",
        *(f"skipped: line {number}: bad" for number in range(3)),
        "three: skipped 3 bad lines",
    ]
    assert bad.skipped == 15


# ---- lines


@given(st.lists(st.one_of(st.binary(), st.text().map(str.encode))))
def test_the_number_of_lines_and_the_good_ones_do_not_depend_on_the_bad(contents):
    lines = [line.replace(b"\n", b"") for line in contents]
    if lines and lines[0].startswith((b"\xff\xfe", b"\xfe\xff", BOM)):
        lines = lines[1:]
    bad = BadInput(skip=True)
    found = list(text_files.decoded_lines((line + b"\n" for line in lines), "f", bad))
    assert len(found) == len(lines)
    wrong = 0
    for text, line in zip(found, lines, strict=True):
        try:
            assert text == line.decode()
            assert bad.is_usable(text)
        except UnicodeDecodeError:
            wrong += 1
            assert not bad.is_usable("", text)
    assert bad.skipped == wrong


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0"])
def test_utf_16_is_named_and_never_skipped(write, bad, mark):
    path = write("f.txt", mark + "a\n".encode("utf-16-le"))
    for either in (STRICT, bad):
        with pytest.raises(DataError, match=r"f\.txt, line 1: the byte order mark of UTF-16; conv"):
            list(text_files.iterate_lines(path, either))


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_all_lines_before_a_cut_are_used(write, bad, caplog, suffix, compress):
    # bzip2 holds 900 kB in a block, which is whole or lost.
    contents = numbered(40_000)
    packed = compress(contents)
    path = write(f"f.{suffix}", packed[: len(packed) * 9 // 10])
    found = list(bad.counted(text_files.iterate_lines(path, bad), "f"))
    assert found == contents.decode().split("\n")[: len(found)]
    assert len(found) > 10_000
    assert (bad.skipped, bad.cuts) == (1, 1)
    assert f"{path}, after line {len(found)}: damaged or truncated" in caplog.text
    assert caplog.messages[-1] == "f: skipped 1 bad lines"
    with pytest.raises(DataError, match=rf"{path}, after line {len(found)}: damaged or truncated"):
        list(text_files.iterate_lines(path))


def test_wrong_bytes_are_never_skipped_as_lines_before_them_may_be_wrong(write, bad):
    packed = bytearray(gzip.compress(numbered(1000)))
    packed[-6] ^= 0xFF  # a check sum
    with pytest.raises(DataError, match=r"f\.gz, after line 1000: damaged or truncated \(CRC"):
        list(text_files.iterate_lines(write("f.gz", bytes(packed)), bad))


def test_members_of_a_cut_archive_are_used_up_to_the_cut(tmp_path, bad):
    members = {"a.txt": "1\n2\n", "x": b"\xff", "b.txt": numbered(20_000), "c.txt": "3\n"}
    path = write_archive(tmp_path / "f.tgz", members)
    packed = path.read_bytes()
    path.write_bytes(packed[: len(packed) // 2])
    found = [(name, list(lines)) for name, lines in archives.iterate_members(path, (".txt",), bad)]
    assert [name for name, _ in found] == [f"{path}:a.txt", f"{path}:b.txt"]
    assert found[0][1] == ["1", "2"]
    assert found[1][1] == numbered(20_000).decode().split("\n")[: len(found[1][1])]
    assert len(found[1][1]) > 5000
    assert bad.cuts >= 1
    strict = (line for _, lines in archives.iterate_members(path, (".txt",)) for line in lines)
    with pytest.raises(DataError, match=rf"{path}:b\.txt, after line \d+: damaged or truncated"):
        list(strict)


# ---- pairs


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20))
@settings(deadline=None, max_examples=50)
def test_bad_lines_never_make_a_pair_slip(tmp_path_factory, kinds):
    """0: good; 1: not UTF-8; 2: blank; 3: odd separators inside."""
    folder = tmp_path_factory.mktemp("pairs")
    kinds = [*kinds, (0, 0)]
    forms = [b"%d", b"\xff%d", b" ", SEPARATORS.encode() + b"%d" + SEPARATORS.encode() + b"x"]
    for side, name in enumerate(("a", "b")):
        lines = [forms[kind[side]].replace(b"%d", b"%d" % i) for i, kind in enumerate(kinds)]
        (folder / name).write_bytes(b"\r\n".join(lines) + b"\r\n")
    bad = BadInput(skip=True)
    found = pairs_of(corpora.aligned_pairs(folder / "a", folder / "b", bad))
    expected = []
    for i, kind in enumerate(kinds):
        if set(kind) <= {0, 3}:
            texts = [str(i), "", "", f"{SEPARATORS}{i}{SEPARATORS}x".strip()]
            expected.append((texts[kind[0]], texts[kind[1]]))
    assert found == expected
    assert bad.skipped == sum(kind.count(1) for kind in kinds)


def test_a_pair_with_a_bad_line_is_named_skipped_and_counted_once(write, bad, caplog):
    a = write("a", BOM + b"1\r\nz\xfcrich\r\n3\r\n4\r\n")
    b = write("b", "\ufeffeins\r\nZürich\r\n\r\nvier\r\n")
    expected = f"{a}, line 2: byte 0xfc at column 2 is not UTF-8"
    with pytest.raises(DataError, match=f"^{expected}"):
        list(corpora.aligned_pairs(a, b))
    assert pairs_of(corpora.aligned_pairs(a, b, bad)) == [("1", "eins"), ("4", "vier")]
    assert caplog.messages[0].startswith(f"skipped: {expected}")
    assert caplog.messages[1:] == [
        f"{a} and {b}: skipped 1 bad lines",
        f"{a} and {b}: dropped 1 of 3 pairs: one side is empty",
        f"{a} and {b}: 2 pairs",
    ]


def test_if_one_of_two_files_is_cut_the_pairs_up_to_there_are_used(write, bad, caplog):
    plain, packed = numbered(9000, "en"), gzip.compress(numbered(9000, "de"))
    a, b = write("a", plain), write("b.gz", packed[: len(packed) // 2])
    sources, targets = (text.decode().strip().split("\n") for text in (plain, numbered(9000, "de")))
    for first, second, expected in ((a, b, (sources, targets)), (b, a, (targets, sources))):
        found = pairs_of(corpora.aligned_pairs(first, second, bad))
        assert 1000 < len(found) < 9000
        assert found == list(itertools.islice(zip(*expected, strict=True), len(found)))
        assert f"b.gz, after line {len(found)}: damaged or truncated" in caplog.text
        with pytest.raises(DataError, match=r"b\.gz, after line \d+: damaged or truncated"):
            list(corpora.aligned_pairs(first, second))


def test_unequal_numbers_of_lines_stay_an_error(write, bad):
    a = write("a", b"1\n\xff\n3\n")
    for name, contents in (("b", "1\n2\n"), ("c", "1\n2\n3\n4\n")):
        with pytest.raises(DataError, match=r"a and .*: 3 and [24] lines; both must have the same"):
            list(corpora.aligned_pairs(a, write(name, contents), bad))
    # The longer one is cut behind the end of the shorter one, so that this does not explain it.
    packed = gzip.compress(numbered(9000))
    longer = write("d.gz", packed[: len(packed) // 2])
    with pytest.raises(DataError, match=r"a and .*: 3 and \d+ lines; both must have the same"):
        list(corpora.aligned_pairs(a, longer, bad))


def test_nothing_but_bad_lines_is_an_error(write, bad):
    path = write("a", b"\xff\n")
    with pytest.raises(DataError, match="no pair has text on both sides"):
        list(corpora.aligned_pairs(path, path, bad))


# ---- SGM, TMX and TSV


def sgm(*contents: str) -> bytes:
    return "\r\n".join(contents).encode("latin-1")


def test_sgm_segments_that_cannot_be_read_keep_their_place(write, tmp_path, bad):
    a = write("a.sgm", sgm(*(f"<seg>{i}</seg>" for i in range(6))))
    b = write(
        "b.sgm",
        sgm(
            "<seg>null", "<seg>eins</seg>", "<seg>zw\xfc", "i</seg><seg>drei", "<seg>v", "ier</seg>"
        )
        + b"<seg>f\n",
    )
    expected = f"{b}, line 1: <seg> without </seg>"
    corpus = AlignedCorpus("c", local(a), local(b))
    with pytest.raises(DataError, match=f"^{expected}"):
        list(corpus.pairs(str(tmp_path)))
    assert pairs_of(corpus.pairs(str(tmp_path), bad)) == [("1", "eins"), ("4", "v ier")]
    assert bad.skipped == 4


def test_sgm_strict_names_every_bad_line():
    lines = ["<seg>a</seg>", "<seg>b", "<seg>c</seg>", "<seg>d"]
    errors = []

    class Collecting(BadInput):
        def __call__(self, error: DataError) -> None:
            errors.append(str(error))

    found = list(segments.sgm_segments(lines, "f.sgm", Collecting()))
    assert found == ["a", UNREADABLE, "c", UNREADABLE]
    assert errors == [f"f.sgm, line {number}: <seg> without </seg>" for number in (2, 4)]


@pytest.mark.parametrize("broken", [b"<tu></body>", b"<tu>\xff</tu>", b"&nonsense;", b""])
def test_units_of_tmx_that_are_not_xml_are_left_out(write, tmp_path, bad, broken):
    unit = "<tu><tuv lang='en'><seg>{}</seg></tuv><tuv lang='de'><seg>\u2028ä\x85</seg></tuv></tu>"
    good = [unit.format(number).encode() for number in range(3)]
    head, tail = BOM + b"<tmx><body>", b"</body></tmx>" if broken else b""
    path = write("f.tmx", b"\r\n".join([head, *good[:2], broken, *good[2:], tail]))
    corpus = TmxCorpus("c", local(path), ("en", "de"))
    line = 4 if broken else 6
    with pytest.raises(DataError, match=rf"^{path}, line {line}: not well-formed XML"):
        list(corpus.pairs(str(tmp_path)))
    expected = [("0", "ä"), ("1", "ä"), ("2", "ä")]
    assert pairs_of(corpus.pairs(str(tmp_path), bad)) == expected
    assert bad.skipped == 1


def test_tsv_lines_that_cannot_be_read_are_left_out(write, tmp_path, bad):
    path = write(
        "f.tsv", BOM + b"a\tb\r\nc\r\n\r\n\xffd\te\r\nf\tg\xff\th\r\ni\x85\xc2\x85j\tk\r\n"
    )
    path.write_bytes(path.read_bytes().replace(b"i\x85", b"i"))
    corpus = TsvCorpus("c", local(path), (0, 1))
    with pytest.raises(DataError, match=rf"^{path}, line 2: 1 columns; at least 2 needed"):
        list(corpus.pairs(str(tmp_path)))
    assert pairs_of(corpus.pairs(str(tmp_path), bad)) == [("a", "b"), ("i\x85j", "k")]
    assert bad.skipped == 3


def test_bad_bytes_in_a_column_that_is_not_used_skip_the_line_all_the_same(bad):
    lines = text_files.decoded_lines([b"a\tb\t\xff\n", b"c\td\te\n"], "f.tsv", bad)
    assert list(segments.tsv_pairs(lines, "f.tsv", (0, 1), bad)) == [("c", "d")]


@pytest.mark.parametrize("form", ["sgm", "tmx", "tsv"])
def test_marked_up_files_are_used_up_to_a_cut(write, tmp_path, bad, form):
    lines = numbered(5000).decode().split("\n")[:-1]
    variant = "<tuv lang='{}'><seg>{}</seg></tuv>"
    texts = {
        "sgm": (f"<seg>{line}</seg>\r\n" for line in lines),
        "tmx": (
            f"<tu>{variant.format('en', line)}{variant.format('de', line)}</tu>\r\n"
            for line in lines
        ),
        "tsv": (f"{line}\t{line}\r\n" for line in lines),
    }
    head, tail = ("<tmx><body>\r\n", "</body></tmx>") if form == "tmx" else ("", "")
    packed = gzip.compress((head + "".join(texts[form]) + tail).encode())
    path = write(f"f.{form}.gz", packed[: len(packed) // 2])
    corpus = {
        "sgm": AlignedCorpus("c", local(path), local(path)),
        "tmx": TmxCorpus("c", local(path), ("en", "de")),
        "tsv": TsvCorpus("c", local(path)),
    }[form]
    with pytest.raises(DataError, match=rf"^{path}, after line \d+: damaged or truncated"):
        list(corpus.pairs(str(tmp_path)))
    found = pairs_of(corpus.pairs(str(tmp_path), bad))
    assert len(found) > 1000
    assert found == [(line, line) for line in lines[: len(found)]]
    assert bad.cuts >= 1


# ---- trees


def test_bad_trees_are_named_and_left_out(write, bad, caplog):
    rows = [
        (b"(TOP (A a))", None),
        (b"(TOP (A a)", "closing brackets missing at the end: 1; add them"),
        (b"(TOP (A a)))", "an extra closing bracket; remove it"),
        (b"(TOP (A (B )))", "a tree without words; remove it"),
        (b"(TOP (-NONE- *))", "a tree of traces without words: "),
        (b"(TOP (A a))", None),
        (b"(TOP (A z\xfcrich))", "byte 0xfc at column 10 is not UTF-8"),
        (b"( (S (A a)", None),
        (b"  (B b) ))", None),
        (b"( (S (A a)", None),
        (b"  (B \xff) )", "byte 0xff at column 6 is not UTF-8"),
        (b"  (C c) ))", None),
        ("(TOP (A a\x85b\u2028c\u2009d))".encode(), None),
    ]
    path = write("f.trees", BOM + b"\r\n".join(line for line, _ in rows) + b"\r\n")
    lines = text_files.iterate_lines(path, bad)
    found = list(trees.trees_of_lines(lines, str(path), bad, trees.normalise))
    assert [tree.words() for tree in found] == [["a"], ["a"], ["a", "b"], ["a\x85b\u2028c\u2009d"]]
    expected = [
        f"skipped: {path}, line {number}: {message}"
        for number, (_, message) in enumerate(rows, 1)
        if message
    ]
    for message, start in zip(caplog.messages, expected, strict=True):
        assert message.startswith(start)


def test_each_bad_tree_is_an_error_of_its_line(write):
    for number, line in enumerate(["(A (B b)", "(A (B b)))", "(A (B ))", "(A (-NONE- *))"], 1):
        path = write("f.trees", "(TOP (A a))\r\n" * number + f"{line}\r\n")
        lines = text_files.iterate_lines(path)
        with pytest.raises(DataError, match=rf"^{path}, line {number + 1}: [^\n]+$"):
            list(trees.trees_of_lines(lines, str(path), form=trees.normalise))


@pytest.mark.parametrize(
    ("text", "tags", "message"),
    [
        ("I am here", "S NP PRP /NP VP VBP /VP /S", "3 words but 2 tags; there must be one"),
        ("I", "S NP PRP /NP VP VBP /VP /S", "1 words but 2 tags"),
        ("", "S NP PRP /NP /S", "0 words but 1 tags"),
        ("I am", "", "2 words but 0 tags"),
        ("I am", "S NP PRP /NP VP VBP /S", "2 words but 3 tags"),
        ("I am", "S NP PRP /NP VP VBP /S /VP", "the symbols do not form a tree; repairs needed: "),
        (
            "I am",
            "S NP PRP /NP VP VBP /VP /S /S",
            "the symbols do not form a tree; repairs needed: 1",
        ),
        ("I am", "S NP /NP PRP VP VBP /VP /S", "the symbols do not form a tree; repairs needed: 1"),
    ],
)
def test_words_and_symbols_that_do_not_fit_are_named_and_left_out(bad, text, tags, message):
    good = ("I am", "S NP PRP /NP VP VBP /VP /S")
    rows = [good, ("", ""), (text, tags), (UNREADABLE, "X"), good]
    tree = trees.parse_tree("(TOP (S (NP (PRP I)) (VP (VBP am))))")
    assert list(linear_trees.trees_of_pairs(rows, "a and b", bad)) == [tree, tree]
    assert bad.skipped == 1
    with pytest.raises(DataError, match=f"^a and b, line 3: {message}"):
        list(linear_trees.trees_of_pairs(rows, "a and b"))


def test_words_and_symbols_of_a_treebank_fit(shared_data):
    archive = shared_data / "craft/craft-treebank-penn-dev.tgz"
    members = archives.iterate_members(archive, (".tree",))
    name, lines = next(members)
    found = list(trees.trees_of_lines(lines, name, form=trees.normalise))
    assert len(found) > 200
    pairs = [tuple(map(" ".join, linear_trees.linearize(tree))) for tree in found]
    assert list(linear_trees.trees_of_pairs(pairs, "a and b")) == found
