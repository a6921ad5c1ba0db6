"""Corpora: downloading, archives, and the pairs of segments in them."""
