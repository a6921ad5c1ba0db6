"""The kinds of documents, by the ending of a file's name; imports nothing."""

import os

HTML_ENDINGS = (".html", ".htm", ".xhtml")
PO_ENDINGS = (".po", ".pot")
XLIFF_ENDINGS = (".xliff", ".xlf")


def is_document(path: str) -> bool:
    """Returns whether a file is translated as a whole, rather than line by line."""
    return ending(path) in (*HTML_ENDINGS, *PO_ENDINGS, *XLIFF_ENDINGS)


def ending(path: str) -> str:
    """Returns the ending of a file's name, in lower case."""
    return os.path.splitext(path)[1].lower()
