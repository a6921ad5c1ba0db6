"""T2T's access to the registered problems."""

from t2t_lite.interop.t2t.registry import problem
from t2t_lite.registry import list_problems as available

__all__ = ["available", "problem"]
