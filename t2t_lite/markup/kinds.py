"""The kinds of markup that a text may have."""

from t2t_lite.errors import UsageError, did_you_mean, quoted

HTML, XML, PLACEHOLDERS = KINDS = ("html", "xml", "placeholders")
CHOICES = ("", *KINDS)
HELP = (
    "Markup of the lines, which is kept: html or xml (tags, entities and what follows), or "
    "placeholders ({name}, %s, URLs, e-mail addresses, paths, emoji, `code`) in plain text."
)


def check_kind(kind: str) -> None:
    """Raises UsageError unless it is one of `KINDS` or ""."""
    if kind not in CHOICES:
        raise UsageError(
            f"markup {quoted(kind)}: expected {', '.join(KINDS)}{did_you_mean(str(kind), KINDS)}"
        )
