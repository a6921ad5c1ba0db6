"""Registered problems, one module a family."""

from t2t_lite.problems import (
    algorithmic,
    locale,
    multi30k,
    parsing,
    text2text_tmpdir,
    treebanks,
    wmt,
)

__all__ = ["algorithmic", "locale", "multi30k", "parsing", "text2text_tmpdir", "treebanks", "wmt"]
