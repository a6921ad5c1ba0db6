"""Which files are documents, and which are lines."""

import pytest

from t2t_lite.decoding.documents.kinds import is_document
from t2t_lite.errors import UsageError


@pytest.mark.parametrize(
    "name", ["a.html", "A.HTM", "a.xhtml", "a.xht", "a.po", "a.pot", "a.xlf", "a.de.xliff"]
)
def test_documents(name):
    assert is_document(name)


@pytest.mark.parametrize("name", ["", "-", "a", "a.txt", "a.en", "a.ts", "po", "a.txt.gz", "a.md5"])
def test_lines(name):
    assert not is_document(name)


@pytest.mark.parametrize(
    "name",
    [
        *("a.sdlxliff", "a.mqxliff", "a.mxliff", "a.tmx", "a.docx", "a.ODT", "a.json", "a.resx"),
        *("a.strings", "a.yaml", "a.properties", "a.csv", "a.srt", "a.md", "a.xml", "a.epub"),
        *("a.po.gz", "a.html.bz2", "a.json.xz"),
    ],
)
def test_other_documents_are_refused(name):
    with pytest.raises(UsageError, match=f"^{name}: .*--as_lines"):
        is_document(name)


@pytest.mark.parametrize(
    "begins",
    [
        b'<?xml version="1.0"?><TS>',
        b"\xef\xbb\xbf<?xml",
        b"PK\x03\x04",
        b"<!DOCTYPE html>",
        b"\xef\xbb\xbf<!doctype html>",
        b"<HTML lang=en>",
    ],
)
def test_other_documents_are_known_by_their_contents(tmp_path, begins):
    file = tmp_path / "a.ts"
    file.write_bytes(begins)
    with pytest.raises(UsageError, match="kind that is not known"):
        is_document(str(file))
    file.write_bytes(b"PK <?xml")
    assert not is_document(str(file))
