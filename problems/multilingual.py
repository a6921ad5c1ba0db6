"""One model of many languages: mixtures of the other problems (see `data.mixture`)."""

from t2t_lite import registry
from t2t_lite.data.mixture import MultilingualProblem

_LANGUAGES = ("de", "fr", "es", "it", "cs")


@registry.register_problem
class TranslateManyLibreoffice(MultilingualProblem):
    """LibreOffice's help, without tags, from English to German, French, Spanish, Italian, Czech.

    A page is in the same split in all of them. Licence: MPL-2.0.
    """

    directions = tuple(f"translate_en{language}_libreoffice_plain" for language in _LANGUAGES)
