"""Reads the runs of tensor2tensor: settings, variables, checkpoints."""
