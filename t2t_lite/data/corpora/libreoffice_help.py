"""LibreOffice's help in several languages, aligned by page and paragraph.

Debian packages the help of each language as `libreoffice-help-*.deb`, pages of HTML with the same
paths and the same ids of paragraphs in all languages. Licence: MPL-2.0; copyright LibreOffice
contributors and Oracle. Any two languages can be paired.
"""

import html.parser
import logging
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from t2t_lite.data.corpora.archives import iterate_members
from t2t_lite.errors import DataError, UserError
from t2t_lite.text.bad_input import STRICT, BadInput

log = logging.getLogger(__name__)

# The end of the name of each language's package.
PACKAGES = {
    "en": "en-us",
    "de": "de",
    "fr": "fr",
    "es": "es",
    "it": "it",
    "cs": "cs",
    "ja": "ja",
    "zh": "zh-cn",
}
# The language of the original. Where a paragraph has no translation, the packages repeat it.
_ORIGINAL = "en"

_FOLDER = "usr/share/libreoffice/help/"
_PAGE_CHARACTERS = 2**23  # the largest page of LibreOffice 7.4 has about 200,000

# Start and end tags of paragraphs and headings. In these pages, attributes contain no "<" or ">".
_TAG = re.compile(r"<(/?)(p|h[1-6])\b([^<>]*)>")
_ID = re.compile(r'\sid="([^"]*)"')

# The ids of a page's paragraphs, and their text; likewise for all pages by path.
_Page = dict[str, str]
_Help = dict[str, _Page]


class HelpPair(NamedTuple):
    """A paragraph in two languages."""

    page: str  # path below the folder of the language, such as "text/swriter/main0000.html"
    source: str
    target: str


# ---- packages


def existing_packages(tmp_dir: str, languages: Sequence[str]) -> list[pathlib.Path]:
    """Returns the packages of these languages, and of the original, that are in `tmp_dir`."""
    return [path for found in _packages(tmp_dir, languages).values() for path in found]


def require_packages(tmp_dir: str, languages: Sequence[str]) -> dict[str, pathlib.Path]:
    """Returns the package of each of these languages and of the original.

    Raises:
        UserError: a package is missing (the message has the command that downloads it), or there
            are several of a language, or their versions differ.
    """
    found = _packages(tmp_dir, languages)
    if missing := [_package(language) for language, paths in found.items() if not paths]:
        raise UserError(
            f"{tmp_dir} has no {_names(missing)}; download with: "
            f"cd {tmp_dir} && apt-get download {' '.join(missing)}"
        )
    for language, paths in found.items():
        if len(paths) > 1:
            raise UserError(
                f"{tmp_dir} has {len(paths)} versions of {_package(language)}: "
                f"{', '.join(path.name for path in paths)}; keep one"
            )
    packages = {language: paths[0] for language, paths in found.items()}
    if len({path.name.split("_")[1] for path in packages.values()}) > 1:
        raise UserError(
            f"{tmp_dir}: the packages are of different versions: "
            f"{', '.join(path.name for path in packages.values())}; download all at once: "
            f"apt-get download {' '.join(map(_package, packages))}"
        )
    return packages


def _packages(tmp_dir: str, languages: Sequence[str]) -> dict[str, list[pathlib.Path]]:
    """Returns the files of each language and of the original."""
    folder = pathlib.Path(tmp_dir)
    return {
        language: sorted(folder.glob(f"{_package(language)}_*.deb"))
        for language in dict.fromkeys((_ORIGINAL, *languages))
    }


def _package(language: str) -> str:
    return f"libreoffice-help-{PACKAGES[language]}"


def _names(packages: Sequence[str]) -> str:
    return " and no ".join(f"{package}_*.deb" for package in packages)


# ---- text


def tagged(text: str) -> str:
    """Returns the HTML of a paragraph, its white space folded; tags and entities stay."""
    return " ".join(text.split())


def plain(text: str) -> str:
    """Returns the text of a paragraph without tags, entities decoded, white space folded."""
    parser = _Text()
    parser.feed(text)
    parser.close()
    return " ".join("".join(parser.parts).split())


class _Text(html.parser.HTMLParser):
    """Collects the text of HTML.

    Attributes:
        parts: the pieces of the text, in order.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Lets a line break separate words."""
        if tag == "br":
            self.parts.append(" ")

    def handle_data(self, data: str) -> None:
        """Collects text."""
        self.parts.append(data)


def help_pairs(
    tmp_dir: str,
    languages: tuple[str, str],
    form: Callable[[str], str] = tagged,
    bad: BadInput = STRICT,
) -> Iterator[HelpPair]:
    """Yields the paragraphs that two languages share, in the order of page and id.

    Untranslated paragraphs, those without words, and repetitions of a pair are left out, so that no
    pair is in two splits. Holds both texts in memory: the packages are of limited size.

    Args:
        tmp_dir: folder of the packages.
        languages: source and target, keys of `PACKAGES`.
        form: `tagged` or `plain`.
        bad: receives lines that are not UTF-8, truncated packages, and paragraphs without an end.

    Raises:
        UserError: as `require_packages`.
        DataError: a package is damaged or has no help; an error that `bad` does not skip.
    """
    packages = require_packages(tmp_dir, languages)
    helps = {language: _read(path, language, bad) for language, path in packages.items()}
    sources, targets = (helps[language] for language in languages)
    # A translation equal to the original is none. The form decides: links differ by language.
    originals = {} if _ORIGINAL in languages else helps[_ORIGINAL]
    seen: set[tuple[str, str]] = set()
    for page in sorted(sources.keys() & targets.keys()):
        ids = sources[page].keys() & targets[page].keys()
        for paragraph in sorted(ids):
            texts = (sources[page][paragraph], targets[page][paragraph])
            pair = (form(texts[0]), form(texts[1]))
            original = form(originals.get(page, {}).get(paragraph, ""))
            is_new = pair[0] != pair[1] and original not in pair and pair not in seen
            if is_new and all(map(plain, texts)) and bad.is_usable(*pair):
                seen.add(pair)
                yield HelpPair(page, *pair)
    log.info("LibreOffice's help, %s: %s pairs", "-".join(languages), f"{len(seen):,}")


def _read(package: pathlib.Path, language: str, bad: BadInput) -> _Help:
    """Returns the raw paragraphs of all pages of a package."""
    code = PACKAGES[language]
    pages = {}
    for name, lines in iterate_members(package, (".html",), bad):
        folder, _, path = name.removeprefix(f"{package}:{_FOLDER}").partition("/")
        if folder.lower() == code and path.startswith("text/"):
            pages[path] = dict(paragraphs(_bounded(lines, name), name, bad))
    if not any(pages.values()):
        raise DataError(
            f"{package}: no page of help under {_FOLDER} in the language {code!r}; download the "
            f"package {_package(language)}"
        )
    return pages


def _bounded(lines: Iterator[str], name: str) -> str:
    """Returns a page's lines as one text."""
    kept = []
    characters = 0
    for line in lines:
        kept.append(line)
        characters += len(line) + 1
        if characters > _PAGE_CHARACTERS:
            raise DataError(f"{name}: a page of more than {_PAGE_CHARACTERS:,} characters")
    return "\n".join(kept)


def paragraphs(page: str, name: str, bad: BadInput = STRICT) -> Iterator[tuple[str, str]]:
    """Yields id and inner HTML of the paragraphs and headings of a page that have ids.

    An id may repeat; the last paragraph is the one that other pages refer to. Scans the text
    rather than parse it, so that the inner HTML keeps its characters, and takes linear time.

    Args:
        page: HTML.
        name: the page's name, for messages.
        bad: receives a paragraph without an end tag.
    """
    opened = None  # the tag, the id, and where the text starts
    for tag in _TAG.finditer(page):
        is_end, element, attributes = tag.groups()
        if opened is None and not is_end:
            if found := _ID.search(attributes):
                opened = element, found[1], tag.end()
        elif opened is not None and is_end and element == opened[0]:
            yield opened[1], page[opened[2] : tag.start()]
            opened = None
    if opened is not None:
        bad(DataError(f"{name}: the paragraph {opened[1]!r} has no end tag </{opened[0]}>"))
