"""Scores of the output."""
