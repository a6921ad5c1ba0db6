"""An n-gram model with modified Kneser-Ney smoothing, interpolated (Chen & Goodman 1999).

The classical language model to compare a neural one with: of the models without a network it is the
usual best. Sentences begin with one special symbol and end with EOS, which is predicted.
"""

import collections
import math
from collections.abc import Iterable, Sequence

BOS, EOS = -1, 1
NGram = tuple[int, ...]


class KneserNey:
    """P(token | earlier tokens), estimated from sentences.

    The counts of the longest n-grams, and of those that begin a sentence, are how often they occur;
    of the others, how many different tokens precede them. Each count is reduced by a discount that
    depends on it, and what is saved goes to the next shorter context, at last to the uniform
    distribution.

    Args:
        sentences: ids, without EOS.
        order: n.
        vocab_size: V, of which the tokens are.
    """

    def __init__(self, sentences: Iterable[Sequence[int]], order: int, vocab_size: int) -> None:
        self.order = order
        self.vocab_size = vocab_size
        counts = _counts(sentences, order)
        self._counts = counts
        self._discounts = [_discounts(collections.Counter(c.values())) for c in counts]
        self._totals = [collections.Counter[NGram]() for _ in counts]  # of each context
        self._kinds: list[dict[NGram, list[int]]] = [{} for _ in counts]  # continuations by count
        for size, of_size in enumerate(counts):
            for ngram, count in of_size.items():
                context = ngram[:-1]
                self._totals[size][context] += count
                self._kinds[size].setdefault(context, [0, 0, 0])[min(count, 3) - 1] += 1

    def prob(self, token: int, context: NGram) -> float:
        """Returns P(token | context); of a longer context the last n - 1 tokens count."""
        found = 1.0 / self.vocab_size
        context = context[max(0, len(context) - self.order + 1) :]
        for start in range(len(context), -1, -1):  # from the shortest context to the longest
            seen = context[start:]
            total = self._totals[len(seen)].get(seen)
            if not total:
                break  # longer contexts have not been seen either
            discounts = self._discounts[len(seen)]
            count = self._counts[len(seen)].get((*seen, token), 0)
            own = max(count - discounts[min(count, 3) - 1], 0.0) if count else 0.0
            kinds = self._kinds[len(seen)][seen]
            saved = sum(d * n for d, n in zip(discounts, kinds, strict=True))
            found = (own + saved * found) / total
        return found

    def log_prob(self, sentence: Sequence[int]) -> float:
        """Returns the log-probability of a sentence in nats, EOS included."""
        tokens = (BOS, *sentence, EOS)
        return sum(
            math.log(self.prob(tokens[i], tokens[max(0, i - self.order + 1) : i]))
            for i in range(1, len(tokens))
        )


def _counts(sentences: Iterable[Sequence[int]], order: int) -> list[collections.Counter[NGram]]:
    """Returns the counts of the n-grams of sizes 1 to `order`."""
    counts = [collections.Counter[NGram]() for _ in range(order)]
    for sentence in sentences:
        tokens = (BOS, *sentence, EOS)
        for end in range(2, len(tokens) + 1):
            if end <= order:
                counts[end - 1][tokens[:end]] += 1  # begins the sentence
            else:
                counts[order - 1][tokens[end - order : end]] += 1
    for size in range(order - 1, 0, -1):  # each different n-gram precedes its tail once
        counts[size - 1].update(ngram[1:] for ngram in counts[size])
    return counts


def _discounts(frequencies: collections.Counter[int]) -> tuple[float, ...]:
    """Returns the discounts of counts 1, 2, and 3 or more (Chen & Goodman 1999, equation 26)."""
    n = [frequencies[count] for count in range(1, 5)]
    if not all(n):
        return (0.5, 0.5, 0.5)  # too little text to estimate them
    y = n[0] / (n[0] + 2 * n[1])
    return tuple(max(0.0, i - (i + 1) * y * n[i] / n[i - 1]) for i in (1, 2, 3))
