"""Search: beam search and sampling over any model that takes one step at a time."""
