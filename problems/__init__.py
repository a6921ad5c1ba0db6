"""Registered problems, one module per family."""

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
