"""The kinds of documents, by the ending of a file's name."""

import codecs
import os
from collections.abc import Callable
from typing import NamedTuple

from t2t_lite.decoding.documents.document import Document
from t2t_lite.decoding.documents.html_page import HtmlPage
from t2t_lite.decoding.documents.po_file import PoFile
from t2t_lite.decoding.documents.xliff_file import XliffFile
from t2t_lite.errors import UsageError


class Kind(NamedTuple):
    """A kind of documents.

    Attributes:
        endings: of the files' names.
        read: returns a document, from the contents of its file, whether its new translations are
            to be marked for review, and the language of these ("": unknown).
        is_reviewed: whether they can be marked, all of them.
        has_states: whether those that are doubtful can be marked.
    """

    endings: tuple[str, ...]
    read: Callable[[bytes, bool, str], Document]
    is_reviewed: bool = False
    has_states: bool = False


_KINDS = (
    Kind((".html", ".htm"), lambda contents, _, __: HtmlPage(contents)),
    Kind((".xhtml", ".xht"), lambda contents, _, __: HtmlPage(contents, is_xml=True)),
    Kind((".po", ".pot"), lambda contents, fuzzy, _: PoFile(contents, fuzzy), True, True),
    Kind((".xliff", ".xlf"), lambda contents, _, to: XliffFile(contents, to), False, True),
)
DOCUMENTS = {ending: kind for kind in _KINDS for ending in kind.endings}
_PACKED = (".gz", ".bz2", ".xz", ".zst")

# Documents whose lines are not sentences. Endings that are a language's code are left out.
_OTHERS = frozenset(
    {".sdlxliff", ".mqxliff", ".mxliff", ".txlf", ".xlz", ".ttx", ".txml", ".tmx", ".tbx"}
    | {".json", ".jsonl", ".arb", ".yaml", ".yml", ".toml", ".ini", ".properties", ".xml", ".rc"}
    | {".resx", ".resw", ".strings", ".stringsdict", ".xcstrings", ".ftl", ".php", ".gmo"}
    | {".doc", ".docx", ".odt", ".fodt", ".rtf", ".pages", ".xls", ".xlsx", ".ods", ".csv", ".ppt"}
    | {".pptx", ".odp", ".odg", ".pdf", ".epub", ".idml", ".mif", ".svg", ".md", ".markdown"}
    | {".rst", ".adoc", ".asciidoc", ".textile", ".tex", ".dita", ".xhp"}
    | {".srt", ".vtt", ".sbv", ".ssa", ".ass", ".ttml"}
)
# Of XML and pages (Qt's .ts has the ending of Tsonga's text, and index.html.en of English), and of
# archives, which office programs write; in small letters.
_BEGINNINGS = (b"<?xml", b"<!doctype", b"<html", b"pk\x03\x04")
_MOST_READ = len(codecs.BOM_UTF8) + max(map(len, _BEGINNINGS))


def is_document(path: str) -> bool:
    """Returns whether a file is translated as a whole, rather than line by line.

    Raises:
        UsageError: it is a document of another kind, or packed.
    """
    name, packed = os.path.splitext(path)
    inner = ending(name) if packed.lower() in _PACKED else ""
    if inner in DOCUMENTS or inner in _OTHERS:
        raise UsageError(f"{path}: unpack the document, or read it as lines with --as_lines")
    if ending(path) in DOCUMENTS:
        return True
    if ending(path) in _OTHERS or _begins(path).startswith(_BEGINNINGS):
        raise UsageError(
            f"{path}: a document of a kind that is not known; known are {', '.join(DOCUMENTS)}. "
            "Convert it (most translators' tools export XLIFF), let a program that reads it ask "
            "t2t-serve, or read it as lines with --as_lines"
        )
    return False


def _begins(path: str) -> bytes:
    """Returns the first bytes of a regular file, in small letters; b"": there is none."""
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        return b""
    with open(path, "rb") as file:
        return file.read(_MOST_READ).removeprefix(codecs.BOM_UTF8).lower()


def ending(path: str) -> str:
    """Returns the ending of a file's name, in lower case."""
    return os.path.splitext(path)[1].lower()
