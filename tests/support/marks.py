"""Parameters with marks: what is run by name alone, and what not every processor computes."""

from typing import Any

import pytest

FLOAT16 = pytest.param("float16", marks=pytest.mark.float16)
HALVES = [pytest.param("bfloat16", marks=pytest.mark.bfloat16), FLOAT16]


def by_name(*cases: Any) -> list[Any]:
    """Returns parameters that are slow: they repeat for others what CI shows for a few.

    A case is the value of the parameter, or the tuple of the values of several.
    """
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
