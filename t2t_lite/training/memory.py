"""How much main memory there is for a process, and how much it has taken."""

import ctypes
import pathlib
import re
import resource

_ROOT = pathlib.Path("/")


def available(root: pathlib.Path = _ROOT) -> int:
    """Returns the bytes that a new process can take before the machine or its container runs out.

    Args:
        root: the folder that holds `proc` and `sys`.
    """
    machine = _number(root / "proc/meminfo", "MemAvailable:") * 1024
    control_group = root / "sys/fs/cgroup"
    try:
        most = int((control_group / "memory.max").read_text())
        used = int((control_group / "memory.current").read_text())
    except (FileNotFoundError, ValueError):  # no version 2, or "max": no limit
        return machine
    # Files that nobody has looked at for a while give way.
    idle_files = _number(control_group / "memory.stat", "inactive_file")
    return min(machine, most - used + idle_files)


def limit(size: int) -> None:
    """Lets this process have no more than `size` bytes; what goes beyond fails at once.

    Code and other files in memory, which `peak` counts, are left out: they are shared, or can be
    read again. Not for a process that uses a GPU: its driver reserves far more than it takes.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    size = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))


def reset_peak() -> None:
    """Lets `peak` count from now."""
    pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak() -> int:
    """Returns the most bytes of main memory that this process has held at once."""
    # `resource.getrusage` counts what the process was forked from, too.
    return _number(pathlib.Path("/proc/self/status"), "VmHWM:") * 1024


def give_back() -> None:
    """Returns to the machine what was freed, if the C library can (glibc).

    It keeps freed memory, cut up as it is, for each thread apart. An evaluation's arrays have other
    sizes each time, so that a long run would hold more and more of such remains.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _number(path: pathlib.Path, name: str) -> int:
    found = re.search(rf"^{name}\s+(\d+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise OSError(f"{path} does not say {name!r}")
    return int(found[1])
