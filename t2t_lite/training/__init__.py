"""Training: the loop, its step, schedules, checkpoints, evaluation; several machines."""
