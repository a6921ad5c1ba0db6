"""What this package uses of CTranslate2's private interface; setup.cfg pins the releases, 4.8."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ctranslate2.specs import LayerSpec


def replace_arrays(spec: "LayerSpec", function: Callable[[np.ndarray], np.ndarray]) -> None:
    """Replaces every array of a specification by the result of a function."""
    from ctranslate2.specs import model_spec

    def replace(owner: "LayerSpec", name: str, value: object) -> None:
        if isinstance(value, np.ndarray):
            setattr(owner, name.rpartition("/")[2], function(value))

    model_spec.visit_spec(spec, replace)
