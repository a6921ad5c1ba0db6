"""Scripts, as properties of characters for patterns of `regex`."""

# Letters of scripts without spaces between words; in the brackets of a pattern.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
