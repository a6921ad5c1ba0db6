"""Sentences that are marked in sources of XLIFF, and those that have a translation."""

import re
from collections.abc import Iterator, Sequence

from t2t_lite.text.source_form import has_text
from t2t_lite.text.tags.codes import CODES
from t2t_lite.text.tags.xliff_text import Sentence, sentences
from t2t_lite.text.tags.xml_events import CDATA, OPEN, Event, end_of


def _is_seg(event: Event) -> bool:
    return event.name == "mrk" and event.attributes.get("mtype") == "seg"


def has_content(element: Sequence[Event]) -> bool:
    """Returns whether an element has more in it than white space."""
    return any(event.kind != CDATA and event.raw.strip() for event in element[1:-1])


def has_words(parts: Sequence[Event]) -> bool:
    """Returns whether some parts of a file have text in them, outside of codes."""
    text, place = "", 0
    while place < len(parts):
        is_code = parts[place].kind == OPEN and parts[place].name in CODES
        text += "" if is_code else parts[place].text
        place = end_of(parts, place) if is_code else place + 1
    return has_text(text)


def marks(element: Sequence[Event]) -> dict[str, str]:
    """Returns the text of each marked sentence of an element, by its number; "": it has none."""
    return {
        mid: "".join(part.raw for part in inside) if has_words(inside) else ""
        for mid, inside in _marked(element).items()
    }


def _marked(element: Sequence[Event]) -> dict[str, Sequence[Event]]:
    """Returns what is in each marked sentence that is in no other, by its number."""
    found, place = {}, 0
    while place < len(element):
        end = place + 1
        if _is_seg(element[place]):
            end = end_of(element, place)
            found[element[place].attributes.get("mid", "")] = element[place + 1 : end - 1]
        place = end
    return found


def translated(
    source: Sequence[Event], target: Sequence[Event], keeps_space: bool
) -> Iterator[str | Sentence]:
    """Yields the translation of a source, or of each sentence marked in it that has none yet."""
    own = _marked(source)
    if not own:
        yield from sentences(source[1:-1], keeps_space)
        return
    done = marks(target)
    # A target that has all sentences has them where a person wants them.
    around = target if own.keys() == done.keys() else source
    place = 1
    while place < len(around) - 1:
        event = around[place]
        if _is_seg(event):
            mid = event.attributes.get("mid", "")
            end = end_of(around, place)
            inside = around[place + 1 : end - 1] if around is source else own[mid]
            yield re.sub(r"\s*/>\Z", ">", event.raw)
            yield from [done[mid]] if done.get(mid) else sentences(inside, keeps_space)
            yield around[end - 1].raw or f"</{event.prefix}mrk>"
            place = end
        else:
            yield event.raw
            place += 1
