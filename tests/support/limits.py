"""Several devices, or a full disk, on the machine at hand."""

import contextlib
import resource
from collections.abc import Iterator
from typing import Any


def strategy_over(devices: int) -> Any:
    """Returns a MirroredStrategy over that many logical devices."""
    import tensorflow as tf  # takes seconds, which processes that need a full disk alone can spare

    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)])


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Lets no file grow beyond so many bytes within the block.

    Not for a whole test: pytest's own report may go to a file that is longer.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
