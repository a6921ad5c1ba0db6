"""Terms that outputs must contain, and words that they must not."""
