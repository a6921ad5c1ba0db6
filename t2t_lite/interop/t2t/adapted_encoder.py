"""A user's encoder as this package calls it."""

import contextlib
import operator
from collections.abc import Sequence
from typing import Any

from t2t_lite.errors import UserError, quoted
from t2t_lite.text import text_encoder


def adapted_encoder(encoder: Any, size: int | None, name: str) -> Any:
    """Returns an encoder of this package with a vocabulary size.

    Args:
        encoder: an object with T2T's methods.
        size: what the problem's `hparams` sets; None: nothing.
        name: the problem and the side, for messages.

    Raises:
        UserError: the size is not known.
    """
    own: int | None = None
    with contextlib.suppress(AttributeError, NotImplementedError, UserError):
        own = encoder.vocab_size
    if size is None and own is None:
        raise UserError(
            f"problem {name} have an encoder without vocab_size: define it, or set "
            "p.vocab_size in hparams"
        )
    is_ours = type(encoder).__module__.startswith("t2t_lite.")
    if is_ours and size in (None, own):
        return encoder
    return AdaptedEncoder(encoder, size or own or 0)


class AdaptedEncoder(text_encoder.TextEncoder):
    """A user's encoder as this package calls it: `decode` gets ids of text alone.

    Args:
        encoder: an object with T2T's methods.
        vocab_size: number of ids, with padding and EOS.
    """

    def __init__(self, encoder: Any, vocab_size: int) -> None:
        self._encoder = encoder
        self._vocab_size = vocab_size

    @property
    def vocab_size(self) -> int:
        """Number of ids, with padding and EOS."""
        return self._vocab_size

    @property
    def oov_id(self) -> int | None:
        """The id that replaces unknown tokens, if the user's encoder has one."""
        return getattr(self._encoder, "oov_id", None)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a line; EOS is not appended.

        Raises:
            UserError: the user's encoder returned something else.
        """
        ids = self._encoder.encode(text)
        try:
            return [operator.index(id_) for id_ in ids]
        except TypeError:
            raise UserError(
                f"{type(self._encoder).__name__}.encode({quoted(text)}): expected a list of "
                f"integers, got {quoted(ids)}"
            ) from None

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text."""
        return str(self._encoder.decode(self._text_ids(ids)))
