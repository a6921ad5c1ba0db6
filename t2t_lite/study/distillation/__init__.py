"""Distillation: a teacher's translations become the training data of a student."""
