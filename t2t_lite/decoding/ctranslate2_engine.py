"""CTranslate2's engine: decodes with an export of the run's checkpoint, made once.

Its search differs from ours in two points. It ends when enough outputs have ended, and an output
can end only among the beam_size likeliest continuations, not among twice as many. Its hypotheses
are ranked by our penalties, and scored as ours are.
"""

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from t2t_lite.decoding.config import CTRANSLATE2
from t2t_lite.decoding.divergence import DivergedError, require_numbers, require_outputs
from t2t_lite.decoding.engine import Engine, Target, Worker, mapped
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.kept_export import KeptExport
from t2t_lite.errors import UsageError
from t2t_lite.search.decode_hparams import DecodeHParams, length_divisor
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.languages import speaking
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, TextEncoder

if TYPE_CHECKING:
    import ctranslate2

    from t2t_lite.hparams.basic import BasicHParams

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")

# Decode hparams without a counterpart in CTranslate2, by the value that asks for nothing; and why.
REFUSED = {
    "sampling_method": ("argmax", "it draws for a batch, not for each line"),
    "well_formed": (False, "it does not know trees"),
    "force_decode_length": (False, "it has no outputs of a fixed length"),
    "search": ("", "it cannot call search parts of your own"),
    "dtype": ("", "--compute_type sets the type"),
    "xla_compile": (False, "XLA compiles TensorFlow's programs"),
}

# Subwords of the sources that a translator decodes at a time; more take memory, not less time.
_BATCH_SUBWORDS = 1024

# A beam search ends when this many times beam_size outputs have ended: of fewer, the best may not
# be one; more take time, and hardly find others (docs/results-practice.md).
PATIENCE = 1.5

# Lengths between which CTranslate2's length penalty grows as much as ours.
_USUAL_LENGTHS = 10, 40

# Least attention to a source position, as in `search/penalties.py`: log 0 outweighs all else.
_LEAST_ATTENTION = 1e-6


def refuse_short_list(
    shortlist: Shortlist, hparams: DecodeHParams, never_output: Sequence[int]
) -> None:
    """Raises UsageError for a short list with which CTranslate2's search would go wrong.

    It finds the places of given and suppressed tokens in the list of an earlier batch. In each step
    it chooses among twice `beam_size` continuations, even if a hypothesis has fewer.

    Args:
        shortlist: what outputs may consist of.
        hparams: search settings.
        never_output: the ids that the model never outputs.
    """
    if never_output:
        raise UsageError(_refused_list(hparams, "with a model that has suppressed_ids"))
    nothing = np.zeros([1, 0], np.int32)
    fewest, needed = len(shortlist.candidates(nothing, nothing)[0]) - 1, 2 * hparams.beam_size
    if hparams.beam_size > 1 and fewest < needed:
        raise UsageError(
            f"short list {hparams.shortlist}: it has {fewest} subwords for every source, and "
            f"beam_size={hparams.beam_size} with --engine=ctranslate2 needs {needed}; make it with "
            "a larger --frequent of t2t-shortlist, or use --engine=tensorflow"
        )


def _refused_list(hparams: DecodeHParams, where: str) -> str:
    return (
        f"short list {hparams.shortlist}: not with --engine=ctranslate2 {where}: it "
        "would take other subwords for these; leave the list out, or use --engine=tensorflow"
    )


def refuse_settings(hparams: DecodeHParams, parts: Sequence[object] = ()) -> None:
    """Raises UsageError for a search setting that CTranslate2 has no counterpart of."""
    if parts:
        raise UsageError(
            f"search part {type(parts[0]).__name__}: not with --engine=ctranslate2, which cannot "
            "call search parts of your own; leave it out, or use --engine=tensorflow"
        )
    for name, (nothing, reason) in REFUSED.items():
        if (value := getattr(hparams, name)) != nothing:
            raise UsageError(
                f"decode hparam {name}={value}: not with --engine=ctranslate2: {reason}; leave it "
                "out, or use --engine=tensorflow"
            )


class CTranslate2Engine(Engine):
    """Searches and scores with CTranslate2, on all cores, or on one GPU.

    Args:
        translator: CTranslate2's, for the export.
        export: what else is known of the model.
        encoders: the encoders of "inputs" and "targets".
        hparams: search settings.
        model_hparams: the model's hyperparameters.
        name: what messages call the model.
        with_scores: whether anybody sees the scores; if not, those of a model with ids that it
            never outputs are higher than ours, by the probability of these ids, and those of a
            greedy search in float32 or int8 are 0: a softmax over the vocabulary is saved.

    Raises:
        UsageError: a setting has no counterpart, or the model does not know a language.
    """

    has_source_attention = True

    def __init__(
        self,
        translator: "ctranslate2.Translator",
        export: KeptExport,
        encoders: Mapping[str, TextEncoder],
        hparams: DecodeHParams,
        model_hparams: "BasicHParams",
        name: str,
        with_scores: bool = True,
    ) -> None:
        refuse_settings(hparams)
        self.kind = f"{CTRANSLATE2}, {translator.compute_type}"
        self.encoders = speaking(encoders, hparams.languages)
        self.hparams = hparams
        self.max_input_size = _least(
            hparams.source_limit([model_hparams.max_length]), export.positions
        )
        self.learned_positions = export.learned_positions
        self._translator = translator
        self._export = export
        self._model_hparams = model_hparams
        self._name = name
        self._with_scores = with_scores
        self._worker = CTranslate2Worker(translator, export, hparams, with_scores)

    @property
    def model_hparams(self) -> "BasicHParams":
        """The hyperparameters of the model."""
        return self._model_hparams

    def returning_beams(self, return_beams: bool) -> Self:
        """Returns an engine of the same model; its searches always end with all hypotheses."""
        if return_beams == self.hparams.return_beams:
            return self
        hparams = self.hparams.copy(return_beams=return_beams)
        fixed = (self._model_hparams, self._name, self._with_scores)
        return type(self)(self._translator, self._export, self.encoders, hparams, *fixed)

    def map(
        self, work: Callable[[Worker, _Batch], _Result], batches: Sequence[_Batch]
    ) -> Iterator[tuple[int, _Result]]:
        """Calls `work` for as many batches at a time as CTranslate2 has translators."""
        on_worker = functools.partial(work, self._worker)
        yield from mapped(on_worker, batches, self._translator.num_translators)

    def diverged(self, source: Source, place: str) -> DivergedError:
        """Returns the error for a source: the exported weights are finite, but too large."""
        del source
        remedy = ", although all its weights are finite: use another --compute_type or checkpoint"
        return DivergedError(place, self._name, remedy)


class CTranslate2Worker(Worker):
    """Decodes batches with CTranslate2.

    Args:
        translator: CTranslate2's.
        export: as in `CTranslate2Engine`.
        hparams: search settings.
        with_scores: as in `CTranslate2Engine`.
    """

    def __init__(
        self,
        translator: "ctranslate2.Translator",
        export: KeptExport,
        hparams: DecodeHParams,
        with_scores: bool,
    ) -> None:
        self._translator = translator
        self._export = export
        self._hparams = hparams
        self._with_scores = with_scores
        # CTranslate2 adds id 0, in the place of its unknown token, to a short list.
        self._never_output = {*export.never_output, *([PAD_ID] if hparams.shortlist else [])}
        # Where tokens are forbidden, CTranslate2 divides their probability among the others. In a
        # batch, its attention of the first token may be another source's; not when it is greedy,
        # as `_attention` is.
        self._needs_other_scores = bool(
            hparams.min_length or hparams.no_repeat_ngram_size or hparams.coverage_penalty
        )
        # Types of 16 bits may overflow, which only scores tell.
        may_overflow = "float16" in translator.compute_type
        self._needs_scores = with_scores or hparams.beam_size > 1 or may_overflow

    def search(self, sources: Sequence[Source], limits: Sequence[int]) -> list[list[Target]]:
        """Returns the hypotheses of each source, best first, with at most so many ids.

        CTranslate2 has one limit and one least length for all sources of a call, and finds other
        hypotheses where only some have given tokens: each call has sources with equally many. A
        source whose search reached its own limit is decoded again, with those of the same limit.
        """
        limits = [
            self._searched(source, _least(limit, self._export.positions))
            for source, limit in zip(sources, limits, strict=True)
        ]
        targets: dict[int, list[Target]] = {}
        for places in _grouped(range(len(sources)), lambda i: _given(sources[i])):
            longest = max(limits[i] for i in places)
            targets |= self._translate({i: sources[i] for i in places}, longest)
            reached = [
                i
                for i in places
                if limits[i] < longest and any(len(one.ids) >= limits[i] for one in targets[i])
            ]
            for again in _grouped(reached, limits.__getitem__):
                targets |= self._translate({i: sources[i] for i in again}, limits[again[0]])
        ended = self._ended([targets[i] for i in range(len(sources))])
        _require_numbers(ended)
        require_outputs(sources, ended)
        return ended

    def _searched(self, source: Source, limit: int) -> int:
        """Returns how many ids to search for; the model does not choose an EOS at the limit."""
        least = len(source.start) + len(source.prefix) + 1
        return max(limit - 1, least) if self._hparams.end_at_limit else limit

    def score(self, targets: Sequence[Target]) -> list[Target]:
        """Returns targets with the scores that our search would give them."""
        scored = []
        for target, (log_probs, attention) in zip(
            targets, self._explained(targets, bool(self._hparams.coverage_penalty)), strict=True
        ):
            total = float(np.sum(log_probs))
            scored.append(self._scored(target, total, attention))
        _require_numbers([scored])
        return scored

    def details(self, targets: Sequence[Target]) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Returns for each target its tokens' log-probabilities [T] and attention [T, S]."""
        return list(self._explained(targets, with_attention=True))

    def _translate(self, sources: Mapping[int, Source], limit: int) -> dict[int, list[Target]]:
        """Returns all hypotheses of a search with the same limit for all sources, by place."""
        h = self._hparams
        starts, prefixes = _given(next(iter(sources.values())))
        if h.shortlist and starts + prefixes:
            where = "where outputs begin with a given language or prefix"
            raise UsageError(_refused_list(h, where))
        results = self._translator.translate_batch(
            [_names(source.ids) for source in sources.values()],
            target_prefix=[_names([*s.start, *s.prefix]) for s in sources.values()]
            if starts + prefixes
            else None,
            **self._batching,
            beam_size=h.beam_size,
            num_hypotheses=h.beam_size,
            patience=PATIENCE,
            length_penalty=self._length_exponent,  # `_targets` undoes it
            no_repeat_ngram_size=h.no_repeat_ngram_size,
            suppress_sequences=[[name] for name in _names(self._never_output)] or None,
            max_input_length=0,
            max_decoding_length=limit,
            # The limit here does not count what is given; CTranslate2's counts all.
            min_decoding_length=h.min_length and h.min_length + starts,
            return_scores=self._needs_scores,
            return_end_token=True,
            use_vmap=bool(h.shortlist),
        )
        return {
            place: self._targets(source, result)
            for (place, source), result in zip(sources.items(), results, strict=True)
        }

    def _ended(self, by_source: Sequence[Sequence[Target]]) -> list[list[Target]]:
        """Returns the hypotheses of each source that have ended, with our scores, best first."""
        # Prefixes count in our scores, not in CTranslate2's. The few ids that a model never outputs
        # are so improbable that they hardly change the order.
        if self._needs_other_scores or any(
            target.source.prefix for target in itertools.chain(*by_source)
        ):
            by_source = self._scored_anew(by_source)
        ended = [_ranked(targets) for targets in by_source]
        if self._export.never_output and self._with_scores and not self._needs_other_scores:
            shown = slice(None if self._hparams.return_beams else 1)
            ended = [_ranked(t) for t in self._scored_anew([targets[shown] for targets in ended])]
        return ended

    def _scored_anew(self, by_source: Sequence[Sequence[Target]]) -> list[list[Target]]:
        scored = iter(self.score([*itertools.chain(*by_source)]))
        return [[next(scored) for _ in targets] for targets in by_source]

    def _targets(self, source: Source, result: "ctranslate2.TranslationResult") -> list[Target]:
        """Returns the hypotheses of a source, scored without the coverage penalty."""
        scores = result.scores or [0.0] * len(result.hypotheses)
        targets = []
        for tokens, score in zip(result.hypotheses, scores, strict=True):
            ids = [int(token) for token in tokens] or [EOS_ID]  # it drops a source of EOS alone
            total = score * len(ids) ** self._length_exponent
            targets.append(self._scored(Target(source, ids), total))
        return targets

    def _scored(self, target: Target, total: float, attention: np.ndarray | None = None) -> Target:
        """Returns a target with our score, from its log-probability and its attention [T, S].

        Without attention, it is the score without the coverage penalty.
        """
        h = self._hparams
        if not _has_ended(target) or h.beam_size == 1:
            return target._replace(score=total)
        score = total / length_divisor(h.length_penalty, h.alpha, len(target.ids))
        if attention is not None:
            summed = np.sum(attention, axis=0)  # [S]
            logs = np.log(np.clip(summed, _LEAST_ATTENTION, 1.0))
            score += h.coverage_penalty * float(np.sum(logs))
        return target._replace(score=score)

    def _explained(
        self, targets: Sequence[Target], with_attention: bool
    ) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Yields the log-probabilities [T] and the attention [T, S], or None, of each target."""
        sources = [_names(target.source.ids) for target in targets]
        bare = [_names(target.ids[:-1] if _has_ended(target) else target.ids) for target in targets]
        scored = self._translator.score_batch(sources, bare, **self._batching, max_input_length=0)
        attentions: Iterator[Any] = itertools.repeat(None, len(targets))
        if with_attention:
            attentions = self._attention(sources, bare)
        for target, one, attention in zip(targets, scored, attentions, strict=True):
            log_probs = np.array(one.log_probs[: len(target.ids)], np.float32)
            log_probs[: len(target.source.start)] = 0.0  # given
            yield log_probs, None if attention is None else attention[: len(target.ids)]

    def _attention(
        self, sources: Sequence[Sequence[str]], bare: Sequence[Sequence[str]]
    ) -> Iterator[np.ndarray]:
        """Yields the attention [T, S] to each source while its target and EOS are predicted.

        The targets, without EOS, are prefixes of outputs with one token more.
        """
        results = self._translator.translate_batch(
            sources,
            target_prefix=bare,
            **self._batching,
            beam_size=1,
            max_input_length=0,
            max_decoding_length=max(map(len, bare)) + 1,
            return_end_token=True,
            return_attention=True,
        )
        for tokens, result in zip(bare, results, strict=True):
            yield np.array(result.attention[0], np.float32)[: len(tokens) + 1]

    @functools.cached_property
    def _length_exponent(self) -> float:
        """The x with which CTranslate2's length penalty, length^x, orders hypotheses as ours does.

        Several may end in a search's last step; CTranslate2 then drops the worst by its penalty.
        """
        h = self._hparams
        if h.beam_size == 1:
            return 0.0
        short, long = _USUAL_LENGTHS
        least, most = (length_divisor(h.length_penalty, h.alpha, n) for n in _USUAL_LENGTHS)
        return math.log(most / least, long / short)

    @property
    def _batching(self) -> dict[str, Any]:
        if self._hparams.batch_size:
            return {"max_batch_size": self._hparams.batch_size, "batch_type": "examples"}
        return {"max_batch_size": _BATCH_SUBWORDS, "batch_type": "tokens"}


def _has_ended(target: Target) -> bool:
    return target.ids[-1] == EOS_ID


def _ranked(targets: Sequence[Target]) -> list[Target]:
    """Returns the hypotheses that have ended, best first; if none has, all."""
    ended = [target for target in targets if _has_ended(target)]
    return sorted(ended or targets, key=lambda target: -target.score)


def _given(source: Source) -> tuple[int, int]:
    """Returns how many tokens of a source's outputs are given, as start and as prefix."""
    return len(source.start), len(source.prefix)


def _grouped(places: Iterable[int], key: Callable[[int], Any]) -> Iterable[list[int]]:
    """Returns the places that have the same key together."""
    groups = defaultdict(list)
    for place in places:
        groups[key(place)].append(place)
    return groups.values()


def _names(ids: Iterable[int]) -> list[str]:
    """Returns the names of ids in the export."""
    return [str(i) for i in ids]


def _least(limit: int, positions: int) -> int:
    """Returns the smaller of two limits; 0: there is none."""
    return min(filter(None, (limit, positions)), default=0)


def _require_numbers(by_source: Sequence[Sequence[Target]]) -> None:
    """Raises NotANumberError if a score is NaN."""
    for targets in by_source:
        for target in targets:
            require_numbers([target.source], np.array([[target.score]]))
