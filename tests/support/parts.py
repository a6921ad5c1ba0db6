"""The integration tests in three parts, of which `.ci/run` takes one.

`--part=N` keeps all other tests, and the integration tests whose names belong to part N. The whole
name counts, with the file and the parameters, so that each part has tests of every file.
"""

import zlib

import pytest

PARTS = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the flag."""
    parser.getgroup("t2t_lite").addoption(
        "--part",
        type=int,
        choices=range(PARTS),
        help="of the integration tests, run this third alone",
    )


@pytest.hookimpl(trylast=True)  # after -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the integration tests of other parts."""
    part = config.getoption("part")
    if part is None:
        return
    kept = [
        item
        for item in items
        if not item.get_closest_marker("integration") or part_of(item.nodeid) == part
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def part_of(name: str) -> int:
    """Returns the part of a test, whatever machine computes it."""
    return zlib.crc32(name.encode()) % PARTS
