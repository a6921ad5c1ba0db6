"""Text: files of lines, encoders and their vocabularies, trees; alignment and tags."""
