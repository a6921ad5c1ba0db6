"""Where the readers of user directories report what they cannot read (`--skip_bad`).

T2T's readers are functions without such an argument, and generators: they read when their results
are asked for. Hence there is one receiver at a time, that of the problem that is generated.
"""

from t2t_lite.text.bad_input import STRICT, BadInput

_receiver = STRICT


def receive(receiver: BadInput) -> None:
    """Chooses what receives unreadable lines from here on."""
    global _receiver
    _receiver = receiver


def receiver() -> BadInput:
    """Returns what receives unreadable lines."""
    return _receiver
