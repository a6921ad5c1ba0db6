"""Reads the files of models from elsewhere, which may be damaged or hostile.

Nothing in a file is executed, sizes are checked before memory is taken, and every error is one
line that names the file. Tensors are read one at a time, when they are asked for.
"""

import contextlib
import importlib.metadata
import io
import json
import math
import pathlib
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from t2t_lite import extras, json_files
from t2t_lite.errors import DataError, UserError, first_line, quoted

# Weights hardly shrink: a file whose members claim to be this many times larger is a bomb.
_LARGEST_RATIO = 64
_LARGEST_TEXT = 1 << 26  # bytes of a YAML or JSON file
_LARGEST_HEADER = 1 << 14  # bytes of an array's; NumPy accepts 10,000
_DEEPEST_YAML = 8
_POINTER = b"version https://git-lfs"  # begins what a clone without Git LFS has in a file's place
_LONGEST_REASON = 200
_LONGEST_NAME = 255  # bytes of a file's
# `weights_only=True` of older releases runs a file's code (CVE-2025-32434).
_FIRST_SAFE_TORCH = (2, 6)
_ZIP = b"PK\x03\x04"  # begins an archive, by which PyTorch recognises one, too


class Tensor(NamedTuple):
    """A tensor in a file."""

    shape: tuple[int, ...]
    dtype: str  # by NumPy's name, or bfloat16
    read: Callable[[], np.ndarray]

    def transposed(self) -> "Tensor":
        """Returns the tensor with its axes in reverse order."""
        return self._replace(shape=self.shape[::-1], read=lambda: self.read().T)

    def reshaped(self, *shape: int) -> "Tensor":
        """Returns the tensor with the same values in another shape."""
        return self._replace(shape=shape, read=lambda: self.read().reshape(shape))


def is_name(value: Any) -> bool:
    """Whether a value is the name of a file, without a folder, that any system can have."""
    return (
        isinstance(value, str)
        and pathlib.PurePath(value).name == value
        and value not in ("", "..")
        and value.isprintable()
        and len(value.encode()) <= _LONGEST_NAME
    )


def read_text(path: pathlib.Path) -> bytes:
    """Returns the contents of a YAML or JSON file.

    Raises:
        UserError: it is missing, or too large.
    """
    if not path.is_file():
        raise UserError(f"{path} is missing: download it into the folder of the model")
    size = path.stat().st_size
    if size > _LARGEST_TEXT:
        raise DataError(f"{path} has {size:,} bytes: expected at most {_LARGEST_TEXT:,}")
    return path.read_bytes()


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Returns the JSON object in a file.

    Raises:
        DataError: it holds something else.
    """
    try:
        return json_files.parse_object(read_text(path))
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}; download it again") from error


def read_yaml(path: pathlib.Path) -> Any:
    """Returns what a YAML file holds; see `parse_yaml`."""
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: bytes, name: str) -> Any:
    """Parses YAML of dicts, lists and strings; numbers and switches stay strings, as written.

    (YAML would read a piece of a vocabulary such as `no` as False.)

    Args:
        text: the YAML.
        name: where it is from, for errors.

    Raises:
        DataError: it is not YAML, has aliases or tags, is nested deeply, or repeats a key.
    """
    extras.require(extras.IMPORT, f"reading {name}", "yaml")
    import yaml

    root: list[Any] = []
    stack: list[Any] = [root]  # the lists and dicts that are open, from the outside
    keys: list[Any] = [None]  # of the dicts among them, those whose values follow

    def add(value: Any) -> None:
        if isinstance(stack[-1], list):
            stack[-1].append(value)
        elif keys[-1] is None:
            if not isinstance(value, str):
                raise DataError(f"{name}: expected a text as a key, got {quoted(value)}")
            if value in stack[-1]:
                raise DataError(f"{name}: the key {quoted(value)} occurs twice")
            keys[-1] = value
        else:
            stack[-1][keys[-1]] = value
            keys[-1] = None

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the one in C is 10 times as fast
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise DataError(f"{name}: YAML aliases are not read: write the values out")
            # A lone `!` leaves a value as it is written.
            if (tag := getattr(event, "tag", None)) not in (None, "!"):
                raise DataError(f"{name}: the YAML tag {quoted(tag)} is not read: leave it out")
            if isinstance(event, yaml.ScalarEvent):
                add(event.value)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                if len(stack) > _DEEPEST_YAML:
                    raise DataError(f"{name} is nested more than {_DEEPEST_YAML} levels deep")
                opened: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
                add(opened)
                stack.append(opened)
                keys.append(None)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                stack.pop()
                keys.pop()
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{name} is not YAML: {reason}; download it again") from error
    return root[0] if root else {}


def read_npz(path: pathlib.Path) -> dict[str, Tensor]:
    """Returns the arrays of a NumPy archive by name.

    Raises:
        DataError: it is damaged, an array holds Python objects, or sizes are implausible.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                member.filename.removesuffix(".npy"): _npy(path, archive, member)
                for member in _members(path, archive)
            }
    except _DAMAGED_ZIP as error:
        raise damaged(path, error) from error


# What `zipfile` and NumPy raise for files that are not archives, or are truncated or inconsistent.
_DAMAGED_ZIP = (
    zipfile.BadZipFile,
    EOFError,
    NotImplementedError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    ValueError,
    zlib.error,
)


def _members(path: pathlib.Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Returns the members of an archive after checking their sizes."""
    members = archive.infolist()
    claimed = sum(member.file_size for member in members)
    if claimed > _LARGEST_RATIO * path.stat().st_size:
        raise DataError(f"{path} claims {claimed:,} bytes, far more than the file has")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(
                f"{path}: {quoted(member.filename)} is compressed in a way that neither NumPy nor "
                "PyTorch writes: save the model again with one of them"
            )
    return members


def _npy(path: pathlib.Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Tensor:
    name = f"{path}: array {quoted(member.filename)}"
    with archive.open(member) as whole:
        file = io.BytesIO(whole.read(_LARGEST_HEADER))  # NumPy reads what a header claims to have
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, column_major, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, column_major, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise DataError(f"{name} has format {version}: expected 1.0 or 2.0")
        header = file.tell()
    if dtype.hasobject:
        raise DataError(f"{name} holds Python objects (a pickle), which are never loaded")
    size = math.prod(shape) * dtype.itemsize
    if header + size != member.file_size or any(length < 0 for length in shape):
        raise DataError(f"{name} has {member.file_size - header:,} bytes, and shape {list(shape)}")

    def read() -> np.ndarray:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(member) as file:
                file.read(header)
                values = np.frombuffer(file.read(size), dtype)
                return values.reshape(shape, order="F" if column_major else "C")
        except _DAMAGED_ZIP as error:
            raise damaged(path, error) from error

    return Tensor(shape, dtype.name, read)


def read_safetensors(path: pathlib.Path) -> dict[str, Tensor]:
    """Returns the tensors of a safetensors file by name.

    Raises:
        DataError: it is damaged.
    """
    extras.require(extras.IMPORT, f"reading {path}", "safetensors")
    import safetensors

    try:
        with safetensors.safe_open(path, "numpy"):  # checks header, shapes and places
            pass
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise damaged(path, error) from error
    header.pop("__metadata__", None)
    return {name: _safetensor(path, 8 + length, entry) for name, entry in header.items()}


# The values of safetensors, and what they are stored as: NumPy lacks bfloat16.
_SAFETENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def _safetensor(path: pathlib.Path, start: int, entry: Mapping[str, Any]) -> Tensor:
    kind, shape, (first, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    stored = np.dtype(_SAFETENSORS.get(kind, "u1"))

    def read() -> np.ndarray:
        with path.open("rb") as file:
            file.seek(start + first)
            values = np.frombuffer(file.read(end - first), stored).reshape(shape)
        if kind == "BF16":  # the upper half of a float32
            values = (values.astype("<u4") << 16).view("<f4")
        return values

    name = {"BF16": "bfloat16"}.get(kind, stored.name if kind in _SAFETENSORS else kind)
    return Tensor(shape, name, read)


def read_torch(path: pathlib.Path) -> dict[str, Tensor]:
    """Returns the tensors of a PyTorch checkpoint by name; no code in it is run.

    Raises:
        UserError: the installed PyTorch cannot read it safely.
        DataError: it is damaged, or holds anything but tensors.
    """
    extras.require(extras.IMPORT, f"reading {path}", "torch")
    release = importlib.metadata.version("torch")
    if tuple(map(int, release.split(".")[:2])) < _FIRST_SAFE_TORCH:
        raise UserError(
            f"{path} is a pickle, which PyTorch {release} cannot read safely: "
            "pip install 'torch>=2.6', or convert the model to safetensors"
        )
    import torch

    try:
        with path.open("rb") as file:
            is_zip = file.read(len(_ZIP)) == _ZIP
        if is_zip:  # older releases of PyTorch write nothing that is compressed
            with zipfile.ZipFile(path) as archive:
                _members(path, archive)
    except _DAMAGED_ZIP as error:
        raise damaged(path, error) from error
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a hostile file can raise anything
        reason = first_line(error)
        raise DataError(
            f"{path} cannot be read without running code in it, or is damaged: {reason}"
        ) from error
    if not isinstance(found, dict):
        raise DataError(f"{path} holds a {type(found).__name__}: expected tensors by name")
    for name, value in found.items():
        is_plain = isinstance(value, torch.Tensor) and value.layout is torch.strided
        if not isinstance(name, str) or not is_plain or value.is_meta or value.is_nested:
            raise DataError(f"{path}: {quoted(name)} is a {type(value).__name__}, no plain tensor")
    return {name: _torch_tensor(path, name, value) for name, value in found.items()}


def _torch_tensor(path: pathlib.Path, name: str, value: Any) -> Tensor:
    shape = tuple(value.shape)
    if value.numel() * value.element_size() > (stored := value.untyped_storage().nbytes()):
        raise DataError(f"{path}: {quoted(name)} has {stored:,} bytes, and shape {list(shape)}")

    def read() -> np.ndarray:
        try:  # a tensor may have a gradient, or be stored as the negative of its values
            return value.detach().resolve_neg().float().numpy()
        except RuntimeError as error:
            raise damaged(path, error) from error

    return Tensor(shape, str(value.dtype).removeprefix("torch."), read)


def damaged(path: pathlib.Path, error: Exception) -> DataError:
    """Returns the error for a file of a model that cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            return DataError(
                f"{path} is a pointer of Git LFS, not the file: run `git lfs pull` in its folder"
            )
    reason = first_line(error)[:_LONGEST_REASON]  # which may hold what is in the file
    reason = reason or type(error).__name__
    return DataError(f"{path} is damaged: {reason}; download it again")
