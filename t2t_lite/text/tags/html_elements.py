"""Which elements of HTML are open at each tag, by the rules of its standard.

End tags may be left out: https://html.spec.whatwg.org/#parsing-main-inbody.
"""

from collections import Counter
from collections.abc import Collection
from typing import Generic, TypeVar

_HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
# Their start tags end a paragraph.
_END_P = (
    _HEADINGS
    | {"address", "article", "aside", "blockquote", "center", "dd", "details", "dialog", "dir"}
    | {"div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup"}
    | {"hr", "li", "listing", "main", "menu", "nav", "ol", "p", "plaintext", "pre", "search"}
    | {"section", "summary", "table", "ul", "xmp"}
)
_CELLS, _GROUPS = frozenset(["td", "th"]), frozenset(["tbody", "tfoot", "thead"])
_TABLE_PARTS = _CELLS | _GROUPS | frozenset(["caption", "col", "colgroup", "tr"])
_OF_CONFLUENCE = ("layout-cell", "rich-text-body", "structured-macro", "task", "task-body")
# Elements that cut a sentence. Others, and those that nobody has standardized, are within it.
BLOCKS = (
    _END_P
    | _TABLE_PARTS
    | frozenset(["base", "body", "frame", "frameset", "head", "html", "legend", "link", "meta"])
    | frozenset(["optgroup", "option", "select", "title"])
    | frozenset(f"ac:{name}" for name in _OF_CONFLUENCE)
)
_SCOPE = frozenset(["applet", "caption", "html", "marquee", "object", "table", "td", "template"])
_SCOPE |= frozenset(["th", "foreignobject", "desc", "math", "svg"])
_SPECIAL = (BLOCKS - {"option", "optgroup", "legend", "title"}) | _SCOPE | {"button", "select"}
_CLOSED = _END_P | {"button"}  # with what is open in them
_FORMATTING = frozenset(
    {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt"}
    | {"u"}
)
_RUBY = frozenset(["rb", "rp", "rt", "rtc"])
# What a start tag ends, if it is open: these elements, unless one of the others is within them.
_ENDS = {
    **dict.fromkeys(_END_P, (frozenset(["p"]), _SCOPE | {"button"})),
    "a": (frozenset(["a"]), _SCOPE),
    "body": (frozenset(["head"]), _SCOPE),
    "button": (frozenset(["button"]), _SCOPE),
    **dict.fromkeys(_RUBY, (_RUBY, _SPECIAL | {"ruby"})),
    "option": (frozenset(["option"]), _SPECIAL),
    "optgroup": (frozenset(["optgroup", "option"]), _SPECIAL),
    **dict.fromkeys(_CELLS, (_CELLS | {"caption"}, frozenset(["table", "template", "tr"]))),
    "tr": (frozenset(["caption", "colgroup", "tr"]), frozenset(["table", "template"])),
    **dict.fromkeys(
        _GROUPS | {"caption", "colgroup"},
        (_GROUPS | {"caption", "colgroup", "tr"}, frozenset(["table", "template"])),
    ),
}
_ITEMS = {"li": frozenset(["li"]), "dd": frozenset(["dd", "dt"]), "dt": frozenset(["dd", "dt"])}
_NOT_AROUND_ITEMS = _SPECIAL - {"address", "div", "p"}

_DEEPEST = 512  # elements around a tag that it may end; without a limit, time may be quadratic

T = TypeVar("T")


class OpenElements(Generic[T]):
    """The open elements, each with what the caller notes of it.

    Args:
        is_xml: whether every element has an end tag.
    """

    def __init__(self, is_xml: bool) -> None:
        self._is_xml = is_xml
        self._open: list[tuple[str, T]] = []
        self._names: Counter[str] = Counter()  # of these

    @property
    def last(self) -> T | None:
        """What is noted of the innermost one."""
        return self._open[-1][1] if self._open else None

    def start(self, name: str) -> None:
        """Ends what the start tag of an element ends."""
        if self._is_xml:
            return
        if name in _ITEMS:
            self._end(_ITEMS[name], _NOT_AROUND_ITEMS - _ITEMS[name])
        if name in _HEADINGS and self._open and self._open[-1][0] in _HEADINGS:
            self._cut(len(self._open) - 1)
        if name in _ENDS:
            self._end(*_ENDS[name], is_first=name not in _TABLE_PARTS)

    def push(self, name: str, noted: T) -> None:
        """Opens an element."""
        self._open.append((name, noted))
        self._names[name] += 1

    def end(self, name: str) -> None:
        """Ends what the end tag of an element ends."""
        if self._is_xml:
            self._end({name}, ())
        elif name in ("body", "html"):
            return  # what comes after them is within them
        elif name in _HEADINGS:
            self._end(_HEADINGS, _SCOPE)
        elif name in _FORMATTING:
            self._end_formatting(name)
        elif name in _TABLE_PARTS or name == "table":
            self._end({name}, {"table", "template"} - {name})
        elif name in _SCOPE:
            self._end({name}, _SCOPE - {name})
        elif name in _CLOSED:
            lists = {"ol", "ul"} if name == "li" else {"button"} if name == "p" else set()
            self._end({name}, _SCOPE | lists)
        else:
            self._end({name}, _SPECIAL)

    def _end(self, names: Collection[str], bounds: Collection[str], is_first: bool = True) -> None:
        """Ends the innermost of some elements, or the outermost, within the innermost bound."""
        if not any(map(self._names.__getitem__, names)):
            return
        found = None
        for i in self._innermost():
            if self._open[i][0] in names:
                found = i
                if is_first:
                    break
            if self._open[i][0] in bounds:
                break
        if found is not None:
            self._cut(found)

    def _end_formatting(self, name: str) -> None:
        """Ends the innermost of this name, but no block in it."""
        for i in self._innermost() if self._names[name] else ():
            if self._open[i][0] == name:
                if any(inner in _SPECIAL for inner, _ in self._open[i + 1 :]):
                    self._names[name] -= 1
                    del self._open[i]
                else:
                    self._cut(i)
                return
            if self._open[i][0] in _SCOPE:
                return

    def _innermost(self) -> range:
        """Returns the places of the elements that a tag may end, from the innermost one."""
        return range(len(self._open) - 1, max(-1, len(self._open) - 1 - _DEEPEST), -1)

    def _cut(self, first: int) -> None:
        self._names.subtract(name for name, _ in self._open[first:])
        del self._open[first:]
