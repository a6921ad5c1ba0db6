"""How plain Keras models are called, and what their outputs depend on: small calls find it out.

A model has one or two inputs. A functional model has them as a list or as a dict. The method `call`
of any other has one or two arguments without a default; one may also be the list of both, or a dict
with the keys `inputs` and `targets`, or `encoder_inputs` and `decoder_inputs`. The targets are the
input that outputs are as long as, and whose later positions they do not depend on. If both inputs
are so, it is the one named `targets`, or the second. A model with one input has no source.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.errors import UsageError

# Lengths of source and target in the small calls.
_SOURCE, _TARGET = 3, 4

# Smaller differences, as a share of the largest output, are of rounding.
_TOLERANCE = 1e-5

# The probabilities of a vocabulary add up to 1 this closely, in types of 16 bits, too.
_ROUNDING = 0.01

# Added to probabilities: a search cannot compare log 0.
_TINY = float(np.finfo(np.float32).tiny)

# The keys of source and target in a dict that is a model's one argument.
_KEYS = (("inputs", "targets"), ("encoder_inputs", "decoder_inputs"))

_Pack = Callable[[list[Any]], tuple[Any, ...]]  # from a model's inputs to the arguments of a call
_Lengths = Sequence[int | None]  # of each input, the only one that the model takes; None: any


class Dependence(NamedTuple):
    """What the output of a model at position t depends on, besides the source."""

    on_earlier: bool  # targets before t
    on_own: bool  # target t
    on_later: bool  # targets after t
    on_chance: bool  # two calls with the same inputs differ


class _Way(NamedTuple):
    """One of the ways to pass source and targets to a model."""

    pack: _Pack
    targets: int  # which of the inputs they are
    lengths: _Lengths

    def arguments(self, source: Any, targets: Any) -> tuple[Any, ...]:
        """Returns the arguments of a call."""
        values = [source] * len(self.lengths)
        values[self.targets] = targets
        return self.pack(values)

    @property
    def source_length(self) -> int | None:
        """The only length of sources that the model takes; None: any."""
        return self.lengths[1 - self.targets] if len(self.lengths) == 2 else None

    @property
    def target_length(self) -> int | None:
        """The only length of targets that the model takes; None: any."""
        return self.lengths[self.targets]


class KerasCall:
    """Calls a model with sources [B, S] and targets [B, T]; returns its logits [B, T, V].

    Probabilities, known by their sums, become log-probabilities. Targets are padded for a model
    that takes one length of them alone, or only as many positions as its source has.

    Args:
        model: a plain Keras model.
        way: how to pass source and targets.
        is_equal: whether targets must be as long as sources.

    Raises:
        Exception: of any kind: whatever the model makes of arguments that it does not expect.

    Attributes:
        name: the model's.
        vocab_size: V.
        dependence: what the outputs depend on.
    """

    def __init__(self, model: keras.Model, way: _Way, is_equal: bool) -> None:
        self.name = model.name
        self._model = model
        self._way = way
        self._is_equal = is_equal
        self._lengths = (
            way.source_length or (_TARGET if is_equal else _SOURCE),
            way.target_length or _TARGET,
        )
        self._taken: set[tuple[int, int]] = set()  # lengths of source and targets
        self._is_probability = False
        outputs = self(*_ones(*self._lengths)).numpy()
        if outputs.ndim != 3 or outputs.shape[:2] != (1, self._lengths[1]):
            raise ValueError(f"outputs of shape {outputs.shape} for {self._lengths[1]} targets")
        self.vocab_size = outputs.shape[2]
        sums = outputs.sum(axis=-1)
        self._is_probability = bool((outputs >= 0).all() and (abs(sums - 1) < _ROUNDING).all())
        self.dependence = self._measured()

    def __call__(self, sources: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Returns float32 logits [B, T, V] for ids [B, S] and [B, T]."""
        length = tf.shape(targets)[1]
        width = tf.shape(sources)[1] if self._is_equal else self._way.target_length
        if width is not None:
            targets = tf.pad(targets, [[0, 0], [0, width - length]])
        outputs = self._model(*self._way.arguments(sources, targets), training=False)
        if not tf.is_tensor(outputs):
            raise ValueError(f"the output is a {type(outputs).__name__}")
        outputs = tf.cast(outputs, tf.float32)
        if width is not None:
            outputs = outputs[:, :length]
        return tf.math.log(outputs + _TINY) if self._is_probability else outputs

    def reads(self, id_: int) -> bool:
        """Whether the model has this id among those of its targets."""
        source = _ones(self._lengths[0], 1)[0]
        # To Keras, -1 is the last id.
        return id_ >= 0 and self._takes(source, tf.constant([[id_]]))

    def require_lengths(self, source: int, longest: int) -> None:
        """Checks that the model takes so many positions.

        Args:
            source: S.
            longest: the greatest of the maximum lengths of outputs.

        Raises:
            UsageError: it does not.
        """
        if (source, longest) in self._taken:
            return
        if not self._takes_lengths(source, longest):
            self._refuse_lengths(source, longest)
        self._taken.add((source, longest))

    def _refuse_lengths(self, source: int, longest: int) -> None:
        known = self._lengths[0]
        if self._takes_lengths(source, 1):
            most = _last(1, longest, lambda n: self._takes_lengths(source, n))
            raise UsageError(
                f"max_lengths={longest}: the model {self.name!r} takes at most {most} positions of "
                f"targets for a source of {source}"
            )
        if self._takes_lengths(known, 1):
            last = _last(known, source, lambda n: self._takes_lengths(n, 1))
            bound = "most" if last < source else "least"
            raise UsageError(
                f"the inputs have {source} positions: the model {self.name!r} takes at {bound} "
                f"{last} positions of sources"
            )

    def _takes_lengths(self, source: int, targets: int) -> bool:
        return self._takes(*_ones(source, targets))

    def _takes(self, sources: tf.Tensor, targets: tf.Tensor) -> bool:
        try:
            # On a GPU, an id or a position beyond a table gives zeros instead of an error.
            with tf.device("CPU:0"):
                self(sources, targets)
        except Exception:  # whatever a stranger's model makes of them
            return False
        return True

    def _measured(self) -> Dependence:
        """Compares the outputs for targets that differ from some position on."""
        random = np.random.default_rng(0)
        source, length = self._lengths
        words = max(self.vocab_size - 1, 1)  # ids but for 0, which may be masked
        one = random.integers(words, size=length)
        other = (one + random.integers(1, max(words, 2), length)) % words
        positions = np.arange(length)
        first = np.unique([1, length // 2, length - 1])[:, None]  # that differs: [R, 1]
        sources = tf.ones([len(first), source], tf.int32)

        def outputs(start: Any) -> np.ndarray:
            begins = positions < np.broadcast_to(start, first.shape)
            return self(sources, tf.constant(np.where(begins, one, other) + 1, tf.int32)).numpy()

        before, again, after = map(outputs, (length, length, first))
        least = _TOLERANCE * np.max(np.abs(before), initial=0, where=np.isfinite(before))
        change = _differences(before, after) > least  # [R, T]
        return Dependence(
            on_earlier=bool(change[positions > first].any()),
            on_own=bool(change[positions == first].any()),
            on_later=bool(change[positions < first].any()),
            on_chance=bool((_differences(before, again) > least).any()),
        )


def find_call(model: keras.Model) -> KerasCall:
    """Finds out how a plain Keras model is called.

    Raises:
        UsageError: it has other inputs or outputs, gives other outputs for the same inputs, or sees
            later targets.
    """
    cause: Exception | None = None
    for is_equal in (False, True):
        calls = []
        for way in _ways(model):
            try:
                calls.append(KerasCall(model, way, is_equal))
            except Exception as error:  # whatever a stranger's model makes of wrong arguments
                cause = cause or error
        if calls:
            return _causal(calls)
    raise UsageError(
        f"the inputs of the model {model.name!r} are {', '.join(_names(model)) or 'unknown'}: "
        "search needs (inputs, targets) as two inputs or arguments, as a list, or as a dict with "
        "these keys, or targets alone, and one output, their logits or probabilities [B, T, V]"
    ) from cause


def _causal(calls: Sequence[KerasCall]) -> KerasCall:
    """Returns the first call whose outputs a search can use."""
    name = calls[0].name
    if any(call.dependence.on_chance for call in calls):
        raise UsageError(
            f"the model {name!r} gives other outputs for the same inputs, although training=False: "
            "look for dropout that is always on, or for a state that is kept between calls"
        )
    for call in calls:
        if not call.dependence.on_later:
            return call
    raise UsageError(
        f"the model {name!r} is not causal: its output at position t depends on targets after t, "
        "which a search does not know yet. Attention to targets needs a causal mask, and no layer "
        "may read targets backwards"
    )


def _ways(model: keras.Model) -> Iterator[_Way]:
    """Yields the ways to pass source and targets to a model, the likelier ones first."""
    names = _names(model)
    for pack, lengths in _packings(model, names):
        if len(lengths) == 1:
            yield _Way(pack, 0, lengths)
        elif len(lengths) == 2:
            for targets in (0, 1) if names[0] == "targets" else (1, 0):
                yield _Way(pack, targets, lengths)


def _packings(model: keras.Model, names: Sequence[str]) -> Iterator[tuple[_Pack, _Lengths]]:
    """Yields functions from the list of all inputs to arguments, with the inputs' lengths."""
    if _is_functional(model):
        is_dict = isinstance(model.input, dict)
        tensors = model.input.values() if is_dict else model.inputs
        lengths = [tensor.shape[1] if len(tensor.shape) == 2 else None for tensor in tensors]
        yield _as_dict(names) if is_dict else _as_list if len(names) > 1 else tuple, lengths
    elif len(names) == 1:
        for pack in (_as_list, *map(_as_dict, _KEYS)):
            yield pack, [None, None]
        yield tuple, [None]
    else:
        yield tuple, [None] * len(names)


def _as_list(values: list[Any]) -> tuple[Any, ...]:
    return (values,)


def _as_dict(names: Sequence[str]) -> _Pack:
    return lambda values: (dict(zip(names, values, strict=True)),)


def _names(model: keras.Model) -> list[str]:
    """Returns the names of a model's inputs, or those of its `call` without a default."""
    if _is_functional(model):
        return [*model.input] if isinstance(model.input, dict) else [x.name for x in model.inputs]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        name
        for name, parameter in inspect.signature(model.call).parameters.items()
        if parameter.kind in positional
        and parameter.default is parameter.empty
        and name not in ("training", "mask")
    ]


def _is_functional(model: keras.Model) -> bool:
    return hasattr(model, "inputs")


def _ones(source: int, targets: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a source [1, S] and targets [1, T] without padding."""
    return tf.ones([1, source], tf.int32), tf.ones([1, targets], tf.int32)


def _differences(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the greatest differences [B, T] of outputs [B, T, V]."""
    return np.abs(np.subtract(a, b, out=np.zeros_like(a), where=a != b)).max(axis=-1)


def _last(known: int, refused: int, takes: Callable[[int], bool]) -> int:
    """Returns the number nearest to `refused`, from `known` on, that is taken: by bisection."""
    while abs(refused - known) > 1:
        middle = (known + refused) // 2
        known, refused = (middle, refused) if takes(middle) else (known, middle)
    return known
