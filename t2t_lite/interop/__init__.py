"""Other toolkits: T2T's names for user directories, models of others in, ours out."""
