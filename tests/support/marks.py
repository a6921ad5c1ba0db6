"""What CI leaves to be run by name."""

from typing import Any

import pytest


def by_name(*cases: Any) -> list[Any]:
    """Returns parameters that are slow: they repeat for others what CI shows for a few.

    A case is the value of the parameter, or the tuple of the values of several.
    """
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
