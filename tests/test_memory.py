"""Memory that was freed goes back to the system."""

import ctypes.util
import os
import subprocess
import sys

import pytest

_SCRIPT = """
import pathlib, resource
from t2t_lite import memory

def resident():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()

blocks = [bytes([1]) * 100_000 for _ in range(1000)]
kept = blocks[50::100]  # so that the freed memory is fragmented
del blocks
before = resident()
memory.give_back()
assert all(block == bytes([1]) * 100_000 for block in kept)
print(before - resident())
"""


@pytest.mark.parametrize("allocator", ["", "jemalloc"])
def test_what_was_freed_goes_back_to_the_machine(allocator):
    """In a process that has freed nothing else."""
    library = allocator and ctypes.util.find_library(allocator)
    if library is None:
        pytest.skip(f"{allocator} is not on this machine")
    command = [sys.executable, "-c", _SCRIPT]
    printed = subprocess.check_output(command, env={**os.environ, "LD_PRELOAD": library})
    assert int(printed) > 50_000_000
