"""Main memory: how much is available to a process, and how much it has used."""

import pathlib
import re
import resource

_ROOT = pathlib.Path("/")


def available(root: pathlib.Path = _ROOT) -> int:
    """Returns the bytes that a new process can use on this machine or in its container.

    Args:
        root: the folder that contains `proc` and `sys`.
    """
    machine = _number(root / "proc/meminfo", "MemAvailable:") * 1024
    control_group = root / "sys/fs/cgroup"
    try:
        most = int((control_group / "memory.max").read_text())
        used = int((control_group / "memory.current").read_text())
    except (FileNotFoundError, ValueError):  # no version 2, or "max": no limit
        return machine
    # Cached files that have not been read recently are evicted.
    idle_files = _number(control_group / "memory.stat", "inactive_file")
    return min(machine, most - used + idle_files)


def limit(size: int) -> None:
    """Limits this process to `size` bytes; an allocation beyond that fails at once.

    Code and other memory-mapped files, which `peak` counts, are exempt: they are shared, or can be
    read again. Not for a process that uses a GPU, whose driver reserves far more than it uses.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    size = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))


def reset_peak() -> None:
    """Restarts the measurement of `peak`."""
    pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak() -> int:
    """Returns the peak main memory of this process, in bytes."""
    # `resource.getrusage` includes the process that this one was forked from.
    return _number(pathlib.Path("/proc/self/status"), "VmHWM:") * 1024


def _number(path: pathlib.Path, name: str) -> int:
    found = re.search(rf"^{name}\s+(\d+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise OSError(f"{path} has no {name!r}")
    return int(found[1])
