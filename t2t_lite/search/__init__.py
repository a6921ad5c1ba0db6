"""Beam search and sampling over any model that decodes step by step."""
