"""The pairs of texts that make up a problem."""

# {"inputs": source, "targets": target}, one line each.
Sample = dict[str, str]
