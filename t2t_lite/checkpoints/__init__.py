"""Checkpoints of a run: saving, selection of the best, averaging, warm starts."""
