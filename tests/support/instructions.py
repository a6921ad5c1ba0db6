"""Which instructions the products of 8-bit integers take on this processor."""

import os
import pathlib

# What holds a library back, and parts of the values that leave it its instructions for 8 bits.
_LIMITS = {
    "ONEDNN_MAX_CPU_ISA": ("VNNI", "BF16", "FP16", "AMX", "AVX10", "ALL", "DEFAULT"),
    "MKL_ENABLE_INSTRUCTIONS": ("_E",),
}


def products_of_8_bits_saturate() -> bool:
    """Whether pairs of 8-bit products may be added up in 16 bits, which do not hold every sum.

    So it is without VNNI (AVX2, AVX-512 of before 2019), or where oneDNN or MKL is told to do
    without. CT2_FORCE_CPU_ISA does not count: it chooses the kernels of CTranslate2 itself,
    which multiplies by oneDNN or MKL.
    """
    flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    if not flags & {"avx512_vnni", "avx_vnni"}:
        return True
    return any(
        name in os.environ and not any(part in os.environ[name].upper() for part in parts)
        for name, parts in _LIMITS.items()
    )
