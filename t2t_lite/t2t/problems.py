"""T2T's access to the registered problems."""

from t2t_lite.registry import list_problems as available
from t2t_lite.t2t.registry import problem

__all__ = ["available", "problem"]
