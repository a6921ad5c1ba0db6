"""Training on several machines: who takes part, and whether all are alive and agree."""
