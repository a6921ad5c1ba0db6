"""What the processor is good at."""

import functools
import os
import pathlib
import platform

_CPUINFO = pathlib.Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # the last one is ARM's
_8_BIT = {"avx512_vnni", "avx_vnni", "amx_int8", "asimddp"}  # the last one is ARM's


def slow_dtype(dtype: str) -> str:
    """Returns a line for the log if the processor is slow in this type; else ""."""
    if dtype != "bfloat16" or has_bfloat16_products() is not False:
        return ""
    return (
        "dtype=bfloat16 takes about twice the time of float32 on this processor, which has no "
        f"instructions for it ({_CPUINFO} lists neither avx512_bf16 nor amx_bf16): use "
        "dtype=float32"
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
    return bool(features() & _8_BIT) or platform.machine() == "arm64"  # Apple's all have


@functools.cache
def features() -> frozenset[str]:
    """Returns the instruction sets that Linux lists in /proc/cpuinfo; elsewhere none."""
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
