import os
import pathlib
import subprocess
import sys

import pytest

from t2t_lite.training.preflight import memory


def _root(folder: pathlib.Path, **files: str) -> pathlib.Path:
    (folder / "proc").mkdir()
    (folder / "sys/fs/cgroup").mkdir(parents=True)
    (folder / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    8000 kB\n")
    for name, content in files.items():
        (folder / "sys/fs/cgroup" / name.replace("_", ".")).write_text(content)
    return folder


def test_a_machine_without_containers(tmp_path):
    assert memory.available(_root(tmp_path)) == 8000 * 1024


def test_a_container_without_a_limit(tmp_path):
    assert memory.available(_root(tmp_path, memory_max="max\n")) == 8000 * 1024


def test_a_container_with_a_limit(tmp_path):
    root = _root(
        tmp_path,
        memory_max="5000000\n",
        memory_current="3000000\n",
        memory_stat="anon 7\nactive_file 90\ninactive_file 400000\n",
    )
    assert memory.available(root) == 5_000_000 - 3_000_000 + 400_000


def _limited(folder: pathlib.Path, version: int, most: int) -> None:
    """Writes the files of a control group that uses 100 bytes, 30 of them for idle files."""
    limit, usage, idle = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ("memory.max", "memory.current", "inactive_file"),
    )[version - 1]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / limit).write_text(f"{most}\n")
    (folder / usage).write_text("100\n")
    (folder / "memory.stat").write_text(f"cache 7\n{idle} 30\n")


@pytest.mark.parametrize("most", [5000, 9223372036854771712])  # the second one is none
def test_a_container_of_version_1(tmp_path, most):
    root = _root(tmp_path)
    _limited(root / "sys/fs/cgroup/memory", 1, most)
    assert memory.available(root) == min(most - 100 + 30, 8000 * 1024)


@pytest.mark.parametrize(("version", "line"), [(1, "9:cpu,memory:"), (2, "0::")])
@pytest.mark.parametrize("inner", [3000, 6000])
def test_groups_within_groups_have_the_least_of_their_limits(tmp_path, version, line, inner):
    """As those of Slurm's jobs."""
    root = _root(tmp_path)
    top = root / "sys/fs/cgroup" / ("memory" if version == 1 else "")
    _limited(top / "slurm" / "job_7", version, 5000)
    _limited(top / "slurm" / "job_7" / "step_0", version, inner)
    _limited(top / "slurm" / "job_8", version, 200)
    (root / "proc/self").mkdir()
    (root / "proc/self/cgroup").write_text(f"3:cpuset:/\n{line}/slurm/job_7/step_0\n")
    assert memory.available(root) == min(inner, 5000) - 100 + 30


@pytest.mark.parametrize("path", ["/docker/of-the-host", "/../../of-the-host", "/"])
def test_a_path_of_the_host_does_not_hide_the_containers_limit(tmp_path, path):
    root = _root(tmp_path)
    _limited(root / "sys/fs/cgroup", 2, 5000)
    (root / "proc/self").mkdir()
    (root / "proc/self/cgroup").write_text(f"0::{path}\n")
    assert memory.available(root) == 5000 - 100 + 30


_VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                5000.
Pages active:                            200000.
Pages inactive:                           30000.
Pages speculative:                          400.
Pages throttled:                              0.
"""


def test_macos_tells_by_a_command(tmp_path, monkeypatch):
    command = tmp_path / "vm_stat"
    command.write_text(f"#!/bin/sh\ncat <<END\n{_VM_STAT}END\n")
    command.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert memory.available(tmp_path) == (5000 + 30_000 + 400) * 16_384
    command.write_text("#!/bin/sh\necho 'Pages free: 5000.'\n")
    with pytest.raises(OSError, match="vm_stat does not tell"):
        memory.available(tmp_path)


def test_without_proc_the_peak_is_that_since_the_process_began(monkeypatch):
    monkeypatch.setattr(memory, "HAS_PROC", False)
    memory.reset_peak()
    assert memory.peak() > 0


def test_this_machine():
    assert 0 < memory.available() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.integration
def test_limit_and_peak():
    script = """
from t2t_lite.training.preflight import memory
before = memory.peak()
block = bytearray(64 << 20)
assert 60 << 20 < memory.peak() - before < 70 << 20
del block
memory.reset_peak()
assert memory.peak() - before < 8 << 20
memory.limit(200 << 20)
try:
    bytearray(300 << 20)
except MemoryError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "refused\n", done.stderr
