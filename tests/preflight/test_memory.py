import os
import pathlib
import subprocess
import sys

import pytest

from t2t_lite.preflight import memory


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


def test_this_machine():
    assert 0 < memory.available() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.integration
def test_limit_and_peak():
    script = """
from t2t_lite.preflight import memory
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
