"""Outputs and references that look equal, but are not the same text for any metric."""

import collections
import functools
import logging
from collections.abc import Sequence

from t2t_lite.errors import quoted
from t2t_lite.text.source_form import source_form

log = logging.getLogger(__name__)


def warn_of_forms(outputs: Sequence[str], references: Sequence[str]) -> None:
    """Logs how many words of outputs are those of their references in another form.

    Args:
        outputs: the outputs.
        references: one of each, in their order.
    """
    words = 0
    first = ("", "")
    for pair in zip(outputs, references, strict=False):
        forms = [source_form(text) for text in pair]
        if forms != [*pair] and (found := _in_common(*forms) - _in_common(*pair)) > 0:
            first = first if words else pair
            words += found
    if words:
        _warn(words, *map(quoted, first))


@functools.cache  # once, not for each metric and evaluation
def _warn(words: int, output: str, reference: str) -> None:
    log.warning(
        "words that look like those of the references, but have another form in Unicode, count as "
        "wrong: %s of all outputs, first in %s for %s; write the targets of training and the "
        "references in one form, such as NFC",
        *(f"{words:,}", output, reference),
    )


def _in_common(output: str, reference: str) -> int:
    """Returns the number of words that both have."""
    words = (collections.Counter(text.split()) for text in (output, reference))
    return (next(words) & next(words)).total()
