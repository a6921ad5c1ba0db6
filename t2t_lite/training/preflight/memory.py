"""Main memory: how much is available to a process, and how much it has used.

Linux tells both in /proc. macOS tells the first by the command `vm_stat`, and of the second the
peak since the process began.
"""

import math
import pathlib
import re
import resource
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

_ROOT = pathlib.Path("/")
# Only a system that has it keeps a process within `limit`.
HAS_PROC = pathlib.Path("/proc/self/status").exists()


def available(root: pathlib.Path = _ROOT) -> int:
    """Returns the bytes that a new process can use on this machine or in its container.

    Args:
        root: the folder that contains `proc` and `sys`.
    """
    if not (root / "proc/meminfo").exists():
        return _free_pages(subprocess.check_output(["vm_stat"], text=True))
    machine = _number(root / "proc/meminfo", "MemAvailable:") * 1024
    return int(min(machine, *map(_left, _control_groups(root))))


def _free_pages(statistics: str) -> int:
    """Returns the bytes that are free, or that the system frees when asked, from `vm_stat`."""
    size = re.search(r"page size of (\d+) bytes", statistics)
    kinds = "free", "inactive", "speculative"
    pages = [re.search(rf"^Pages {kind}:\s+(\d+)", statistics, re.MULTILINE) for kind in kinds]
    found = [int(match[1]) for match in (size, *pages) if match]
    if len(found) < 1 + len(kinds):
        raise OSError("vm_stat does not tell the free memory")
    return found[0] * sum(found[1:])


class _ControlGroup(NamedTuple):
    """A folder of Linux's control groups, and the names of its files in its version."""

    folder: pathlib.Path
    limit: str
    usage: str
    idle_files: str  # in memory.stat


def _control_groups(root: pathlib.Path) -> Iterator[_ControlGroup]:
    """Yields the control groups of this process that may limit memory, up to the topmost.

    A container sees its own as the topmost, whatever the path in `/proc/self/cgroup`.
    """
    mount = root / "sys/fs/cgroup"
    versions = {
        "": (mount, "memory.max", "memory.current", "inactive_file"),
        "memory": (
            *(mount / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            "total_inactive_file",
        ),
    }
    own = root / "proc/self/cgroup"
    lines = own.read_text().splitlines() if own.is_file() else []
    paths = [line.split(":", 2)[1:] for line in lines]
    for controller, (top, *names) in versions.items():
        yield _ControlGroup(top, *names)
        for controllers, path in paths:
            if controller in controllers.split(","):
                folder = top / path.strip("/")
                below = (one for one in (folder, *folder.parents) if top in one.parents)
                yield from (_ControlGroup(one, *names) for one in below if ".." not in one.parts)


def _left(group: _ControlGroup) -> float:
    """Returns the bytes that a control group leaves; infinity without a limit."""
    try:
        most = int((group.folder / group.limit).read_text())
        used = int((group.folder / group.usage).read_text())
    except (FileNotFoundError, ValueError):  # not of this version, or "max": no limit
        return math.inf
    # Cached files that have not been read recently are evicted.
    return most - used + _number(group.folder / "memory.stat", group.idle_files)


def limit(size: int) -> None:
    """Limits this process to `size` bytes; an allocation beyond that fails at once.

    Code and other memory-mapped files, which `peak` counts, are exempt: they are shared, or can be
    read again. Not for a process that uses a GPU, whose driver reserves far more than it uses.
    Without effect where `HAS_PROC` is false.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    size = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))


def reset_peak() -> None:
    """Restarts the measurement of `peak`, where the system can."""
    if HAS_PROC:
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak() -> int:
    """Returns the peak main memory of this process, in bytes."""
    if not HAS_PROC:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes, on macOS
    # On Linux, `resource.getrusage` includes the process that this one was forked from.
    return _number(pathlib.Path("/proc/self/status"), "VmHWM:") * 1024


def _number(path: pathlib.Path, name: str) -> int:
    found = re.search(rf"^{name}\s+(\d+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise OSError(f"{path} has no {name!r}")
    return int(found[1])
