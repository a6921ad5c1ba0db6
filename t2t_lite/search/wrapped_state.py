"""The decoding state of a wrapper around a model, which adds to the model's own."""

from typing import Any

from t2t_lite.models.seq2seq import DecodeState


def inner_state(state: DecodeState) -> DecodeState:
    """Returns the wrapped model's state."""
    return DecodeState(state.sentence.model, state.hypothesis.model, state.weights)


def outer_state(inner: DecodeState, sentence: Any, hypothesis: Any) -> DecodeState:
    """Returns the wrapper's state, with `inner` inside.

    Args:
        inner: the wrapped model's.
        sentence: the wrapper's state of each sentence, a named tuple whose field `model` is set.
        hypothesis: its state of each hypothesis, likewise.
    """
    return DecodeState(
        sentence._replace(model=inner.sentence),
        hypothesis._replace(model=inner.hypothesis),
        inner.weights,
    )
