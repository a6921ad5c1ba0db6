"""T2T's modules of models, as far as they hold functions of hparams sets."""

import functools
from collections.abc import Callable

from t2t_lite import registry
from t2t_lite.tensor2tensor_api.hparam import HParams
from t2t_lite.tensor2tensor_api.names import missing
from t2t_lite.tensor2tensor_api.placeholders import Placeholder

__all__: list[str] = []


def __getattr__(name: str) -> Callable[[], HParams] | Placeholder:
    """Returns the function of a registered set; for other names, a placeholder."""
    if name.startswith("__"):
        raise AttributeError(name)
    known = registry.list_hparams()
    if name not in known:
        return missing("models", name, known)
    return functools.partial(_made, name)


def _made(name: str) -> HParams:
    return HParams.of(registry.hparams(name))
