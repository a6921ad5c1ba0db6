"""What a text may have beside words: HTML, XML, or placeholders in plain text."""

HTML, XML, PLACEHOLDERS = KINDS = ("html", "xml", "placeholders")
