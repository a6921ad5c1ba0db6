"""The kinds of documents, by the ending of a file's name."""

import codecs
import os

from t2t_lite.errors import UsageError

XHTML_ENDINGS = (".xhtml", ".xht")
HTML_ENDINGS = (".html", ".htm", *XHTML_ENDINGS)
PO_ENDINGS = (".po", ".pot")
XLIFF_ENDINGS = (".xliff", ".xlf")
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
# Of XML (Qt's .ts has the ending of Tsonga's text), and of archives, which office programs write.
_BEGINNINGS = (b"<?xml", codecs.BOM_UTF8 + b"<?xml", b"PK\x03\x04")


def is_document(path: str) -> bool:
    """Returns whether a file is translated as a whole, rather than line by line.

    Raises:
        UsageError: it is a document of another kind, or packed.
    """
    known = (*HTML_ENDINGS, *PO_ENDINGS, *XLIFF_ENDINGS)
    name, packed = os.path.splitext(path)
    inner = ending(name) if packed.lower() in _PACKED else ""
    if inner in known or inner in _OTHERS:
        raise UsageError(f"{path}: unpack the document, or read it as lines with --as_lines")
    if ending(path) in known:
        return True
    if ending(path) in _OTHERS or _begins(path).startswith(_BEGINNINGS):
        raise UsageError(
            f"{path}: a document of a kind that is not known; known are {', '.join(known)}. "
            "Convert it (most translators' tools export XLIFF), let a program that reads it ask "
            "t2t-serve, or read it as lines with --as_lines"
        )
    return False


def _begins(path: str) -> bytes:
    """Returns the first bytes of a regular file; b"": there is none."""
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        return b""
    with open(path, "rb") as file:
        return file.read(max(map(len, _BEGINNINGS)))


def ending(path: str) -> str:
    """Returns the ending of a file's name, in lower case."""
    return os.path.splitext(path)[1].lower()
