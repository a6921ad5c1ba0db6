"""Text: files of lines, vocabularies and their encoders, tokenizers, trees."""
