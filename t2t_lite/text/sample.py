"""The pairs of texts that make up a problem."""

# {"inputs": source, "targets": target}, one line each; {"targets": text} for language models, whose
# inputs are "" once the sample is ready to be encoded.
Sample = dict[str, str]
