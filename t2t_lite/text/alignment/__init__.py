"""Which words of a source and its target belong together: word alignment, and lists made of it."""
