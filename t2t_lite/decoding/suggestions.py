"""Sources in which target terms are suggested, for models trained with `term_augmentation`."""

from collections.abc import Sequence

import numpy as np

from t2t_lite.terms.term_list import TermList
from t2t_lite.text.alignment.edited_text import Edit, EditedText
from t2t_lite.text.alignment.units import token_of_characters
from t2t_lite.text.marks import suggestion


class SuggestingText:
    """A source that names the first target form of each term behind it.

    Args:
        source: the source text.
        terms: the terms.

    Attributes:
        text: what the model reads.
    """

    def __init__(self, source: str, terms: TermList) -> None:
        found = [
            (place + len(term), suggestion(terms.forms[term][0]))
            for place, term in terms.places(source)
        ]
        self.text = EditedText(source, [Edit(end, end, form) for end, form in found]).text
        self._spans: list[tuple[int, int]] = []  # of the suggestions, in characters of `text`
        size = 0
        for end, form in found:
            self._spans.append((end + size, end + size + len(form)))
            size += len(form)

    def without(
        self, tokens: Sequence[str], attention: np.ndarray | None
    ) -> tuple[list[str], np.ndarray | None]:
        """Returns the tokens of the source alone, and the attention to them.

        The attention to a suggestion is added to that to the last token of its source term.

        Args:
            tokens: the S tokens that the model reads, as text, EOS included.
            attention: [T, S]; None: not known.
        """
        owner = token_of_characters(self.text, tokens)
        kept = np.arange(len(tokens))  # the token that has the attention of each
        for start, end in self._spans:
            first, last = owner[start - 1] + 1, self._next(owner, end, tokens)
            kept[first:last] = first - 1
        columns = np.flatnonzero(kept == np.arange(len(tokens)))
        if attention is not None:
            is_of = (kept[:, None] == columns).astype(attention.dtype)  # [S, those kept]
            attention = attention @ is_of
        return [tokens[i] for i in columns.tolist()], attention

    def _next(self, owner: Sequence[int], place: int, tokens: Sequence[str]) -> int:
        """Returns the first token after a suggestion that ends before a character."""
        after = (token for token in owner[place:] if token >= 0)
        last = next(after, len(tokens) - 1)  # EOS
        while self.text[place : place + 1].isspace() and tokens[last - 1].isspace():
            last, place = last - 1, place + 1
        return last
