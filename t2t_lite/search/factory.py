"""Builds the search that decode hparams ask for."""

from collections.abc import Mapping

from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.constraints import Constraints
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.penalties import NO_PENALTY, Penalty
from t2t_lite.search.sampling import Sampler
from t2t_lite.search.search_loop import SearchLoop, StepModel
from t2t_lite.search.tree_grammar import TreeGrammar
from t2t_lite.text.text_encoder import NoText, TextEncoder


def make_search(
    model: Seq2Seq | Ensemble, encoders: Mapping[str, TextEncoder], hparams: DecodeHParams
) -> SearchLoop:
    """Returns the search for a model's outputs.

    Args:
        model: its weights may change between searches.
        encoders: the encoders of "inputs" and "targets".
        hparams: search settings.

    Raises:
        UsageError: well_formed=true for a problem without trees.
    """
    h = hparams
    steps: StepModel = model
    if h.well_formed:
        steps = TreeGrammar.of(model, encoders["inputs"], encoders["targets"], h.extra_length)
    constraints = Constraints(
        h.min_length,
        h.no_repeat_ngram_size,
        h.force_decode_length,
        is_prompt=isinstance(encoders.get("inputs"), NoText),
    )
    if h.sampling_method == "random":
        return Sampler(
            steps,
            samples=h.beam_size,
            seed=h.seed,
            temperature=h.sampling_temp,
            top_k=max(h.sampling_keep_top_k, 0),
            top_p=h.sampling_keep_top_p,
            constraints=constraints,
            xla_compile=h.xla_compile,
        )
    if h.beam_size == 1:
        return greedy_search(steps, constraints, h.xla_compile)
    return BeamSearch(
        steps,
        h.beam_size,
        penalty_of(h),
        stop_early=not h.return_beams,
        constraints=constraints,
        xla_compile=h.xla_compile,
    )


def penalty_of(hparams: DecodeHParams) -> Penalty:
    """Returns the penalty by which the search of `hparams` scores finished hypotheses."""
    h = hparams
    if h.beam_size == 1 or h.sampling_method == "random":
        return NO_PENALTY
    return Penalty(h.alpha, h.length_penalty, h.coverage_penalty)
