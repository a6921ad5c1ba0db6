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


def is_marked(element: Sequence[Event]) -> bool:
    """Returns whether sentences are marked in an element."""
    return any(map(_is_seg, element))


def is_done(source: Sequence[Event], target: Sequence[Event]) -> bool:
    """Returns whether a target has words if its source has, in each sentence that is marked."""
    if not (is_marked(source) and is_marked(target)):
        return has_words(target) or not has_words(source)
    done = _partners(source, target)
    return all(
        place in done and has_words(done[place])
        for place, (_, inside) in enumerate(_marked(source))
        if has_words(inside)
    )


def matches(source: Sequence[Event], target: Sequence[Event]) -> bool:
    """Returns whether it is known which sentences the marked ones of a target translate."""
    return len(_partners(source, target)) == len(_marked(target)) or not has_words(target)


def _partners(source: Sequence[Event], target: Sequence[Event]) -> dict[int, Sequence[Event]]:
    """Returns what stands for the sentences marked in a source, by their places, in a target.

    Partners have the same number; or the same place, if numbers are missing or repeated.
    """
    own, others = _marked(source), _marked(target)
    if all(len({mid for mid, _ in marked if mid}) == len(marked) for marked in (own, others)):
        places = {mid: place for place, (mid, _) in enumerate(own)}
        return {places[mid]: inside for mid, inside in others if mid in places}
    return dict(enumerate(inside for _, inside in others)) if len(own) == len(others) else {}


def _marked(element: Sequence[Event]) -> list[tuple[str, Sequence[Event]]]:
    """Returns the number of each marked sentence that is in no other, and what is in it."""
    found, place = [], 0
    while place < len(element):
        end = place + 1
        if _is_seg(element[place]):
            end = end_of(element, place)
            mid = element[place].attributes.get("mid", "")
            found.append((mid, element[place + 1 : end - 1]))
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
    done = _partners(source, target)
    # A target that has all sentences has them where a person wants them.
    has_all = len(done) == len(own) == len(_marked(target))
    around, places = (target, iter(done)) if has_all else (source, iter(range(len(own))))
    place = 1
    while place < len(around) - 1:
        event = around[place]
        if _is_seg(event):
            number = next(places)
            end = end_of(around, place)
            old = done.get(number, [])
            yield re.sub(r"\s*/>\Z", ">", event.raw)
            if has_words(old):
                yield "".join(part.raw for part in old)
            else:
                yield from sentences(own[number][1], keeps_space)
            yield around[end - 1].raw or f"</{event.prefix}mrk>"
            place = end
        else:
            yield event.raw
            place += 1
