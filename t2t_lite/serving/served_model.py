"""What clients may know of the model that a server has."""

from collections.abc import Mapping
from typing import NamedTuple

from t2t_lite.text.languages import ANY, NO_CHOICE, Choice, Languages


class ServedModel(NamedTuple):
    """The model of a server.

    Attributes:
        problem: the name of its problem.
        beam_size: how many outputs its search keeps for a text.
        languages: those of each side that clients may choose.
        pair: the code of each side that has one language; "": it is not known.
    """

    problem: str
    beam_size: int
    languages: Mapping[str, Choice] = NO_CHOICE
    pair: Languages = ANY
