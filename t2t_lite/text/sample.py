"""What a problem is made of: pairs of texts."""

# {"inputs": source, "targets": target}, one line each.
Sample = dict[str, str]
