"""The features of decoding, one a file: what is done to a text before and after the model."""
