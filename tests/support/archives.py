"""Archives with given members."""

import io
import pathlib
import tarfile
import zipfile
from collections.abc import Mapping


def write_archive(path: pathlib.Path, members: Mapping[str, str | bytes]) -> pathlib.Path:
    """Writes a ZIP file or a tar file, compressed as its name says; returns its path."""
    contents = {
        name: text.encode() if isinstance(text, str) else text for name, text in members.items()
    }
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, data in contents.items():
                zipped.writestr(name, data)
        return path
    compression = {".tar": "", ".bz2": "bz2"}.get(path.suffix, "gz")
    with tarfile.open(path, f"w:{compression}") as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path
