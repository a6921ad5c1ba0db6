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
    held = [*last][-(count // _ONE_IN) :]
    if count < _ONE_IN:
        raise DataError(
            f"{name}: there are no dev files ({dev_files}), and {count} lines of text are too few "
            f"to hold out 5 % of them: provide dev files, or at least {_ONE_IN} lines"
        )
    if training:
        return _others(read(), count, held, name)
    log.warning(
        "%s: there are no dev files (%s): the last %s of %s lines of text are held out as dev "
        "split, and do not train",
        name,
        dev_files,
        f"{len(held):,}",
        f"{count:,}",
    )
    return iter(held)


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
