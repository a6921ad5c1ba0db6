"""Which tests `.ci/run` takes: a third of the integration tests, or all but some unit tests.

`--part=N` keeps all other tests, and the integration tests of the files whose names belong to part
N: tests of one file share what takes long to make. `--integration-alone=FOLDER` leaves out the unit
tests of a folder, which run elsewhere. With `--as-traced`, TensorFlow runs graphs as
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
        "--integration-alone",
        action="append",
        default=[],
        metavar="FOLDER",
        help="leave out the unit tests of a folder; may be repeated",
    )
    group.addoption(
        "--as-traced", action="store_true", help="run TensorFlow's graphs without optimizing them"
    )


@pytest.hookimpl(trylast=True)  # after -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the integration tests of other parts, and the unit tests of some folders."""
    part = config.getoption("part")
    folders = [config.rootpath / name for name in config.getoption("integration_alone")]

    def is_wanted(item: pytest.Item) -> bool:
        if item.get_closest_marker("integration"):
            return part is None or part_of(item.nodeid) == part
        return not any(item.path.is_relative_to(folder) for folder in folders)

    kept, left_out = [], []
    for item in items:
        (kept if is_wanted(item) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def part_of(name: str) -> int:
    """Returns the part of a test, by the name of its file, whatever machine computes it."""
    return zlib.crc32(name.partition("::")[0].encode(), _START) % PARTS


def optimize_graphs(wanted: bool) -> None:
    """Lets TensorFlow optimize graphs before it runs them, or not."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not wanted})
