"""Metrics of a model's output, one module per family, and the bootstrap test of differences."""

from t2t_lite.metrics import (
    alignment,
    bleu,
    bracketing,
    chrf,
    command_metric,
    edits,
    exact,
    numbers,
    rouge,
    sari,
    teacher_forced,
    ter,
    terms_met,
    wrong_language,
)

__all__ = [
    "alignment",
    "bleu",
    "bracketing",
    "chrf",
    "command_metric",
    "edits",
    "exact",
    "numbers",
    "rouge",
    "sari",
    "teacher_forced",
    "ter",
    "terms_met",
    "wrong_language",
]
