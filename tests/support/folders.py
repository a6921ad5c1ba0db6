"""What a folder of generated data holds."""

import hashlib
import pathlib


def digests(folder: pathlib.Path) -> dict[str, str]:
    """Returns the SHA-256 of each file, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def leftovers(folder: pathlib.Path) -> list[str]:
    """Returns the names of the files that a reader could take for data."""
    return [path.name for path in folder.glob("*") if path.suffix != ".incomplete"]
