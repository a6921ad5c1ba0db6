"""The run folder: its settings, metrics and checkpoint files."""
