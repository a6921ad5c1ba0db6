"""Memory that the process has freed."""

import ctypes

_ALL_ARENAS = b"arena.4096.purge"  # jemalloc's MALLCTL_ARENAS_ALL


def give_back() -> None:
    """Returns freed memory to the system, as far as the allocator can: glibc's, or jemalloc.

    They keep freed, fragmented memory for each thread. A long process whose arrays vary in size
    would accumulate more and more of it.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallctl"):
        library.mallctl(_ALL_ARENAS, None, None, None, ctypes.c_size_t(0))
    elif hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
