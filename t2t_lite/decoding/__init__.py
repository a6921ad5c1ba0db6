"""The decoder around the search: text in, text out; whole documents, too."""
