"""Exports for other programs, each format in a file; and a client for exported models."""
