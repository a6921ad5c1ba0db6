"""Makes run folders of other people's models: tensor2tensor's, Marian's and Hugging Face's."""

MARIAN, HUGGING_FACE, T2T = "marian", "huggingface", "t2t"  # kinds of models, as --from has them
IS_8_BITS = "imported_from_8_bits"  # the flag of a run whose weights were stored in 8 bits
