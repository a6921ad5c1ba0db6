"""Noise that a model learns to undo: some words of a text are dropped, others change their places.

Source: Lample et al. 2018, "Unsupervised Machine Translation Using Monolingual Corpora Only",
section 2.3. A text has the same noise wherever it stands, so that data depends neither on the order
of the texts nor on who makes it.
"""

import hashlib
import itertools
import random

import regex

from t2t_lite.text.scripts import UNSPACED
from t2t_lite.text.source_form import has_text

_DROPPED = 0.1  # probability of each word
_PLACES = 3  # that a word moves, at most
# A letter of a script without spaces; what else stands between spaces or such letters.
_WORD = regex.compile(rf"[{UNSPACED}]\p{{M}}*|(?:(?![{UNSPACED}])\S)++", regex.V0)
_UNSPACED = regex.compile(f"[{UNSPACED}]", regex.V0)


def with_noise(text: str) -> str:
    """Returns a text with a tenth of its words dropped, and others up to three places away.

    A text of which nothing that is seen would remain stays as it is.
    """
    seed = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    draw = random.Random(int.from_bytes(seed, "little"))
    words = [word for word in _WORD.findall(text) if draw.random() >= _DROPPED]
    # A word that another one passes is at most `_PLACES` before it.
    keys = [place + draw.random() * (_PLACES + 1) for place in range(len(words))]
    moved = [words[place] for place in sorted(range(len(words)), key=keys.__getitem__)]
    noisy = _joined(moved)
    return noisy if has_text(noisy) else text


def _joined(words: list[str]) -> str:
    """Returns words as a text: with a space between two of scripts that have spaces."""
    gaps = (
        "" if _UNSPACED.match(one) or _UNSPACED.match(other) else " "
        for one, other in itertools.pairwise(words)
    )
    return "".join(itertools.chain.from_iterable(itertools.zip_longest(words, gaps, fillvalue="")))
