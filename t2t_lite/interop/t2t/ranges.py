"""T2T's sets of ranges, which may name hparams that sets here lack."""

import functools
from collections.abc import Callable
from typing import Any

from t2t_lite.hparams.ranges import RangedHParams
from t2t_lite.interop.t2t.hparam import NO_EFFECT, ONLY, RENAMED

_FOREIGN = {
    **dict.fromkeys(NO_EFFECT, "it has no effect here"),
    **{name: f"only {value!r} is implemented" for name, value in ONLY.items()},
}


def of_settings(function: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Returns a user's function of ranges, with this package's names of hparams."""

    @functools.wraps(function)
    def ranged(rhp: RangedHParams) -> None:
        function(rhp)
        rhp.ranges = {RENAMED.get(name, name): value for name, value in rhp.ranges.items()}
        rhp.foreign.update(_FOREIGN)

    return ranged
