"""The tables of "Attention Is All You Need": published, computed here and measured here."""
