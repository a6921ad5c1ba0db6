"""Which language a text is in, by py3langid (Lui and Baldwin 2012), which need not be installed."""

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


def is_installed() -> bool:
    """Whether there is py3langid."""
    return importlib.util.find_spec("py3langid") is not None


def language_identifier() -> "LanguageIdentifier":
    """Returns a model of its own, whose `rank` gives probabilities; it knows all its languages."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
