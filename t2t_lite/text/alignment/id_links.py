"""Alignments between words, and between the ids of their texts."""

import collections
import itertools
from collections.abc import Sequence

from t2t_lite.text.alignment.pharaoh import Links
from t2t_lite.text.source_form import read_words
from t2t_lite.text.text_encoder import TextEncoder

# Ids that are decoded at a time, so that the time does not grow with the square of their number:
# how an id is shown depends on few before it.
_MOST_DECODED = 64

# For the log: where, how many, and what needs no words.
LINKS_IGNORED = (
    "%s: ignored the links of %d pairs: the vocabulary shows other words than they have, as where "
    "characters are unknown to it; %s aligns its subwords instead"
)


def word_places(encoder: TextEncoder, ids: Sequence[int]) -> list[int]:
    """Returns for each id the place of its word among those between white space, from 0.

    An id that shows nothing, such as a space, belongs to the word that follows.
    """
    places, before = [], ""
    start = passed = 0  # the first id that is decoded, and the words that end before it
    for end in range(1, len(ids) + 1):
        text = encoder.decode(ids[start:end]).strip()
        words = passed + len(text.split())
        places.append(words if text == before else words - 1)
        if end - start == _MOST_DECODED:
            half = range(end - _MOST_DECODED // 2, end)
            # What begins within a character, or its escape, may be shown otherwise.
            parts = ((i, encoder.decode(ids[i:end]).strip()) for i in half)
            start, text = next((part for part in parts if text.endswith(part[1])), (end, ""))
            passed = words - len(text.split())
        before = text
    return places


def places_in_text(
    encoder: TextEncoder, ids: Sequence[int], text: str, is_source: bool = False
) -> list[int]:
    """Returns for each id the place of its word among the words of its text, from 0.

    Unlike in `word_places`, words count that the ids lack: those that nobody sees, and the language
    that a source names.

    Args:
        encoder: the encoder.
        ids: those of the text.
        text: the text as it was given.
        is_source: whether it was encoded as a source.

    Returns:
        The places, -1 for an id after the last word; none if the ids do not show the text's words,
        as where they are unknown.
    """
    words = text.split()
    named = encoder.named_language(text)
    first = 1 if named and words[0] == f">>{named}<<" else 0
    in_form = is_source and encoder.reads_source_form
    read = [i for i in (read_words(text) if in_form else range(len(words))) if i >= first]
    if len(encoder.decode(ids).split()) != len(read):
        return []
    numbers = dict(enumerate(read))
    return [numbers.get(place, -1) for place in word_places(encoder, ids)]


def aligned_ids(links: Links, sources: Sequence[int], targets: Sequence[int]) -> list[int]:
    """Returns for each target id the place of the source id that it is aligned to.

    The ids of a target word are spread over those of the words that it is linked to, in their
    order.

    Args:
        links: between words.
        sources: the place of the word of each source id.
        targets: likewise.

    Returns:
        Places from 1; 0: to none.
    """
    words = collections.defaultdict(set)
    for source, target in links:
        words[target].add(source)
    own = collections.defaultdict(list)
    for place, word in enumerate(targets):
        own[word].append(place)
    ids = collections.defaultdict(list)
    for i, source in enumerate(sources, 1):
        ids[source].append(i)
    found = [0] * len(targets)
    for word, places in own.items():
        linked = sorted(itertools.chain.from_iterable(ids[source] for source in words[word]))
        for k, place in enumerate(places):
            found[place] = linked[k * len(linked) // len(places)] if linked else 0
    return found
