"""Search, and the decoder around it: text in, text out."""
