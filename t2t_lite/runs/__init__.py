"""The run folder: settings, metrics, and checkpoints as files."""
