"""The pairs of texts that make up a problem."""

# {"inputs": source, "targets": target}, one line each; {"targets": text} for language models, whose
# inputs are "" once the sample is ready to be encoded. With a file of alignments, the links of its
# words are under `ALIGNMENT`, in Pharaoh's format.
Sample = dict[str, str]

# In an example for training, this feature has for each id of the targets the place of the source id
# that it is aligned to, from 1: that of EOS, if to no word. The hparam `guided_alignment_weight`
# makes models learn it.
ALIGNMENT = "alignment"

# In an example, the ids of the targets in the form in which they would be read as sources, if it is
# another one: for the `_rev` form of its problem.
TARGETS_AS_SOURCE = "targets_as_source"
