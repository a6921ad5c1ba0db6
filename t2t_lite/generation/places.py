"""Where a sample stands in the files that it is read from."""

import pathlib
from collections.abc import Iterable

from t2t_lite.corpora import archives
from t2t_lite.errors import UserError
from t2t_lite.text.text_files import iterate_lines

# Lines of a file that may be the place.
_MOST = 1000


def find(paths: Iterable[pathlib.Path], source: str, target: str) -> str:
    """Returns the file and line of a pair of texts, or "" if no line has them as they are.

    Args:
        paths: files of lines, one of them for each side, or tables with tabs. Archives and other
            formats are searched in vain.
        source: the source; "" if there is none.
        target: the target.
    """
    sides = [side for side in (source.strip(), target.strip()) if side]
    by_side: list[dict[str, list[int]]] = [{} for _ in sides]
    for path in dict.fromkeys(str(path) for path in paths if not archives.is_archive(path.name)):
        try:
            for number, line in enumerate(iterate_lines(path), 1):
                cells = [line.strip(), *map(str.strip, line.split("\t"))]
                for side, places in zip(sides, by_side, strict=True):
                    if side in cells and len(places.setdefault(path, [])) < _MOST:
                        places[path].append(number)
        except (UserError, OSError):
            continue
    if not all(by_side):
        return ""
    first, last = by_side[0], by_side[-1]
    for path, numbers in first.items():
        for others in last.values():
            if common := sorted(set(numbers).intersection(others)):
                return f"{path}, line {common[0]:,}"
    return ""
