"""What a text may have beside words: HTML, XML, or placeholders in plain text."""

from t2t_lite.text.scripts import UNSPACED

HTML, XML, PLACEHOLDERS = KINDS = ("html", "xml", "placeholders")

# A segment is a line of a file, and outputs are separated by tabs. Within a tag, characters for
# private use stand for what a line cannot have.
HIDDEN = {"\n": "\U0010ff0a", "\r": "\U0010ff0d", "\t": "\U0010ff09"}
SPACE = rf"\s{''.join(HIDDEN.values())}"  # in the brackets of a pattern

# Letters of languages that write them directly beside foreign words and names, with their forms of
# full width; and the other letters, digits and `_`, of which names may consist.
ADJOINING = rf"{UNSPACED}\p{{Bopomofo}}\p{{Hangul}}\u30fc\uff10-\uff9f"
WORD = rf"[^\W{ADJOINING}]"
