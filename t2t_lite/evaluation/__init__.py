"""Scores of the output: registered metrics, one module a family, and how sure a difference is."""

from t2t_lite.evaluation import bleu, bracketing, chrf, command, exact, teacher_forced, ter

__all__ = ["bleu", "bracketing", "chrf", "command", "exact", "teacher_forced", "ter"]
