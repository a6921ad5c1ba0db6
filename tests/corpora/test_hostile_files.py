"""Malformed files, compressed files and archives raise errors that name them, in bounded memory."""

import bz2
import functools
import gzip
import io
import json
import os
import struct
import tarfile
import time
import tracemalloc
import types
import zipfile

import pytest

from t2t_lite.corpora import archives
from t2t_lite.data import records
from t2t_lite.decoding import input_lines as decoder_lines
from t2t_lite.errors import DataError, UserError, did_you_mean, quoted
from t2t_lite.generation import chunks, cleaning, fingerprint
from t2t_lite.text import lexicon, text_encoder, text_files, trees, vocabularies
from t2t_lite.text.bad_input import BadInput
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder


def tar(path, members, kind="w:"):
    with tarfile.open(path, kind) as archive:
        for name, contents, type_ in members:
            info = tarfile.TarInfo(name)
            info.size, info.type = len(contents), type_
            archive.addfile(info, io.BytesIO(contents))
    return path


# ---- lines


def zipped(contents: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", contents)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "compress"),
    [("a.txt", bytes), ("a.gz", gzip.compress), ("a.bz2", bz2.compress), ("a.zip", zipped)],
)
@pytest.mark.parametrize("skip", [False, True])
def test_a_file_without_line_ends_is_named_in_bounded_memory(
    tmp_path, monkeypatch, name, compress, skip
):
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 2**18)
    path = tmp_path / name
    path.write_bytes(compress(b"1\n2\n" + bytes(2**25)))
    shown = f"{path}:a" if name == "a.zip" else f"{path}"
    lines = (
        archives.iterate_member_lines(path, "a", BadInput(skip))
        if name == "a.zip"
        else text_files.iterate_lines(path, BadInput(skip))
    )
    assert [next(lines), next(lines)] == ["1", "2"]
    tracemalloc.start()
    with pytest.raises(DataError, match=f"^{shown}, line 3: longer than 262,144 bytes; expected"):
        next(lines)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**23


def test_the_longest_line_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 10)
    (tmp_path / "a").write_bytes(b"123456789\n1234567890")
    assert text_files.read_lines(tmp_path / "a") == ["123456789", "1234567890"]
    (tmp_path / "a").write_bytes(b"1234567890\n")
    with pytest.raises(DataError, match="a, line 1: longer than 10 bytes"):
        text_files.read_lines(tmp_path / "a")


def test_standard_input_without_line_ends_is_an_error(monkeypatch):
    monkeypatch.setattr(decoder_lines, "MAX_LINE_BYTES", 100)
    read, write = os.pipe()
    with open(write, "wb") as file:
        file.write(b"1\n2\n" + bytes(200))
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(fileno=lambda: read))
    found = iter(decoder_lines._StandardInput())
    assert [next(found), next(found)] == [b"1\n", b"2\n"]
    with pytest.raises(DataError, match="standard input, line 3: longer than"):
        next(found)
    os.close(read)


def test_a_tree_over_endless_lines_is_cut(monkeypatch):
    monkeypatch.setattr(trees, "MAX_LINE_BYTES", 1000)
    endless = ["((S", *["  (A a)"] * 10**6]
    with pytest.raises(DataError, match="f, line 1: closing brackets missing at the end: 2; add"):
        next(trees.trees_of_lines(endless, "f"))


# ---- archives


def test_an_encrypted_member_is_named(tmp_path):
    path = tmp_path / "a.zip"
    contents = bytearray(zipped(b"text\n"))
    directory = contents.index(b"PK\x01\x02")
    for flags in (6, directory + 8):
        contents[flags] |= 1
    path.write_bytes(contents)
    for skip in (False, True):
        with pytest.raises(DataError, match=rf"^{path}:a: encrypted; repack the archive without"):
            list(archives.iterate_member_lines(path, "a", BadInput(skip)))
        with pytest.raises(DataError, match=rf"^{path}:a: encrypted"):
            [list(lines) for _, lines in archives.iterate_members(path, ("a",), BadInput(skip))]


def test_an_unknown_method_is_named(tmp_path):
    path = tmp_path / "a.zip"
    contents = bytearray(zipped(b"text\n"))
    directory = contents.index(b"PK\x01\x02")
    for method in (8, directory + 10):
        struct.pack_into("<H", contents, method, 93)
    path.write_bytes(contents)
    with pytest.raises(
        DataError,
        match=r"a\.zip:a: compressed with method 93; repack the archive with one of stored, "
        "deflate, bzip2, lzma",
    ):
        list(archives.iterate_member_lines(path, "a"))


def test_a_name_in_a_zip_that_is_not_utf_8_is_an_error(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ü", b"")
    path.write_bytes(path.read_bytes().replace("ü".encode(), b"\xff\xff"))
    with pytest.raises(DataError, match=r"a\.zip:a, after line 0: damaged or truncated"):
        list(archives.iterate_member_lines(path, "a"))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
@pytest.mark.parametrize("before", [[], [("b", b"text\n", tarfile.REGTYPE)]])
def test_a_header_of_an_archive_is_not_read_into_memory_whatever_its_size(tmp_path, kind, before):
    path = tar(tmp_path / "a.tgz", [*before, ("x", bytes(2**25), kind)], "w:gz")
    tracemalloc.start()
    expected = r"the header of a member has 33,554,432 bytes; at most 32,768 are expected"
    with pytest.raises(DataError, match=rf"damaged or truncated \({expected}\)"):
        list(archives.iterate_member_lines(path, "a"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**23


def test_headers_that_follow_each_other_without_end_do_not_overflow(tmp_path):
    path = tar(tmp_path / "a.tar", [("x", b"name\0", tarfile.GNUTYPE_LONGNAME)] * 2000)
    with pytest.raises(DataError, match=r"a\.tar:a, after line 0: damaged or truncated"):
        list(archives.iterate_member_lines(path, "a"))


def test_numbers_of_a_sparse_member_that_are_none_are_an_error(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a")
        info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
        info.size = 512
        archive.addfile(info, io.BytesIO(b"many\n" + bytes(507)))
    with pytest.raises(DataError, match=r"a\.tar:a, after line 0: damaged or truncated"):
        list(archives.iterate_member_lines(path, "a"))


# ---- vocabularies, records and fingerprints


def test_lone_surrogates_are_no_text(tmp_path):
    with pytest.raises(
        DataError, match=r"training text contains the lone surrogate U\+D800, which"
    ):
        vocabularies.build("bpe", tmp_path / "v", ["a", "b\ud800"], 300)
    (tmp_path / "a").write_bytes("x\n\ud800\n".encode("utf-8", "surrogatepass"))
    with pytest.raises(DataError, match="a, line 2: byte 0xed at column 1 is not UTF-8"):
        text_files.read_lines(tmp_path / "a")


def test_a_sample_with_a_lone_surrogate_is_named():
    encoder = text_encoder.ByteTextEncoder()
    examples = chunks.ExampleEncoder("my_problem", {"inputs": encoder, "targets": encoder})
    chunk = chunks.Chunk(10, ["a", "b"], ["c", "d\udcff"])
    with pytest.raises(
        DataError, match=r"my_problem: sample 12 contains the lone surrogate U\+DCFF"
    ):
        examples.encode(chunk)
    assert cleaning.SeenPairs().add("b", "d\udcff")


def test_one_long_subtoken_does_not_slow_the_others_down():
    sound = SubwordTextEncoder.build_from_token_counts({"some": 5, "text": 3}, 1)
    odd = SubwordTextEncoder([*sound._subtokens, "s" * 10**6])
    start = time.thread_time()
    assert odd.encode("some" * 10_000) == sound.encode("some" * 10_000)
    assert time.thread_time() - start < 5


def test_a_vocabulary_is_built_from_a_very_long_word_in_linear_time():
    start = time.thread_time()
    built = SubwordTextEncoder.build_from_token_counts({"a" * 20_000: 1, "b": 2}, 2)
    assert time.thread_time() - start < 5
    assert built.decode(built.encode("aab a")) == "aab a"


@pytest.mark.parametrize("name", ["a.subwords", "a.tokens", "a.bpe.model", "a.lexicon"])
def test_long_nonsense_as_a_vocabulary_is_a_short_message(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"(x " * 10**6)
    read = (
        lexicon._read
        if name == "a.lexicon"
        else functools.partial(vocabularies.load, name.split(".")[1])
    )
    with pytest.raises(DataError, match=name) as caught:
        read(path)
    assert len(str(caught.value)) < 1000


def test_a_record_that_claims_to_be_huge_is_not_believed(tmp_path):
    for length in (2**40, 2**63 + 1):
        (tmp_path / "a").write_bytes(records._header(length) + b"x")
        with pytest.raises(DataError, match="a, record 1: damaged or truncated file"):
            list(records.read_examples([tmp_path / "a"]))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        json.dumps({"all": []}),
        json.dumps({"all": {"sources": {}, "options": [], "vocabulary": {}, "versions": {}}}),
        "\0",
        '{"all": {"sources": {}, "' + "x" * 10**6 + '": 1}}',
    ],
)
def test_a_fingerprint_that_is_none_is_a_short_message(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=r"a\.json: not a fingerprint \(") as caught:
        fingerprint._read(tmp_path / "a.json")
    assert len(str(caught.value)) < 1000


# ---- messages


def test_what_a_file_holds_is_quoted_in_short():
    assert quoted("it's") == '"it\'s"'
    assert len(quoted("x" * 10**7)) <= 120


def test_the_nearest_name_is_found_in_short_time():
    names = [f"corpus/part-{number:06d}.txt" for number in range(300_000)]
    start = time.thread_time()
    did_you_mean("corpus/par-00001.txt", names)
    assert did_you_mean("x" * 10**6, names) == ""
    assert time.thread_time() - start < 5
