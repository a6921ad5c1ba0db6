"""Dev examples for text that has none: the last ones of training, which then never train."""

import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from t2t_lite.errors import DataError
from t2t_lite.text.sample import Sample

log = logging.getLogger(__name__)

# So many are held out, but of a smaller text one in so many.
_MOST = 2_000
_ONE_IN = 20


def training_or_held_out(
    read: Callable[[], Iterable[Sample]], training: bool, name: str, dev_files: str
) -> Iterator[Sample]:
    """Yields the samples that train, or those that are held out.

    A training sample that equals a held-out one is dropped. Takes one pass for the held-out
    samples, and a second one for the others; memory does not grow with the text.

    Args:
        read: returns all samples, each time the same.
        training: which ones to yield.
        name: the name of the text, for messages.
        dev_files: the names of the files that would contain dev samples, for messages.

    Raises:
        DataError: there are too few samples to hold out any, or no other one is left.
    """
    last: deque[Sample] = deque(maxlen=_MOST)
    count = 0
    for sample in read():
        last.append(sample)
        count += 1
    held = [*last][-_to_hold_out(count, "lines of text", training, name, dev_files) :]
    return _others(read(), count, held, name) if training else iter(held)


def by_source(
    read: Callable[[], Iterable[Sample]],
    source_of: Callable[[Sample], str],
    training: bool,
    name: str,
    dev_files: str,
) -> Iterator[Sample]:
    """Yields the samples that train, or those that are held out: all those of the last sources.

    So no dev sample has a source that trains, though there are several samples of each. Memory
    grows with the number of sources.

    Args:
        read: returns all samples, each time the same.
        source_of: returns the source of a sample.
        training: which ones to yield.
        name: the name of the text, for messages.
        dev_files: the names of the files that would contain dev samples, for messages.

    Raises:
        DataError: there are too few sources to hold out any.
    """
    sources = dict.fromkeys(source_of(sample) for sample in read())
    count = _to_hold_out(len(sources), "sources", training, name, dev_files)
    held = set(itertools.islice(reversed(sources), count))
    return (sample for sample in read() if (source_of(sample) in held) != training)


def _to_hold_out(count: int, what: str, training: bool, name: str, dev_files: str) -> int:
    """Returns how many are held out of `count`, and says so; DataError: there are too few."""
    if count < _ONE_IN:
        raise DataError(
            f"{name}: there are no dev files ({dev_files}), and {count} {what} are too few "
            f"to hold out 5 % of them: provide dev files, or at least {_ONE_IN} {what}"
        )
    held = min(count // _ONE_IN, _MOST)
    if not training:
        log.warning(
            "%s: there are no dev files (%s): the last %s of %s %s are held out as dev split, and "
            "do not train",
            *(name, dev_files, f"{held:,}", f"{count:,}", what),
        )
    return held


def _others(
    samples: Iterable[Sample], count: int, held: list[Sample], name: str
) -> Iterator[Sample]:
    """Yields the samples before the held-out ones, except their equals."""
    keys = set(map(_key, held))
    before = count - len(held)
    kept = 0
    for sample in itertools.islice(samples, before):
        if _key(sample) not in keys:
            kept += 1
            yield sample
    if not kept:
        raise DataError(
            f"{name}: all lines of text equal those that are held out as dev split, the last "
            f"{len(held):,}: provide dev files"
        )
    if kept < before:
        log.warning(
            "%s: dropped %s lines of training: they equal held-out ones", name, f"{before - kept:,}"
        )


def _key(sample: Sample) -> tuple[str, ...]:
    return tuple(sample[side] for side in sorted(sample))
