"""A user's folder (`--t2t_usr_dir`): few pairs, alone and with plain text, in 2,000 pieces.

The share of plain text falls from a half to a tenth in `mixture_annealing_steps` updates.
"""

from t2t_lite import registry
from t2t_lite.data.mixture import Direction, MultilingualProblem
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdirBpe

PAIRS, TEXT = "few_pairs", "plain_text_tmpdir"
_VOCABULARY = 2_000  # of 8,000 pieces, ten thousand pairs have most too rarely


@registry.register_problem
class FewPairs(Text2textTmpdirBpe):
    """Pairs alone."""

    approx_vocab_size = _VOCABULARY


class _PairsAndText(MultilingualProblem):
    approx_vocab_size = _VOCABULARY


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
