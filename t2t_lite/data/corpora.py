"""Raw corpora: finding, fetching and reading aligned text files."""

import itertools
import logging
import os
import pathlib
from collections.abc import Iterator

from t2t_lite.data.text_files import iterate_lines
from t2t_lite.data.text_problems import Sample
from t2t_lite.errors import DataError, UserError
from t2t_lite.files import whole_file

log = logging.getLogger(__name__)


def find_file(path: str | os.PathLike[str]) -> pathlib.Path | None:
    """Returns `path` or `path.gz`, whichever exists; None if neither does."""
    plain = pathlib.Path(path)
    candidates = (plain, plain.with_name(plain.name + ".gz"))
    return next((file for file in candidates if file.is_file()), None)


def aligned_pairs(
    inputs_path: str | os.PathLike[str], targets_path: str | os.PathLike[str]
) -> Iterator[Sample]:
    """Yields the pairs of two files of which line n of one belongs to line n of the other.

    White space around a line is removed. Pairs with an empty side are dropped and counted in the
    log.

    Args:
        inputs_path: UTF-8 file of sources, plain or `.gz`.
        targets_path: the same for targets.

    Raises:
        DataError: different numbers of lines, no pair at all, or an unreadable line.
    """
    names = f"{os.fspath(inputs_path)} and {os.fspath(targets_path)}"
    number = empty = 0
    lines = itertools.zip_longest(iterate_lines(inputs_path), iterate_lines(targets_path))
    for number, (source, target) in enumerate(lines, 1):
        if source is None or target is None:
            shorter, longer = number - 1, number + sum(1 for _ in lines)
            counts = (longer, shorter) if target is None else (shorter, longer)
            raise DataError(
                f"{names}: {counts[0]} and {counts[1]} lines; they must be equally many, "
                "line n of one belonging to line n of the other"
            )
        sample = {"inputs": source.strip(), "targets": target.strip()}
        if all(sample.values()):
            yield sample
        else:
            empty += 1
    if empty == number:
        raise DataError(f"{names}: no pair of lines with text on both sides")
    if empty:
        log.warning("%s: dropped %d of %d pairs: one side is empty", names, empty, number)


def download(url: str, path: pathlib.Path, sha256: str) -> None:
    """Fetches a file; it appears whole, with that hash, or not at all.

    Raises:
        UserError: it cannot be fetched; the message says where to put it by hand.
    """
    import keras  # here, because it takes seconds

    log.info("downloading %s", url)
    try:
        with whole_file(path) as temporary:
            keras.utils.get_file(
                temporary.name,
                url,
                file_hash=sha256,
                hash_algorithm="sha256",
                cache_dir=str(temporary.parent),
                cache_subdir="",
            )
    except Exception as error:  # get_file raises nothing narrower
        raise UserError(
            f"cannot download {url} ({error}); fetch it by other means and put it at {path}"
        ) from error
