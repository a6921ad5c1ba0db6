"""The state of what wraps a model and remembers more than it does."""

from typing import Any

from t2t_lite.models.seq2seq import DecodeState


def inner_state(state: DecodeState) -> DecodeState:
    """Returns the wrapped model's state."""
    return DecodeState(state.sentence.model, state.hypothesis.model, state.weights)


def outer_state(inner: DecodeState, sentence: Any, hypothesis: Any) -> DecodeState:
    """Returns the wrapper's state, with `inner` in it.

    Args:
        inner: the wrapped model's.
        sentence: a named tuple, what the wrapper remembers of each sentence; its field `model`
            is set.
        hypothesis: what it remembers of each hypothesis, likewise.
    """
    return DecodeState(
        sentence._replace(model=inner.sentence),
        hypothesis._replace(model=inner.hypothesis),
        inner.weights,
    )
