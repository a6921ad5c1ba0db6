"""Alignment: which words of an output stand for which words of its source."""

import types

from t2t_lite.decoding.hypotheses import Hypothesis, Source
from t2t_lite.decoding.stages.stage import Stage
from t2t_lite.text.alignment.attention_links import token_links, word_links
from t2t_lite.text.alignment.pharaoh import written_links
from t2t_lite.text.source_form import read_words


class Alignment(Stage):
    """Tells the links between words, wherever details are asked for: see docs/alignments.md.

    There are none where users see other words than the model reads and writes.
    """

    tells = types.MappingProxyType({"alignment": None})

    def after(self, source: Source, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Returns hypotheses, if they have details, with their links."""
        if source.is_rewritten:
            return hypotheses
        return [_aligned(source, hypothesis) for hypothesis in hypotheses]


def _aligned(source: Source, hypothesis: Hypothesis) -> Hypothesis:
    """Returns a hypothesis with the links between its words and those of its source."""
    details = hypothesis.details
    if details is None or details.attention is None:
        return hypothesis
    links = word_links(
        source.text,
        hypothesis.output.text,
        *(details.source_tokens, details.tokens, details.attention, details.is_aligned),
    )
    if source.given:  # words that nobody sees count, but the model does not read them
        seen = read_words(source.given, source.kept)
        links = [(seen[i], j) for i, j in links]
    return hypothesis.telling(alignment=written_links(links))


def subword_links(hypothesis: Hypothesis) -> str:
    """Returns the links between the subwords of a hypothesis; "" if they are not known."""
    details = hypothesis.details
    if details is None or details.attention is None:
        return ""
    tokens = details.source_tokens, details.tokens
    return written_links(token_links(*tokens, details.attention, details.is_aligned))
