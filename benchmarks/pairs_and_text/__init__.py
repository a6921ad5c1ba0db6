"""A user's folder (`--t2t_usr_dir`): few pairs with plain text, in 2,000 pieces.

The share of plain text falls from a half to a tenth in `mixture_annealing_steps` updates.
"""

from t2t_lite import registry
from t2t_lite.data.mixture import Direction, MultilingualProblem

PAIRS, TEXT = "text2text_tmpdir_bpe2k", "plain_text_tmpdir"


class _PairsAndText(MultilingualProblem):
    approx_vocab_size = 2_000


def _with(text: str) -> tuple[Direction, Direction]:
    return Direction(PAIRS, 0.5, final_weight=0.9), Direction(text, 0.5, final_weight=0.1)


@registry.register_problem
class PairsAndTargets(_PairsAndText):
    """Plain text as targets of empty sources."""

    directions = _with(TEXT)


@registry.register_problem
class PairsAndNoise(_PairsAndText):
    """Plain text with noise as its own source."""

    directions = _with(f"{TEXT}_denoise")
