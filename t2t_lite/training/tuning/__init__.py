"""Searches for hyperparameters: trials, each a run of its own, chosen and ended by Optuna."""
