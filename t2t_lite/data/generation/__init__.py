"""Data generation: from a problem's samples to vocabularies and TFRecord files."""
