"""Attention as a page to explore, and as pictures for papers."""
