"""Our search settings for programs that divide by a power of the length."""

from t2t_lite.search.decode_hparams import DecodeHParams

USUAL_LENGTH = 25  # subwords


def average_exponent(search: DecodeHParams, length: int = USUAL_LENGTH) -> float:
    """Returns the exponent of the length by which outputs rank as in our search.

    T2T's penalty differs: ((5 + n) / 6)^alpha grows as n^(alpha n / (5 + n)) does.

    Args:
        search: our settings.
        length: that of the outputs whose ranks are to agree.
    """
    if search.length_penalty == "average":
        return search.alpha
    return round(search.alpha * length / (5 + length), 2)


# The settings that other programs lack, or have otherwise.
_OWN = (
    *("coverage_penalty", "min_length", "no_repeat_ngram_size", "sampling_method", "well_formed"),
    *("replace_unk", "force_decode_length", "end_at_limit", "search", "shortlist"),
)


def not_carried(search: DecodeHParams, *carried: str) -> list[str]:
    """Returns the settings that are on and that a program does not obey, as name=value.

    Args:
        search: our settings.
        *carried: the names of those that it does.
    """
    usual = DecodeHParams()
    return [
        f"{name}={getattr(search, name)}"
        for name in _OWN
        if name not in carried and getattr(search, name) != getattr(usual, name)
    ]
