"""Which instructions the products of 8-bit integers take on this processor."""

import math
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


def error_of_8_bits(hparams) -> float:
    """The root mean square of a log-probability's error, to the standard deviation of the logits.

    The error is that of rounding both factors of every product on the longest path. One below a
    unit, and as likely as any other there, has a root mean square of unit / sqrt(3); two factors
    and two logits, whose difference a log-probability is, double it.
    """
    if products_of_8_bits_saturate():
        # 16 bits hold 32,767, at least half of any sum of two products of 255 and 127 at most.
        return 0.5
    return 2 * unit_of_8_bits(hparams.filter_size) * math.sqrt(products_in_a_row(hparams) / 3)


def products_in_a_row(hparams) -> int:
    """Values and outputs of attention, and both products of a network; then the logits."""
    return 4 * hparams.encoder_layers + 6 * hparams.decoder_layers + 1


def unit_of_8_bits(terms: int) -> float:
    """The largest error of rounding to 8 bits, to the root mean square of a row of so many.

    A step is 1/127 of the largest number of the row, which is about sqrt(2 log n) times the root
    mean square of n normal ones.
    """
    return math.sqrt(2 * math.log(terms)) / 127 / 2
