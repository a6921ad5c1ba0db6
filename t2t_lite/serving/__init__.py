"""A small HTTP server around the decoder."""
