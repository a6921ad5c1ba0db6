"""Debian packages with given files."""

import gzip
import io
import lzma
import pathlib
import tarfile
from collections.abc import Callable, Mapping

VERSION = "1%3a7.4-1"


def tar_bytes(files: Mapping[str, str | bytes]) -> bytes:
    """Returns a tar archive, its names as Debian writes them: `./usr/...`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def ar_bytes(members: Mapping[str, bytes]) -> bytes:
    """Returns an `ar` archive."""
    parts = [b"!<arch>\n"]
    for name, data in members.items():
        header = f"{name:16}{0:<12}{0:<6}{0:<6}{'100644':8}{len(data):<10}`\n"
        parts += [header.encode("ascii"), data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


def package_bytes(files: Mapping[str, str | bytes], compression: str = "xz") -> bytes:
    """Returns a Debian package of format 2.0."""
    compress: Callable[[bytes], bytes] = lzma.compress if compression == "xz" else gzip.compress
    return ar_bytes(
        {
            "debian-binary": b"2.0\n",
            f"control.tar.{compression}": compress(tar_bytes({"control": "Package: x"})),
            f"data.tar.{compression}": compress(tar_bytes(files)),
        }
    )


def write_help(
    folder: pathlib.Path,
    language: str,
    pages: Mapping[str, str | bytes],
    compression: str = "xz",
    version: str = VERSION,
) -> pathlib.Path:
    """Writes a package of LibreOffice's help; pages are by their paths, `text/...`."""
    package = {"en": "en-us", "zh": "zh-cn"}.get(language, language)
    code = {"en": "en-US", "zh": "zh-CN"}.get(language, language)
    files = {f"usr/share/libreoffice/help/{code}/{page}": html for page, html in pages.items()}
    path = folder / f"libreoffice-help-{package}_{version}_all.deb"
    path.write_bytes(package_bytes(files, compression))
    return path
