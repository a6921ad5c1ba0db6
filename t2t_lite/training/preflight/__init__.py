"""Before training: how large a batch fits, and what a run will take."""
