"""Optional packages, grouped into the extras of setup.cfg."""

import importlib.util
import types

from t2t_lite.errors import UserError

IMPORT = "import"  # models of Marian and Hugging Face
LANGUAGES = "languages"  # which language a text is in
PLOTS = "plots"  # matplotlib
ROUGE = "rouge"  # ROUGE, for summaries
SERVE = "serve"  # the HTTP server
TABLES = "tables"  # Parquet and Arrow files
TUNE = "tune"  # Optuna, for searches for hyperparameters

# The modules of each extra.
_PACKAGES = {
    IMPORT: ("safetensors", "torch", "yaml"),
    LANGUAGES: ("py3langid",),
    PLOTS: ("matplotlib",),
    ROUGE: ("rouge_score",),
    SERVE: ("prometheus_client", "starlette", "uvicorn"),
    TABLES: ("pyarrow",),
    TUNE: ("optuna",),
}


def require(extra: str, feature: str, *modules: str) -> None:
    """Checks that the packages of an extra are installed, without importing them.

    Args:
        extra: one of the above.
        feature: the feature that needs them, for the message.
        *modules: those of the extra that are needed (default: all).

    Raises:
        UserError: a package is missing; the message gives the command that installs it.
    """
    if not all(map(importlib.util.find_spec, modules or _PACKAGES[extra])):
        raise UserError(f"{feature} needs more packages: pip install '.[{extra}]'")


def tensorflow_text(feature: str) -> types.ModuleType:
    """Returns the module tensorflow_text, which registers operations with TensorFlow.

    It is not everywhere that TensorFlow is: its wheels come later, and there are none for Windows.

    Args:
        feature: the feature that needs it, for the message.

    Raises:
        UserError: it is not installed.
    """
    if not importlib.util.find_spec("tensorflow_text"):
        raise UserError(
            f"{feature} needs tensorflow-text: pip install tensorflow-text, of TensorFlow's minor "
            "release; where there is none, use --format=ctranslate2 or --format=keras"
        )
    import tensorflow_text

    return tensorflow_text
