"""Memory that was freed goes back to the system."""

import pathlib
import resource

from t2t_lite import memory


def test_what_was_freed_goes_back_to_the_machine():
    def resident():
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    blocks = [bytes([1]) * 100_000 for _ in range(1000)]
    kept = blocks[50::100]  # so that the freed memory is fragmented
    before = resident()
    del blocks
    memory.give_back()
    assert before - resident() > 50_000_000
    assert all(block == bytes([1]) * 100_000 for block in kept)
