"""Whole documents that are translated in place."""
