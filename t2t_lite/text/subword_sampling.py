"""The samplers of subwords that hyperparameters ask for."""

from collections.abc import Mapping
from typing import NoReturn

from t2t_lite.errors import UsageError
from t2t_lite.text.bpe_dropout import BpeDropout
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.subword_sampler import SubwordSampler
from t2t_lite.text.text_encoder import TabEncoder, TextEncoder
from t2t_lite.text.unigram_sampling import UnigramSampling


def make_samplers(
    encoders: Mapping[str, TextEncoder], *, bpe_dropout: float = 0.0, unigram_alpha: float = 0.0
) -> dict[str, SubwordSampler]:
    """Returns a sampler for each side; none if none is asked for.

    Args:
        encoders: the vocabulary of each side.
        bpe_dropout: probability of skipping a merge; 0: not asked for.
        unigram_alpha: the power of probabilities; 0: not asked for.

    Raises:
        UsageError: a vocabulary is not of the kind that is asked for.
    """
    made: dict[TextEncoder, SubwordSampler] = {}  # sides with one vocabulary share a cache
    asked = ((bpe_dropout, BpeDropout), (unigram_alpha, UnigramSampling))
    for value, kind in asked:
        for side, encoder in encoders.items() if value else ():
            if not isinstance(encoder, SentencePieceEncoder) or encoder.model_type != kind.kind:
                _refuse(kind, value, side, encoder)
            elif encoder not in made:
                made[encoder] = kind(encoder, value)
    return {side: made[encoder] for side, encoder in encoders.items() if made}


def _refuse(kind: type[SubwordSampler], value: float, side: str, encoder: TextEncoder) -> NoReturn:
    """Raises the error for a vocabulary of another kind."""
    if isinstance(encoder, TabEncoder):
        raise UsageError(
            f"hparam {kind.hparam}={value:g}: the {side} have several texts on a line, whose "
            f"segmentations cannot be sampled: set {kind.hparam}=0"
        )
    found = type(encoder).__name__
    instead = ""
    if isinstance(encoder, SentencePieceEncoder):
        found = f"SentencePiece {encoder.model_type}"
        others = (BpeDropout, UnigramSampling)
        instead = "".join(f" ({one.hparam} instead)" for one in others if one.kind in found)
    raise UsageError(
        f"hparam {kind.hparam}={value:g} needs a vocabulary of the type SentencePiece {kind.kind}, "
        f"but that of the {side} is of the type {found}: set {kind.hparam}=0{instead}, or choose a "
        f"problem whose vocab_type is {kind.kind!r}"
    )
