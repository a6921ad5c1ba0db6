"""Loads `.keras` files of any origin: what is damaged is refused, and so is what would run code.

Keras itself falls back to reading the weights without their checksum where that does not fit, and
gives other weights in silence.
"""

import io
import os
import pathlib
import warnings
import zipfile
from typing import Any

import h5py
import keras

from t2t_lite.errors import DataError, UserError, quoted
from t2t_lite.json_files import parse_object
from t2t_lite.text.text_files import DAMAGE

_HDF5 = b"\x89HDF\r\n\x1a\n"
_CONFIG, _METADATA = "config.json", "metadata.json"
_HDF5_WEIGHTS = "model.weights.h5"
_WEIGHTS = (_HDF5_WEIGHTS, "model.weights.npz")
# Keras stores members without compression; recompressed weights shrink to a half.
_LEAST_BOMB, _LARGEST_RATIO = 1 << 28, 100
# Where Keras's functions are that a model is made of; others load files or change settings.
_MODELLING = frozenset(
    {"activations", "constraints", "initializers", "losses", "metrics", "ops", "regularizers"}
)
_LONGEST_REASON = 400
# Keras says so in a warning, and leaves these weights as they were initialized.
_NOT_LOADED = r"(Skipping nested container|A total of \d+ objects could not)"


def load(path: str, **arguments: Any) -> keras.Model:
    """Loads the model in a `.keras` file.

    Args:
        path: the file.
        **arguments: see `keras.saving.load_model`.

    Raises:
        UserError: there is no such file, it is of another kind, or Keras cannot build its model.
        DataError: it is damaged or truncated.
    """
    _require_archive(path)
    try:
        with zipfile.ZipFile(path) as archive:
            config, version = _checked(path, archive)
    except (*DAMAGE, TypeError) as error:  # TypeError: of types of arrays that NumPy lacks
        raise DataError(
            f"{path} is damaged or truncated ({_reason(error)}): copy it again, or save the model "
            "again"
        ) from error
    if arguments.get("safe_mode", True):
        _refuse_other_functions(path, config)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", _NOT_LOADED)
            return keras.saving.load_model(path, **arguments)
    except Exception as error:  # which one depends on what the file makes Keras do
        raise UserError(
            f"{path}: Keras {keras.version()} cannot load the model, which was saved by "
            f"{version}: {_reason(error)}; if it has classes of your own, import these first or "
            "give custom_objects, else save it again"
        ) from error


def _require_archive(path: str) -> None:
    """Raises UserError unless a path is that of a zip file whose name ends in `.keras`."""
    if not os.path.exists(path):
        raise UserError(f"{path} is missing: give the .keras file that model.save wrote")
    if not os.path.isfile(path):
        raise UserError(f"{path} is not a file: give the .keras file that model.save wrote")
    try:
        with open(path, "rb") as file:
            start = file.read(len(_HDF5))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): check its rights") from error
    if start == _HDF5:
        raise UserError(
            f"{path} is an HDF5 file, which can run code when it is loaded: where you trust it, "
            "load it with keras.models.load_model, and save it as .keras"
        )
    if not start:
        raise DataError(f"{path} is empty: copy it again, or save the model again")
    if not zipfile.is_zipfile(path):
        what = "truncated" if start.startswith(b"PK") else "not a zip file, as .keras files are"
        raise DataError(f"{path} is {what}: copy it again, or save the model again")
    if pathlib.Path(path).suffix != ".keras":
        raise UserError(f"{path}: Keras loads only names that end in .keras: rename it")


def _checked(path: str, archive: zipfile.ZipFile) -> tuple[dict[str, Any], str]:
    """Returns a sound archive's config, and the Keras that wrote it.

    Raises:
        DataError: a member is missing, cannot be read, or expands without measure.
        ValueError: or any other of `DAMAGE`: the archive is damaged.
    """
    names = archive.namelist()
    if _CONFIG not in names or not {*names} & {*_WEIGHTS}:
        raise DataError(
            f"{path} is not a Keras model: expected {_CONFIG} and {' or '.join(_WEIGHTS)} in it, "
            f"got {quoted(sorted(names))}; save the model again with model.save"
        )
    size = sum(info.file_size for info in archive.infolist())
    _require_measure(path, size)
    if bad := archive.testzip():
        raise ValueError(f"the checksum of {quoted(bad)} is another")
    if _HDF5_WEIGHTS in names:
        _require_measure(path, _size_of_arrays(archive.read(_HDF5_WEIGHTS)))
    try:
        version = f"Keras {quoted(parse_object(archive.read(_METADATA))['keras_version'])}"
    except (KeyError, ValueError):
        version = "an unknown release"
    try:
        return parse_object(archive.read(_CONFIG)), version
    except ValueError as error:
        raise DataError(f"{path}: its {_CONFIG} is {error}; save the model again") from error


def _require_measure(path: str, size: int) -> None:
    """Raises DataError if what a file expands to is out of proportion to it."""
    if size > max(_LEAST_BOMB, _LARGEST_RATIO * os.path.getsize(path)):
        raise DataError(f"{path} would expand to {size:,} bytes: save the model again")


def _size_of_arrays(weights: bytes) -> int:
    """Returns the bytes that the arrays in an HDF5 file take, which need not be in the file.

    Raises:
        OSError: or any other of `DAMAGE`: this is not an HDF5 file.
    """
    sizes = []
    with h5py.File(io.BytesIO(weights)) as file:
        file.visititems(lambda _, item: sizes.append(getattr(item, "nbytes", 0)))
    return sum(sizes)


def _refuse_other_functions(path: str, config: Any) -> None:
    """Raises UserError if a config names a function of Keras that belongs to no model.

    Keras does the same from 3.11 on.
    """
    waiting = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            kind, module = value.get("class_name"), value.get("module")
            if isinstance(kind, str) and isinstance(module, str):
                name = value.get("config") if kind == "function" else kind
                parts = [part for part in module.split(".") if part != "src"]
                is_function = kind == "function" or not kind[:1].isupper()
                if parts[0] == "keras" and is_function and not {*parts[1:2]} & _MODELLING:
                    raise UserError(
                        f"{path}: {quoted(f'{module}.{name}')} in its {_CONFIG} is not part of a "
                        "model, and could run code: load it with safe_mode=False only where you "
                        "trust it"
                    )


def _reason(error: Exception) -> str:
    """Returns an exception's message on one line, without the configs that Keras quotes."""
    text = str(error).partition("Full object config")[0].rpartition("Exception encountered: ")[2]
    text = f"{type(error).__name__}: {' '.join(text.split())}".rstrip(" .:")
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
