import bz2
import gzip
import hashlib
import logging
import pathlib
from xml.sax import saxutils

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.archives import write_archive
from support.texts import pairs_of
from t2t_lite.data.corpora import corpora
from t2t_lite.data.corpora.corpora import AlignedCorpus, RemoteFile, Text, TmxCorpus, TsvCorpus
from t2t_lite.errors import DataError, UserError
from t2t_lite.text.source_form import has_text

text = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1)
line = text.filter(
    lambda line: has_text(line) and line == line.strip() and not line.startswith("\ufeff")
)


@pytest.fixture
def write(tmp_path):
    def write(name: str, contents: str | bytes):
        path = tmp_path / name
        data = contents if isinstance(contents, bytes) else contents.encode()
        compress = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
        path.write_bytes(compress(data))
        return path

    return write


@given(st.lists(st.tuples(line, line), min_size=1))
@settings(max_examples=50, deadline=None)
def test_line_n_of_one_file_meets_line_n_of_the_other(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("pairs")
    sources, targets = zip(*pairs, strict=True)
    end = "\n" if len(pairs) == 1 else ""  # else a CR in the only line ends all lines
    (folder / "a").write_bytes(("\n".join(sources) + end).encode())
    (folder / "b").write_bytes(("\n".join(targets) + "\n").encode())
    found = corpora.aligned_pairs(folder / "a", folder / "b")
    assert pairs_of(found) == pairs


def test_reads_compressed_files_and_strips_white_space(write):
    found = corpora.aligned_pairs(write("a.gz", " x y\t\r\n"), write("b.bz2", "z\r\n"))
    assert list(found) == [{"inputs": "x y", "targets": "z"}]


def test_pairs_with_an_empty_side_are_dropped_and_counted(write, caplog):
    caplog.set_level(logging.WARNING)
    texts = "1\n\n3\n4\n\u200b\n6\n", "1\n2\n \n4\n5\n\ufeff\u00ad\x01\n"
    found = corpora.aligned_pairs(write("a", texts[0]), write("b", texts[1]))
    assert [sample["inputs"] for sample in found] == ["1", "4"]
    assert "dropped 4 of 6 pairs" in caplog.text


@pytest.mark.parametrize(
    ("inputs", "targets", "counts"),
    [("1\n2\n3\n4\n", "1\n2\n", "4 and 2"), ("1\n", "1\n2\n3", "1 and 3"), ("", "1\n", "0 and 1")],
)
def test_unequal_lengths_are_an_error_with_both_counts(write, inputs, targets, counts):
    a, b = write("a", inputs), write("b", targets)
    with pytest.raises(DataError, match=f"{a} and {b}: {counts} lines"):
        list(corpora.aligned_pairs(a, b))


@pytest.mark.parametrize("contents", ["", "\n\n", "1\n\n"])
def test_files_without_a_pair_are_an_error_that_names_them(write, contents):
    a, b = write("a", contents), write("b", "\n" * contents.count("\n"))
    with pytest.raises(DataError, match=f"{a} and {b}: no pair"):
        list(corpora.aligned_pairs(a, b))


def test_undecodable_bytes_are_an_error_that_names_file_and_line(write):
    b = write("b", b"1\n2\n\xff\n")
    with pytest.raises(DataError, match=f"{b}, line 3"):
        list(corpora.aligned_pairs(write("a", "1\n2\n3\n"), b))


def test_finds_a_file_plain_or_compressed(write, tmp_path, caplog):
    assert corpora.find_file(tmp_path / "a") is None
    for name in ("a.bz2", "a.gz", "a"):
        path = write(name, "x")
        assert corpora.find_file(tmp_path / "a") == path
    assert corpora.find_file(tmp_path / "a") == path
    assert caplog.messages == [
        f"reading {tmp_path}/a.gz and ignoring a.bz2 beside it",
        f"reading {tmp_path}/a and ignoring a.gz and a.bz2 beside it",
    ]


@pytest.mark.parametrize("algorithm", ["sha256", "md5", None])
def test_downloads_a_file_over_what_a_killed_download_left(write, tmp_path, algorithm):
    origin = write("origin.txt", "contents")
    file_hash = hashlib.new(algorithm, b"contents").hexdigest() if algorithm else None
    target = tmp_path / "folder" / "copy.txt"
    target.parent.mkdir()
    (target.parent / "copy.txt.incomplete").write_text("cont")
    corpora.download(origin.as_uri(), target, file_hash)
    assert target.read_text() == "contents"
    assert list(target.parent.iterdir()) == [target]


def test_a_download_with_another_hash_or_none_says_where_to_put_the_file(write, tmp_path):
    target = tmp_path / "folder" / "copy.txt"
    for origin in (write("origin.txt", "contents"), tmp_path / "absent.txt"):
        expected = f"cannot download {origin.as_uri()} .*put it at {target}"
        with pytest.raises(UserError, match=expected):
            corpora.download(origin.as_uri(), target, "0" * 64)
        assert list(target.parent.iterdir()) == []


# ---- corpora


def local(path: pathlib.Path) -> RemoteFile:
    """A file that already exists in `tmp_dir`."""
    return RemoteFile(f"https://example.invalid/{path.name}")


def pairs(corpus: corpora.Corpus, folder: pathlib.Path) -> list[tuple[str, str]]:
    return pairs_of(corpus.pairs(str(folder)))


def test_a_corpus_fetches_what_is_missing_when_its_pairs_are_asked_for(write, tmp_path):
    upstream = [write("a.en.gz", "1\n2\n"), write("a.de.bz2", "eins\nzwei\n")]
    corpus = AlignedCorpus("a", *(Text(RemoteFile(path.as_uri())) for path in upstream))
    folder = tmp_path / "tmp_dir"
    corpus.pairs(str(folder))
    assert sorted(path.name for path in folder.iterdir()) == ["a.de.bz2", "a.en.gz"]
    for path in upstream:
        path.unlink()
    assert pairs(corpus, folder) == [("1", "eins"), ("2", "zwei")]


def test_a_file_put_there_by_hand_is_taken_and_another_size_is_logged(write, tmp_path, caplog):
    path = write("a.txt", "contents")
    for size in (None, 8):
        assert RemoteFile("https://example.invalid/a.txt", size).fetch(str(tmp_path)) == path
    assert not caplog.text
    RemoteFile("https://example.invalid/a.txt", 9).fetch(str(tmp_path))
    assert f"{path} has 8 bytes, https://example.invalid/a.txt has 9" in caplog.text


def test_without_a_network_one_line_names_address_and_path(tmp_path):
    absent = (tmp_path / "absent/c.tgz").as_uri()
    corpus = TsvCorpus("c", Text(RemoteFile(absent), "c.tsv"))
    with pytest.raises(UserError, match=f"cannot download {absent} .*put it at {tmp_path}/c.tgz$"):
        corpus.pairs(str(tmp_path))


@pytest.fixture
def archive(tmp_path) -> RemoteFile:
    seg = "<doc>\n<seg id='1'>A &amp; B</seg>\n<seg id='2'>\u0085C\u2028D</seg>\n</doc>\n"
    src = "<src><p><seg id='1'>A &amp;</seg></p><p><seg id='2'>B</seg></p></src>"
    tmx = "<tmx><body>\n<tu><tuv lang='de'><seg>x</seg></tuv><tuv lang='en'><seg>y</seg></tuv></tu>"
    members = {
        "test/src.en.sgm": seg,
        "test/ref.de.sgm.gz": gzip.compress(seg.replace("A", "Ä").encode()),
        "news.all.xml": f"<set><doc>{src}{src.replace('src', 'ref')}</doc></set>",
        "news.src.xml.gz": gzip.compress(f"<set><doc>{src}</doc></set>".encode()),
        "c.tsv": "id\tdrei\tthree\r\nid\tvier\tfour\r\n",
        "c.tmx": f"{tmx}</body></tmx>",
        "three.txt": "1\n2\n3\n",
        "two.txt": "\n2\n",
    }
    return local(write_archive(tmp_path / "archive.zip", members))


def test_xml_members(archive, tmp_path):
    both, one = Text(archive, "news.all.xml"), Text(archive, "news.src.xml.gz")
    assert pairs(AlignedCorpus("a", both, both), tmp_path) == [("A &", "A &"), ("B", "B")]
    other = Text(archive, "two.txt")
    assert pairs(AlignedCorpus("a", one, other), tmp_path) == [("B", "2")]
    with pytest.raises(DataError, match=r"archive.zip:news.all.xml: has sources and references"):
        pairs(AlignedCorpus("a", both, other), tmp_path)


def test_sgm_tsv_and_tmx_members(archive, tmp_path):
    sgm = AlignedCorpus("s", Text(archive, "test/src.en.sgm"), Text(archive, "test/ref.de.sgm.gz"))
    assert pairs(sgm, tmp_path) == [("A & B", "Ä & B"), ("C\u2028D", "C\u2028D")]
    tsv = TsvCorpus("t", Text(archive, "c.tsv"), columns=(2, 1))
    assert pairs(tsv, tmp_path) == [("three", "drei"), ("four", "vier")]
    tmx = TmxCorpus("x", Text(archive, "c.tmx"), languages=("en", "de"))
    assert pairs(tmx, tmp_path) == [("y", "x")]


def test_a_long_tmx_member_of_a_tar(tmp_path):
    unit = "<tu><tuv lang='de'><seg>x</seg></tuv><tuv lang='en'><seg>y</seg></tuv></tu>\n"
    contents = f"<tmx><body>\n{unit * 2000}</body></tmx>"
    write_archive(tmp_path / "c.tgz", {"c.tmx": contents})
    corpus = TmxCorpus("x", Text(local(tmp_path / "c.tgz"), "c.tmx"), languages=("en", "de"))
    assert pairs(corpus, tmp_path) == [("y", "x")] * 2000


def test_members_of_unequal_lengths_are_an_error_that_names_both(archive, tmp_path):
    corpus = AlignedCorpus("c", Text(archive, "three.txt"), Text(archive, "two.txt"))
    names = f"{tmp_path}/archive.zip:three.txt and {tmp_path}/archive.zip:two.txt"
    with pytest.raises(DataError, match=f"^{names}: 3 and 2 lines"):
        pairs(corpus, tmp_path)


def test_chained_corpora_follow_each_other_and_are_counted(archive, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    two = AlignedCorpus("two", Text(archive, "two.txt"), Text(archive, "two.txt"))
    three = AlignedCorpus("three", Text(archive, "three.txt"), Text(archive, "three.txt"))
    found = corpora.chained([three, two], str(tmp_path))
    assert [sample["inputs"] for sample in found] == ["1", "2", "3", "2"]
    assert caplog.messages == [
        "three: 3 pairs",
        "two: dropped 1 of 2 pairs: one side is empty",
        "two: 1 pairs",
    ]


def size(found: list[tuple[str, str]]) -> int:
    return sum(len(source) + len(target) for source, target in found)


@pytest.mark.integration
@given(st.lists(st.tuples(line, line)), st.integers(1, 200))
def test_a_spread_sample_is_every_nth_pair_and_no_sparser_than_need_be(found, limit):
    samples = [{"inputs": source, "targets": target} for source, target in found]
    kept = corpora.spread_sample(iter(samples), limit)
    steps = [2**i for i in range(len(samples).bit_length() + 1)]
    fitting = next(n for n in steps if size(found[::n]) <= limit or len(found[::n]) <= 1)
    assert kept == samples[::fitting]


# ---- real corpora


@pytest.fixture(scope="module")
def readme_lines(shared_data) -> dict[str, int]:
    """Number of lines of each file according to the data's README."""
    rows = (row.split("|") for row in (shared_data / "README.md").read_text().split("\n"))
    return {
        row[1].strip(): int(row[3]) for row in rows if len(row) == 6 and row[3].strip().isdigit()
    }


def lines_of(path: pathlib.Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().removesuffix("\n").split("\n")


@pytest.mark.parametrize(
    ("inputs", "targets", "dropped"),
    [
        *(
            (f"newstest/newstest{year}.en.gz", f"newstest/newstest{year}.{language}.gz", 0)
            for year in range(2008, 2014)
            for language in ("de", "fr")
        ),
        ("europarl/europarl-v7.fr-en.en.gz", "europarl/europarl-v7.fr-en.fr.gz", 36),
        ("opennmt/src-train.txt.gz", "opennmt/tgt-train.txt.gz", 1),
        ("wmt14_10k/train.10k.en.gz", "wmt14_10k/train.10k.de.gz", 0),
    ],
)
def test_aligned_corpora_have_the_lines_their_readme_says(
    shared_data, readme_lines, inputs, targets, dropped
):
    sides = [lines_of(shared_data / name) for name in (inputs, targets)]
    assert [len(side) for side in sides] == [readme_lines[inputs], readme_lines[targets]]
    expected = [pair for pair in zip(*sides, strict=True) if all(map(str.strip, pair))]
    texts = (Text(local(shared_data / name)) for name in (inputs, targets))
    found = pairs(AlignedCorpus("c", *texts), (shared_data / inputs).parent)
    assert found == [(source.strip(), target.strip()) for source, target in expected]
    assert len(found) == readme_lines[inputs] - dropped


@pytest.mark.integration
@pytest.mark.parametrize(
    "name",
    ["manythings/deu.txt.gz", "manythings/fra.txt.gz", "python_docs/python-docs.en-fr.tsv.gz"],
)
def test_tables_have_the_lines_their_readme_says(shared_data, readme_lines, name):
    path = shared_data / name
    found = pairs(TsvCorpus("c", Text(local(path))), path.parent)
    assert len(found) == readme_lines[name]
    source, target = lines_of(path)[-1].split("\t")
    assert found[-1] == (source.strip(), target.strip())


@pytest.fixture(scope="module")
def newstest(shared_data) -> dict[str, list[str]]:
    """newstest2009 in English and German, which has line separators inside lines."""
    return {x: lines_of(shared_data / f"newstest/newstest2009.{x}.gz") for x in ("en", "de")}


def test_the_separators_of_newstest2009_stay_inside_its_lines(shared_data, newstest):
    texts = (Text(local(shared_data / f"newstest/newstest2009.{x}.gz")) for x in ("en", "de"))
    found = [target for _, target in pairs(AlignedCorpus("c", *texts), shared_data / "newstest")]
    assert sum("\x85" in line.strip("\x85") for line in newstest["de"]) > 0
    assert sum("\x85" in line for line in newstest["de"]) == 6
    assert found == [line.strip() for line in newstest["de"]]


def test_a_news_set_survives_sgm(newstest, tmp_path):
    for language, lines in newstest.items():
        segs = (
            f"<seg id='{number}'>{saxutils.escape(line)}</seg>\n"
            for number, line in enumerate(lines, 1)
        )
        document = f"<refset>\n<doc>\n<p>\n{''.join(segs)}</p>\n</doc>\n</refset>\n"
        (tmp_path / f"{language}.sgm").write_bytes(document.encode())
    texts = (Text(local(tmp_path / f"{language}.sgm")) for language in ("en", "de"))
    assert pairs(AlignedCorpus("c", *texts), tmp_path) == stripped_pairs(newstest)


def test_a_news_set_survives_tmx(newstest, tmp_path):
    units = (
        f"<tu><tuv xml:lang='en'><seg>{saxutils.escape(source)}</seg></tuv>"
        f"<tuv xml:lang='de'><seg>{saxutils.escape(target)}</seg></tuv></tu>\n"
        for source, target in zip(newstest["en"], newstest["de"], strict=True)
    )
    document = f"<tmx version='1.4'>\n<header/>\n<body>\n{''.join(units)}</body>\n</tmx>\n"
    (tmp_path / "news.tmx.gz").write_bytes(gzip.compress(document.encode()))
    corpus = TmxCorpus("c", Text(local(tmp_path / "news.tmx.gz")), ("en", "de"))
    assert pairs(corpus, tmp_path) == stripped_pairs(newstest)


def stripped_pairs(lines: dict[str, list[str]]) -> list[tuple[str, str]]:
    found = [
        (source.strip(), target.strip())
        for source, target in zip(lines["en"], lines["de"], strict=True)
    ]
    assert len(found) == 2525
    return found
