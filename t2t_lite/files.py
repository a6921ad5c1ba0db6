"""Files that appear whole or not at all."""

import contextlib
import os
import pathlib
from collections.abc import Iterator

# A file under this suffix is still being written: no reader of this package looks at it.
INCOMPLETE = ".incomplete"


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yields a temporary path beside `path`; renames it to `path` if the block succeeds.

    The contents reach the disk before the name does, so that a crash of the program or of the
    machine leaves either the old file or the new one. On an error the temporary file is removed.

    Args:
        path: the file to write; missing parent folders are made.

    Yields:
        The path to write to.
    """
    final = pathlib.Path(path)
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = final.with_name(final.name + INCOMPLETE)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(final)
        sync_folder(final.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(final)  # writing to an open file fails without a name
        raise


def sync_folder(folder: pathlib.Path) -> None:
    """Makes the names in `folder` durable (a rename is not, until its folder is synced)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes `text` as UTF-8, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
