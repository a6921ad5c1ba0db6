"""The integration tests in three parts, of which `.ci/run` takes one.

`--part=N` keeps all other tests, and the integration tests of the files whose names belong to part
N: tests of one file share what takes long to make. With `--as-traced`, TensorFlow runs graphs as
they were traced, since optimizing one takes longer than running it once; processes that tests start
optimize theirs.
"""

import zlib

import pytest

PARTS = 3
# Where the checksum of a name begins: with this one, the parts take equally long. Found by trying.
_START = 2862


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the flags."""
    group = parser.getgroup("t2t_lite")
    group.addoption(
        "--part",
        type=int,
        choices=range(PARTS),
        help="of the integration tests, run this third alone",
    )
    group.addoption(
        "--as-traced", action="store_true", help="run TensorFlow's graphs without optimizing them"
    )


@pytest.hookimpl(trylast=True)  # after -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the integration tests of other parts."""
    part = config.getoption("part")
    if part is None:
        return
    kept, left_out = [], []
    for item in items:
        is_of_part = not item.get_closest_marker("integration") or part_of(item.nodeid) == part
        (kept if is_of_part else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def part_of(name: str) -> int:
    """Returns the part of a test, by the name of its file, whatever machine computes it."""
    return zlib.crc32(name.partition("::")[0].encode(), _START) % PARTS


def optimize_graphs(wanted: bool) -> None:
    """Lets TensorFlow optimize graphs before it runs them, or not."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not wanted})
