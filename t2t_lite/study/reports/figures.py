"""Figures drawn with matplotlib, as reproducible SVG and PNG files.

Nothing here opens a display or reads a user's matplotlib settings. matplotlib is imported inside
functions because it takes half a second and belongs to the extra `plots`.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from t2t_lite import extras

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

log = logging.getLogger(__name__)

INK = "#1a1a1b"  # of text and axes; in SVG it is replaced with the color of the surrounding page
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_POINTS = 72  # per inch, matplotlib's unit; here a point is a pixel
_PNG_SCALE = 3  # PNG pixels per SVG pixel: 216 dpi

_SETTINGS: "dict[RcKeyType, Any]" = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "t2t_lite",
    "text.parse_math": False,  # "$" is a character of the text
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # the first comes with matplotlib
    "font.size": 11,
    "axes.titlesize": 13,
    "axes.labelsize": 11,
    "text.color": INK,
    "axes.titlecolor": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.scale_dashes": False,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
# Registered namespaces, without which every element would get a generated prefix.
ET.register_namespace("", _SVG)
ET.register_namespace("xlink", _XLINK)


@contextlib.contextmanager
def drawing(width: float, height: float, background: str = "white") -> "Iterator[Figure]":
    """Yields an empty figure, to be drawn and saved within the block.

    Args:
        width: pixels.
        height: pixels.
        background: a color, or "none".
    """
    extras.require(extras.PLOTS, "drawing")
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # see `_font_families`
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield Figure(figsize=(width / _POINTS, height / _POINTS), facecolor=background)


def svg(figure: "Figure", title: str, hovers: Mapping[str, Sequence[str]] | None = None) -> str:
    """Returns a figure as an `<svg>` element, for a file of its own or inside a page.

    Args:
        figure: of `drawing`.
        title: text for screen readers.
        hovers: hover texts of a line's markers, by the `gid` of the line.
    """
    file = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", dpi=_POINTS, metadata=no_metadata)
    root = ET.fromstring(file.getvalue())
    size = dict(zip(("width", "height"), root.attrib["viewBox"].split()[2:], strict=True))
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        **size,
        "role": "img",
        "aria-label": title,
        "stroke-linejoin": "round",  # replaces the style sheet, which would affect a whole page
    }
    for style in root.findall(f"{{{_SVG}}}defs[{{{_SVG}}}style]"):
        root.remove(style)
    heading = ET.Element(f"{{{_SVG}}}title")
    heading.text = title
    root.insert(0, heading)
    for group in root.iter(f"{{{_SVG}}}g"):
        texts = (hovers or {}).get(group.attrib.pop("id", ""))  # ids would not be unique on a page
        if texts:
            for marker, text in zip(group.iter(f"{{{_SVG}}}use"), texts, strict=True):
                ET.SubElement(marker, f"{{{_SVG}}}title").text = text
    return ET.tostring(root, encoding="unicode").replace(INK, "currentColor")


def png(figure: "Figure") -> bytes:
    """Returns a figure as a PNG file with three pixels per pixel of width and height.

    Logs a warning if the machine has no font for some characters.
    """
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    families = _font_families("".join(text.get_text() for text in texts))
    for text in texts:
        text.set_fontfamily(families)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_PNG_SCALE * _POINTS, metadata={"Software": None})
    return file.getvalue()


def _font_families(text: str) -> list[str]:
    """Returns fonts for a text: matplotlib's own, then installed ones for missing characters."""
    from matplotlib import font_manager

    default = font_manager.FontProperties(family="DejaVu Sans")
    families, missing = ["DejaVu Sans"], {c for c in text if not c.isspace()}
    missing -= _characters(font_manager.findfont(default))
    for font in sorted(font_manager.fontManager.ttflist, key=lambda font: (font.name, font.fname)):
        if not missing:
            break
        if font.name.startswith("Last Resort") or (font.style, font.weight) != ("normal", 400):
            continue
        covered = missing & _characters(font.fname)
        if covered:
            families.append(font.name)
            missing -= covered
    if missing:
        log.warning(
            "no font on this machine has %s: install one, such as Noto (Debian: fonts-noto-cjk for "
            "Chinese, Japanese and Korean), or write SVG instead",
            " ".join(sorted(missing)),
        )
    return families


def _characters(path: str) -> set[str]:
    """Returns the characters of a font; none if its file no longer exists."""
    from matplotlib import font_manager

    try:
        return set(map(chr, font_manager.get_font(path).get_charmap()))
    except (OSError, RuntimeError):  # matplotlib's list of fonts can be outdated
        return set()
