"""Translating by way of a third language with one model: sources to the pivot, that to the targets.

A source that `StagedCodec.encode` was given a pivot for is encoded for the first step, and knows
the stages of the second. `decode_batches` takes both steps: the best output of the first is the
text of the second, as users see it. Prefixes, what is asked of outputs, and n-best lists are those
of the second.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from t2t_lite.data.problem import Problem
from t2t_lite.decoding.hypotheses import BatchResult, HypothesesByIndex, Source, best_output
from t2t_lite.decoding.request import TextOptions
from t2t_lite.errors import UsageError
from t2t_lite.text.languages import Languages, choices, speaking
from t2t_lite.text.text_encoder import TextEncoder

# Decodes sources batch by batch, except for known batches.
_Decode = Callable[[Sequence[Source], Mapping[int, HypothesesByIndex]], Iterator[BatchResult]]

# What is told of a line: see `Hypothesis.line_fields`.
TELLS: Mapping[str, Any] = {"pivot": ""}


def origin(flags: Mapping[str, str]) -> dict[str, Any]:
    """Returns what outputs are made from, for a journal; every journal has it."""
    return {"pivot": flags["pivot"]}


def steps(
    problem: Problem, encoders: Mapping[str, TextEncoder], options: TextOptions
) -> tuple[TextOptions, TextOptions]:
    """Returns what is asked of the first step and of the second.

    Args:
        problem: must translate text.
        encoders: of "inputs" and "targets", in the default languages.
        options: what is asked of both together.

    Raises:
        UsageError: the model does not know the pivot, or it is one of the two languages.
        DataError: the model needs a language.
    """
    pivot = options.pivot
    if not problem.translates_lines:
        raise UsageError(f"pivot={pivot}: {problem.name} does not translate text; leave it out")
    languages = Languages(options.source_language, options.target_language)
    known = choices(encoders)
    if "target" not in known:
        raise UsageError(f"pivot={pivot}: the model has only one target language; leave it out")
    for name, choice in known.items():
        if pivot == (getattr(languages, name) or choice.default):
            raise UsageError(f"pivot={pivot} is the {name} language: leave the pivot out")
    first = languages._replace(target=pivot)
    second = languages._replace(source=pivot if "source" in known else "")
    try:
        speaking(encoders, Languages(*(pivot if name in known else "" for name in first._fields)))
    except UsageError as error:
        raise UsageError(f"pivot: {str(error).partition(': ')[2]}") from None
    for step in (first, second):
        for encoder in speaking(encoders, step).values():
            encoder.start_ids()
    return (
        options.without_outputs().changed(target_language=pivot),
        options.changed(source_language=second.source, pivot=""),
    )


def has_two_steps(source: Source) -> bool:
    """Whether a source is translated by way of a pivot."""
    return bool(source.options.pivot)


def decode_batches(
    sources: Sequence[Source],
    known: Mapping[int, HypothesesByIndex],
    decode_first: _Decode,
    decode_second: _Decode,
    encode_second: Callable[[Source, str], Source],
) -> Iterator[BatchResult]:
    """Yields the results of `Decoder.decode_batches` for sources of which some have two steps.

    The batches of the first step have negative numbers and complete no source; their `pieces` hold
    what a resumed run needs, see `_first_step`.

    Args:
        sources: as in `Decoder.decode_batches`.
        known: likewise.
        decode_first: takes the first step for its sources, except for known batches.
        decode_second: likewise the second, in which sources without a pivot take part.
        encode_second: encodes the output of the first step for a source.
    """
    chosen = [index for index, source in enumerate(sources) if has_two_steps(source)]
    first = [sources[index]._replace(prefix=()) for index in chosen]
    earlier = {-1 - number: pieces for number, pieces in known.items() if number < 0}
    texts: dict[int, str] = {}
    for batch in _first_step(first, earlier, decode_first):
        texts |= {chosen[-1 - i]: best_output(h).text for i, h in batch.pieces.items() if i < 0}
        if batch.number not in known:
            yield batch
    second = [
        encode_second(source, texts[index]) if has_two_steps(source) else source
        for index, source in enumerate(sources)
    ]
    later = {number: pieces for number, pieces in known.items() if number >= 0}
    for batch in decode_second(second, later):
        done = {
            index: [h._replace(line_fields={"pivot": texts[index]}) for h in hypotheses]
            if texts.get(index)
            else hypotheses
            for index, hypotheses in batch.sources.items()
        }
        yield batch._replace(sources=done)


def _first_step(
    sources: Sequence[Source], known: Mapping[int, HypothesesByIndex], decode: _Decode
) -> Iterator[BatchResult]:
    """Yields the batches of the first step, those that are known included.

    Among their `pieces`, index -1 - i has the best hypothesis of the source i, which the batch
    completes; the others are those of incomplete sources.
    """
    waiting = {}
    for number, pieces in known.items():
        yield BatchResult(-1 - number, {}, pieces)
        waiting[number] = {index: found for index, found in pieces.items() if index >= 0}
    for batch in decode(sources, waiting):
        best = {
            -1 - index: [h._replace(details=None) for h in found[:1]]
            for index, found in batch.sources.items()
        }
        yield BatchResult(-1 - batch.number, {}, best | dict(batch.pieces))
