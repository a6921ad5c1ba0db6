"""What the members of a problem may be: a user's class may define them as anything."""

from collections.abc import Callable, Collection, Mapping
from numbers import Integral
from typing import Any

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UsageError, quoted


def require(problem: Any, member: str, value: Any, is_valid: bool, expected: str) -> None:
    """Raises UsageError, with the user's class, unless a member's value is valid."""
    if not is_valid:
        kind = type(problem)
        raise UsageError(
            f"problem {problem.name!r} ({kind.__module__}.{kind.__qualname__}): {member} is "
            f"{quoted(value)}: expected {expected}"
        )


def is_texts(value: Any) -> bool:
    """Whether a value is a collection of texts."""
    return (
        isinstance(value, Collection)
        and not isinstance(value, str | bytes)
        and all(isinstance(item, str) for item in value)
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and int(value) >= 0


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value not in ("", ".", "..") and "\0" not in value


def _are_splits(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(entry, Mapping)
        and isinstance(entry.get("split"), str)
        and _is_count(entry.get("shards"))
        and entry["shards"] != 0
        for entry in value
    )


def _or_none(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or is_valid(value)


_NUMBER_OR_NONE = (_or_none(_is_count), "a whole number or None")
_MEMBERS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "dataset_splits": (
        _are_splits,
        "a list such as [{'split': DatasetSplit.TRAIN, 'shards': 10}], with splits of DatasetSplit "
        "and at least one file each",
    ),
    "vocab_type": (_is_text, "one of VocabType"),
    "approx_vocab_size": (_is_count, "a whole number"),
    "additional_reserved_tokens": (is_texts, "a list of texts"),
    "max_subtoken_length": _NUMBER_OR_NONE,
    "max_samples_for_vocab": _NUMBER_OR_NONE,
    "oov_token": (_or_none(_is_text), "a text or None"),
    "inputs_prefix": (_is_text, "a text"),
    "targets_prefix": (_is_text, "a text"),
    "licence": (_is_text, "a text"),
    "num_classes": (_is_count, "a whole number"),
    "ntasks": (lambda value: _is_count(value) and value > 0, "a whole number, at least 1"),
    "vocab_filename": (_is_name, "the name of a file"),
    "use_vocab_from_other_problem": (
        _or_none(lambda value: isinstance(value, Problem)),
        "a problem or None",
    ),
}


def check(problem: Problem) -> None:
    """Checks what a text problem declares."""
    for member, (is_valid, expected) in _MEMBERS.items():
        try:
            value = getattr(problem, member)
        except Exception:  # not every problem needs every member; who does, shows the user's line
            continue
        require(problem, member, value, is_valid(value), expected)
