"""Checkpoints of a run: saving, choosing the best, averaging, warm starts."""
