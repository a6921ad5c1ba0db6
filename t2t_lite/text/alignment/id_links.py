"""Alignments between words, and between the ids of their texts."""

import collections
from collections.abc import Sequence

from t2t_lite.text.alignment.pharaoh import Links
from t2t_lite.text.text_encoder import TextEncoder


def word_places(encoder: TextEncoder, ids: Sequence[int]) -> list[int]:
    """Returns for each id the place of its word among those between white space, from 0.

    An id that shows nothing, such as a space, belongs to the word that follows.
    """
    places, before = [], ""
    for end in range(1, len(ids) + 1):
        text = encoder.decode(ids[:end]).strip()
        words = len(text.split())
        places.append(words if text == before else words - 1)
        before = text
    return places


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
    found = [0] * len(targets)
    for word, places in own.items():
        linked = [i for i, source in enumerate(sources, 1) if source in words[word]]
        for k, place in enumerate(places):
            found[place] = linked[k * len(linked) // len(places)] if linked else 0
    return found
