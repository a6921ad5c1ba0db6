"""The pairs of texts that make up a problem."""

# {"inputs": source, "targets": target}, one line each; {"targets": text} for language models, whose
# inputs are "" once the sample is ready to be encoded. With a file of alignments, the links of its
# words are under `records.ALIGNMENT`, in Pharaoh's format.
Sample = dict[str, str]
