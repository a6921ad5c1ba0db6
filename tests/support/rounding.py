"""How far two computations of the same numbers may lie apart: the one bound of all tests.

The same kernel on the same shapes gives the same bits; there, tests ask for equality. Everywhere
else (another shape, another kernel, a compiler, a recorded number, another processor) the same
terms are added in another order, and the last bits differ. By how much follows from the number of
roundings and the size of the values, not from what a machine happened to give.
"""

import math

import numpy as np

# Half the spacing of a type's numbers just above 1: the largest relative error of one rounding.
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
# A sum of n terms errs by more than the bound with a probability below 2 n exp(-18).
_CONFIDENCE = 6.0


def relative_bound(terms: int, dtype: str = "float32") -> float:
    """Returns the largest relative error that so many roundings, one after another, may cause.

    Errors of rounding are as often up as down, so that they grow with the square root of their
    number (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis",
    theorem 2.4, with lambda = 6).

    Args:
        terms: roundings on the longest path to a value: the terms of each sum on the way. Where a
            product of low-precision factors is summed in float32, it is one rounding.
        dtype: the type that is rounded to.
    """
    unit = UNIT[dtype]
    return math.expm1(_CONFIDENCE * math.sqrt(terms) * unit + terms * unit**2 / (1.0 - unit))


def assert_close(
    found, wanted, terms: int, *, dtype: str = "float32", scale: float | None = None, err_msg=""
) -> None:
    """Asserts that two arrays are the same but for the rounding of both.

    Args:
        found: an array or tensor.
        wanted: what it should be, of the same shape, computed or recorded.
        terms: roundings on the longest path to a value, in each of the two (see `relative_bound`).
        dtype: the type that was rounded to, the coarser of the two.
        scale: the size of the largest value on the way; by default, of the largest one wanted. A
            value near 0 is a sum of terms of that size, and so is its error.
        err_msg: what is compared.
    """
    found, wanted = (np.asarray(array, np.float64) for array in (found, wanted))
    if scale is None:
        scale = np.abs(wanted).max(initial=0.0)
    bound = scale * relative_bound(2 * terms, dtype)  # both were rounded
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound, err_msg=err_msg)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns normal random numbers, float32, the same for each shape and seed."""
    return np.random.RandomState(seed).normal(size=shape).astype(np.float32)
