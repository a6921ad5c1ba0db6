"""Builds the search that decode hparams ask for."""

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import numpy as np

from t2t_lite import registry
from t2t_lite.errors import UsageError, quoted
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.models.transformer_regressor import TransformerRegressor
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.constraints import (
    Constraint,
    EndAtLimit,
    FixedLength,
    MinLength,
    NoRepeatedNgrams,
    Suppressed,
)
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.number_search import NumberSearch
from t2t_lite.search.parts import SearchPart, StepModel, ends_of
from t2t_lite.search.penalties import NO_PENALTY, Penalty
from t2t_lite.search.plain_keras import as_step_model
from t2t_lite.search.sampling import RandomSearch, Sampler
from t2t_lite.search.search_loop import SearchLoop
from t2t_lite.search.stopping import T2TStopping, stopping_named
from t2t_lite.search.term_search import TermSearch
from t2t_lite.search.tree_grammar import TreeGrammar
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.text_encoder import NoText, TextEncoder

_Part = TypeVar("_Part", Penalty, Sampler)


def make_search(
    model: Seq2Seq | Ensemble,
    encoders: Mapping[str, TextEncoder],
    hparams: DecodeHParams,
    parts: Sequence[SearchPart] = (),
) -> SearchLoop | NumberSearch:
    """Returns the search for a model's outputs.

    Args:
        model: its weights may change between searches.
        encoders: the encoders of "inputs" and "targets".
        hparams: search settings.
        parts: constraints, and at most one penalty or sampler, besides those that the hparam
            `search` names.

    Raises:
        UsageError: well_formed=true for a problem without trees, a name that is not registered, or
            parts that do not fit the search.
    """
    h = hparams
    models = model.models if isinstance(model, Ensemble) else [model]
    if all(getattr(one, "only_numbers", False) for one in models):
        if parts:
            raise UsageError(
                f"search part {type(parts[0]).__name__}: numbers are computed, not searched for: "
                "leave it out"
            )
        return NumberSearch(cast(Sequence[TransformerRegressor], models), h)
    steps = _stepping(model)
    if h.well_formed:
        steps = TreeGrammar.of(steps, encoders["inputs"], encoders["targets"], h.extra_length)
    own = _own_parts(h, encoders, parts)
    constraints = _constraints(h, own, ends_of(model)[1:])
    if h.end_at_limit:
        constraints = (*constraints, EndAtLimit())
    is_prompt = isinstance(encoders.get("inputs"), NoText)
    shortlist = _shortlist(h, encoders, own)
    samples = h.sampling_method == "random"
    _refuse(own, Sampler if samples else Penalty if h.beam_size > 1 else Constraint)
    if samples:
        sampler = _own(own, Sampler) or Sampler.from_hparams(h, encoders, "")
        return RandomSearch(
            steps, h.beam_size, h.seed, sampler, constraints, is_prompt, h.xla_compile, shortlist
        )
    if h.beam_size == 1:
        return greedy_search(steps, constraints, is_prompt, h.xla_compile, shortlist)
    return BeamSearch(
        steps,
        h.beam_size,
        _own(own, Penalty) or Penalty.from_hparams(h, encoders, ""),
        stopping_named(h.stopping, early=not h.return_beams),
        constraints=constraints,
        is_prompt=is_prompt,
        xla_compile=h.xla_compile,
        shortlist=shortlist,
    )


def make_term_search(
    model: Seq2Seq | Ensemble,
    encoders: Mapping[str, TextEncoder],
    hparams: DecodeHParams,
    parts: Sequence[SearchPart],
    kinds: np.ndarray,
    beam_size: int,
) -> TermSearch:
    """Returns the search for outputs that have what their sources ask for.

    Args:
        model: as in `make_search`.
        encoders: as in `make_search`.
        hparams: as in `make_search`; without sampling, trees and short list.
        parts: as in `make_search`.
        kinds: [V], see `TermSearch`.
        beam_size: K of this search.
    """
    h = hparams
    own = _own_parts(h, encoders, parts)
    penalty = _own(own, Penalty) or Penalty.from_hparams(h, encoders, "")
    _, *others = ends_of(model)  # an output that lacks a word must not end, whatever ends it
    return TermSearch(
        _stepping(model),
        kinds,
        beam_size,
        penalty if h.beam_size > 1 else NO_PENALTY,
        T2TStopping(early=not h.return_beams),
        constraints=(
            *_constraints(h, own, ()),
            *([Suppressed(tuple(others))] if others else []),
        ),
        xla_compile=h.xla_compile,
    )


def _stepping(model: Seq2Seq | Ensemble) -> StepModel:
    """Returns a model that takes the steps of what was trained; of an ensemble, each does."""
    if isinstance(model, Ensemble):
        return Ensemble([as_step_model(one) for one in model.models])
    stepping: StepModel = as_step_model(model)
    return stepping


def _own_parts(
    hparams: DecodeHParams, encoders: Mapping[str, TextEncoder], parts: Sequence[SearchPart]
) -> list[SearchPart]:
    """Returns the parts that the hparam `search` names, and others."""
    named = (name.partition(":") for name in hparams.search_names)
    own = (registry.search_part(kind).from_hparams(hparams, encoders, t) for kind, _, t in named)
    return [*own, *parts]


def _constraints(
    h: DecodeHParams, own: Sequence[SearchPart], others: tuple[int, ...]
) -> tuple[Constraint, ...]:
    """Returns the constraints of any search; `others`: ids that end an output besides EOS."""
    return (
        *([MinLength(h.min_length, others)] if h.min_length else []),
        *([NoRepeatedNgrams(h.no_repeat_ngram_size)] if h.no_repeat_ngram_size else []),
        *([FixedLength(others)] if h.force_decode_length else []),
        *(part for part in own if isinstance(part, Constraint)),
    )


def _shortlist(
    hparams: DecodeHParams, encoders: Mapping[str, TextEncoder], own: Sequence[SearchPart]
) -> Shortlist | None:
    """Returns the short list that the hparams name, if they do."""
    if not hparams.shortlist:
        return None
    if own:
        raise UsageError(
            f"search part {type(own[0]).__name__}: parts of your own see the ids of the whole "
            "vocabulary, not those of a short list; leave out one or the other"
        )
    return Shortlist.read(hparams.shortlist, encoders)


def _own(parts: Sequence[SearchPart], kind: type[_Part]) -> _Part | None:
    """Returns the user's penalty or sampler, if there is one."""
    found = [part for part in parts if isinstance(part, kind)]
    if len(found) > 1:
        names = " and ".join(type(part).__name__ for part in found)
        raise UsageError(f"{names}: a search has one {kind.__name__.lower()}; leave one out")
    return found[0] if found else None


def _refuse(parts: Sequence[SearchPart], kind: type[SearchPart]) -> None:
    """Raises UsageError for a part that is neither a constraint nor of the kind of the search."""
    for part in parts:
        if isinstance(part, Constraint | kind):
            continue
        name = f"search part {type(part).__name__}"
        if isinstance(part, Sampler):
            raise UsageError(f"{name}: a sampler needs the decode hparam sampling_method=random")
        if isinstance(part, Penalty):
            raise UsageError(
                f"{name}: a penalty applies only to beam search: beam_size above 1, no sampling"
            )
        raise UsageError(f"search part {quoted(part)}: expected a Constraint, Penalty or Sampler")
