"""Readers of files with random damage return, or raise an error that names the file."""

import bz2
import collections
import gzip
import io
import pathlib
import tarfile
import warnings
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t2t_lite.data import records
from t2t_lite.data.corpora import archives, corpora
from t2t_lite.data.generation import fingerprint
from t2t_lite.errors import UserError
from t2t_lite.metrics import parseval
from t2t_lite.metrics.evalb_parameters import COLLINS, EvalbParameters
from t2t_lite.text import (
    lexicon,
    linear_trees,
    sentencepiece_training,
    subword_text_encoder,
    text_encoder,
    text_files,
    trees,
    vocabularies,
)
from t2t_lite.text.bad_input import BadInput

TEXT = "first\nsecond \U0001f600 line\n\n&amp; last\n".encode()
TREES = b"(TOP (S (NP (PRP I)) (VP (VBP am))))\n( (S (A a)\n  (B b) ))\n"
SGM = b"<doc>\n<seg id='1'>A &amp; B</seg>\n<seg>&#228;\nC</seg></doc>\n"
XML = (
    b"<dataset><doc><src><p><seg id='1'>A</seg></p></src>\n"
    b"<ref><seg id='1'>B</seg></ref></doc></dataset>"
)
TMX = (
    b'<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE tmx [<!ENTITY e "f">]>\n<tmx><body>\n<tu>'
    b'<tuv xml:lang="en"><seg>A &e;<hi>b</hi></seg></tuv>\n<tuv lang="de"><seg>B<ph>x</ph></seg>'
    b"</tuv></tu>\n</body></tmx>\n"
)


def _tar(mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode, format=tarfile.PAX_FORMAT) as archive:
        for name, contents in (("a" * 120, b""), ("d/ü", TEXT), ("t", TEXT), ("t.gz", b"\x1f\x8b")):
            info = tarfile.TarInfo(name)
            info.size = len(contents)
            archive.addfile(info, io.BytesIO(contents))
    return file.getvalue()


def _zip(method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("ü/a", TEXT)
        archive.writestr("t", TEXT)
    return file.getvalue()


def _sentencepiece() -> bytes:
    lines = ["some words to learn from", "and some more words"] * 20
    return sentencepiece_training._train("bpe", lines, 300, [])


def _subwords() -> bytes:
    counts = collections.Counter({"some": 5, "words": 3, "ü_": 1})
    encoder = subword_text_encoder.SubwordTextEncoder.build_from_token_counts(counts, 1)
    return "".join(f"'{subtoken}'\n" for subtoken in encoder._subtokens).encode()


def _records() -> bytes:
    example = records.serialize({"inputs": [3, 200, 1], "targets": [4, 1]})
    return records.frame(example) * 2


def _use(encoder: text_encoder.TextEncoder) -> str:
    ids = encoder.encode("some words") if encoder.vocab_size > 100 else []
    return encoder.decode([*ids, *range(min(encoder.vocab_size, 300))])


def _pairs(kind: str) -> Callable[[pathlib.Path, BadInput], object]:
    def read(path: pathlib.Path, bad: BadInput) -> object:
        text = corpora.Text(corpora.RemoteFile(f"https://example.invalid/{path.name}"))
        corpus = {
            "sgm": corpora.AlignedCorpus("c", text, text),
            "xml": corpora.AlignedCorpus("c", text, text),
            "tmx": corpora.TmxCorpus("c", text, ("en", "de")),
            "tsv": corpora.TsvCorpus("c", text),
        }[kind]
        return list(corpus.pairs(str(path.parent), bad))

    return read


def _members(path: pathlib.Path, bad: BadInput) -> object:
    return [list(lines) for _, lines in archives.iterate_members(path, ("t", "a"), bad)]


def _member(path: pathlib.Path, bad: BadInput) -> object:
    return list(archives.iterate_member_lines(path, "t", bad))


def _lines(path: pathlib.Path, bad: BadInput) -> object:
    return list(text_files.iterate_lines(path, bad))


# By the name of a file: what it holds when it is sound, and what reads it.
READERS: dict[str, tuple[Callable[[], bytes], Callable[[pathlib.Path, BadInput], object]]] = {
    "a.txt": (lambda: TEXT, _lines),
    "a.gz": (lambda: gzip.compress(TEXT, mtime=0), _lines),
    "a.bz2": (lambda: bz2.compress(TEXT), _lines),
    "a.tar": (lambda: _tar("w:"), _members),
    "b.tar": (lambda: _tar("w:"), _member),
    "a.tgz": (lambda: gzip.compress(_tar("w:"), mtime=0), _members),
    "a.tar.bz2": (lambda: bz2.compress(_tar("w:")), _member),
    "a.zip": (lambda: _zip(zipfile.ZIP_STORED), _members),
    "b.zip": (lambda: _zip(zipfile.ZIP_DEFLATED), _member),
    "c.zip": (lambda: _zip(zipfile.ZIP_LZMA), _member),
    "d.zip": (lambda: _zip(zipfile.ZIP_BZIP2), _member),
    "a.sgm": (lambda: SGM, _pairs("sgm")),
    "a.xml": (lambda: XML, _pairs("xml")),
    "a.tmx": (lambda: TMX, _pairs("tmx")),
    "a.tsv": (lambda: b"a\tb\n\nc\td\te\n", _pairs("tsv")),
    "a.trees": (
        lambda: TREES,
        lambda path, bad: [
            (linear_trees.linearize(tree), list(trees.phrases(tree)))
            for tree in map(trees.normalise, trees.read_trees(path, bad))
        ],
    ),
    "a.tags": (
        lambda: b"S NP PRP /NP VP VBP /VP /S\nS A B /S\n",
        lambda path, bad: list(
            linear_trees.trees_of_pairs(
                zip(["I am"] * 9, text_files.iterate_lines(path, bad), strict=False), "f", bad
            )
        ),
    ),
    "a.parses": (
        lambda: TREES.replace(b"\n  ", b" "),
        lambda path, bad: [
            parseval.score_sentence(sentence, sentence, COLLINS)
            for sentence in map(parseval.parse_sentence, text_files.iterate_lines(path))
        ],
    ),
    "a.prm": (
        lambda: b"# c\nMAX_ERROR 3\nDELETE_LABEL TOP\nEQ_LABEL A B\nLABELED 1\n",
        lambda path, bad: EvalbParameters.read(path),
    ),
    "a.tokens": (
        lambda: b"some\nwords\n<UNK>\n",
        lambda path, bad: _use(vocabularies.load("tokens", path, "<UNK>")),
    ),
    "a.subwords": (_subwords, lambda path, bad: _use(vocabularies.load("subwords", path))),
    "a.bpe.model": (_sentencepiece, lambda path, bad: _use(vocabularies.load("bpe", path))),
    "a.lexicon": (lambda: b"\tNN VB\ncat\tNN\n", lambda path, bad: lexicon._read(path)),
    "a.records": (_records, lambda path, bad: list(records.read_examples([path]))),
    "a.fingerprint.json": (
        lambda: (
            b'{"all": {"sources": {"a": {"size": 1, "mtime_ns": 2, "sha256": "x"}}, '
            b'"options": {}, "vocabulary": {}, "versions": {}}}'
        ),
        lambda path, bad: fingerprint._read(path),
    ),
}

# What makes a format misbehave where random bytes would not.
_ODD = [
    *(b"(", b")", b"<seg", b"</seg>", b">", b"\n", b"\t", b"\0", b"\xff", b"\xed\xa0\x80", b"["),
    *(b"&#xD800;", b"&#" + b"9" * 5000 + b";", b"9" * 20, b"9" * 5000, b"\x1f\x8b", b"PK\x03\x04"),
    *("\U0010ffff".encode(), b"\\", b"'", b"<!--", b"]]>", b"<![CDATA[", b"&e;", b"\xff\xfe"),
]

# Where something happens, what, and how often it is repeated.
changes = st.lists(
    st.tuples(
        st.integers(0, 2**16),
        st.one_of(st.binary(max_size=4), st.sampled_from(_ODD), st.integers(1, 40)),
        st.sampled_from([1, 1, 1, 2, 3000]),
    ),
    min_size=1,
    max_size=4,
)


def mutated(contents: bytes, edits: list[tuple[int, bytes | int, int]]) -> bytes:
    """Overwrites, inserts and removes bytes."""
    data = bytearray(contents)
    for place, what, times in edits:
        start = place % (len(data) + 1)
        if isinstance(what, int):
            del data[start : start + what * times]
        elif times == 1:
            data[start : start + len(what)] = what
        else:
            data[start:start] = what * times
    return bytes(data)


@pytest.mark.parametrize("name", READERS)
def test_a_sound_file_is_read(tmp_path, name):
    make, read = READERS[name]
    (tmp_path / name).write_bytes(make())
    assert read(tmp_path / name, BadInput())


@pytest.mark.integration
@pytest.mark.parametrize("name", READERS)
def test_mutated_bytes_are_an_error_with_a_name_at_most(tmp_path, name):
    make, read = READERS[name]
    contents = make()
    path = tmp_path / name

    @given(changes, st.booleans())
    @settings(
        max_examples=20,
        deadline=5000,
        derandomize=True,  # to look further is benchmarks/hostile.py's business
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(edits, skip):
        path.write_bytes(mutated(contents, edits))
        message = ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zipfile's of a name that is there twice
            try:
                read(path, BadInput(skip))
            except UserError as error:
                message = str(error)
        assert "\n" not in message
        assert len(message) < 1000

    check()
