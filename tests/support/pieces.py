"""A vocabulary of letters with and without a space before them."""

from t2t_lite.text.text_encoder import EOS_ID, RESERVED_TOKENS, TextEncoder

PIECES = ("a", "b", " a", " b", "-", "?")


class PieceEncoder(TextEncoder):
    """Spells every text in one way, but for a space at its start, which no text shows."""

    @property
    def vocab_size(self):
        return len(RESERVED_TOKENS) + len(PIECES)

    def encode(self, text):
        ids, text = [], f" {text}" if text[:1].isalpha() else text
        while text:
            piece = max((p for p in PIECES if text.startswith(p)), key=len, default="?")
            ids.append(len(RESERVED_TOKENS) + PIECES.index(piece))
            text = text[len(piece) :]
        return ids

    @property
    def oov_id(self):
        return self.vocab_size - 1

    def decode(self, ids):
        return "".join(PIECES[i - len(RESERVED_TOKENS)] for i in ids if i > EOS_ID).lstrip()
