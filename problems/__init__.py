"""Registered problems, one module per family."""

from t2t_lite.problems import (
    algorithmic,
    cipher,
    cnn_dailymail,
    imported,
    language_modeling,
    libreoffice,
    locale,
    multi30k,
    parsing,
    sentiment,
    text2text_tmpdir,
    transduction,
    translate,
    translate_low_resource,
    treebanks,
    wmt,
)

__all__ = [
    "algorithmic",
    "cipher",
    "cnn_dailymail",
    "imported",
    "language_modeling",
    "libreoffice",
    "locale",
    "multi30k",
    "parsing",
    "sentiment",
    "text2text_tmpdir",
    "transduction",
    "translate",
    "translate_low_resource",
    "treebanks",
    "wmt",
]
