"""The kinds of markup that a text may have."""

HTML, XML, PLACEHOLDERS = KINDS = ("html", "xml", "placeholders")
CHOICES = ("", *KINDS)
HELP = (
    "Markup of the lines, which is kept: html or xml (tags, entities and what follows), or "
    "placeholders ({name}, %s, URLs, e-mail addresses, paths, emoji, `code`) in plain text."
)
