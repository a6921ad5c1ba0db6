"""What the processor is good at."""

import functools
import os
import pathlib
import re
import subprocess
import sys

_CPUINFO = pathlib.Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # the last one is ARM's
_8_BIT = {"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "dotprod"}  # the last two are ARM's
# What macOS calls ARM's: hw.optional.arm.FEAT_BF16: 1
_OF_MACOS = re.compile(r"^hw\.optional\.arm\.FEAT_(\w+): 1$", re.MULTILINE)


def slow_dtype(dtype: str) -> str:
    """Returns a line for the log if the processor is slow in this type; else ""."""
    if dtype != "bfloat16" or has_bfloat16_products() is not False:
        return ""
    return (
        "dtype=bfloat16 takes about twice the time of float32 on this processor, which has no "
        "instructions for it (such as avx512_bf16, amx_bf16 or ARM's bf16): use dtype=float32"
    )


def cores() -> int:
    """Returns the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_bfloat16_products() -> bool | None:
    """Whether there are instructions for products in bfloat16; None: unknown."""
    found = features()
    return bool(found & _BFLOAT16) if found else None


def has_8_bit_products() -> bool:
    """Whether there are instructions for 8-bit products that do not saturate; unknown: no."""
    return bool(features() & _8_BIT)


@functools.cache
def features() -> frozenset[str]:
    """Returns the instruction sets that Linux lists in /proc/cpuinfo, and macOS by a command.

    The names are Linux's, or ARM's own in lower case; there are none where nothing lists them.
    """
    if sys.platform == "darwin":
        listed = subprocess.run(
            ["sysctl", "hw.optional.arm"], capture_output=True, text=True, check=False
        )
        return frozenset(name.lower() for name in _OF_MACOS.findall(listed.stdout))
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
