"""Sequence-to-sequence learning on TensorFlow and Keras, a successor of tensor2tensor.

    import t2t_lite as t2t

    t2t.generate_data("translate_ende_locale", data_dir="data")
    run = t2t.train(problem="translate_ende_locale", model="transformer",
                    hparams_set="transformer_quickstart3", data_dir="data", output_dir="run",
                    train_steps=2000)
    print(run.translator("best")("You have received 12 new messages since Monday."))

Names are imported on first use: `import t2t_lite` alone loads neither Keras nor TensorFlow. Where
Keras is loaded already, its classes are imported at once, so that `keras.models.load_model` knows
them.
"""

import ast
import importlib
import pathlib
import sys
from typing import Any

# The module of each public name: the stub lists both, for type checkers, too.
_MODULES = {
    alias.name: str(node.module)
    for node in ast.parse(pathlib.Path(__file__).with_suffix(".pyi").read_bytes()).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES[name]
    if module == __name__:
        return importlib.import_module(f"{module}.{name}")
    if module.startswith((f"{__name__}.models.", f"{__name__}.systems.")):
        _import_models()
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _import_models() -> None:
    importlib.import_module(f"{__name__}.registry").import_models()


if "keras" in sys.modules:
    _import_models()
