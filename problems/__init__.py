"""Registered problems, one module a family."""

from t2t_lite.problems import algorithmic, locale, multi30k, text2text_tmpdir

__all__ = ["algorithmic", "locale", "multi30k", "text2text_tmpdir"]
