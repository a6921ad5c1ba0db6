"""Characters that mark suggested words and placeholders, which are not part of a text.

They are ASCII control characters other than white space, which texts do not contain. Every
vocabulary of subwords or bytes spells them: SentencePiece and bytes with one id each.
"""

import re
from collections.abc import Iterable

from t2t_lite.errors import DataError, UsageError
from t2t_lite.text.text_encoder import TabEncoder, TextEncoder

# Around the target form that a source suggests for the words before it.
_FORM_START, _FORM_END = "\x02", "\x03"  # start of text, end of text
SUGGESTION = re.compile(f"{_FORM_START}[^{_FORM_END}]*{_FORM_END}")
TERM_MARKS = _FORM_START + _FORM_END

# Each stands on both sides for something that is not translated.
PLACEHOLDERS = "".join(map(chr, range(0x10, 0x18)))


def suggestion(form: str) -> str:
    """Returns what follows the words of a source that should become a target form.

    The form is spelled as within a text: after a space.
    """
    return f"{_FORM_START} {form}{_FORM_END}"


def require_spelled(marks: Iterable[str], encoder: TextEncoder, hparam: str, side: str) -> None:
    """Checks that a vocabulary has ids for marks, wherever they stand.

    Args:
        marks: the characters.
        encoder: the vocabulary.
        hparam: what needs them, for the error.
        side: whose vocabulary it is, likewise.

    Raises:
        UsageError: it has not.
    """
    text = "".join(f"a{mark} b {mark} c{mark}." for mark in marks)
    try:
        is_spelled = encoder.decode(encoder.encode_text(text)) == text
    except DataError:
        is_spelled = False
    if not is_spelled or isinstance(encoder, TabEncoder):
        raise UsageError(
            f"hparam {hparam}: the vocabulary of the {side} cannot spell the characters that mark "
            f"parts of a text: set {hparam}=0, or choose a problem whose {side} are single texts "
            "of subwords or bytes"
        )
