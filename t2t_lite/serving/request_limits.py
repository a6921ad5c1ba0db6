"""What a request may hold besides its characters: what it costs apart from the model is bounded."""

from collections import Counter

from starlette.exceptions import HTTPException

from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.stages.registered import Stages
from t2t_lite.serving.requests import OptionRefusal


class RequestLimits:
    """Counts what the texts of a request hold.

    Args:
        max_subwords: of all texts.
        outputs: how many outputs of each text users see.
    """

    def __init__(self, max_subwords: int, outputs: int) -> None:
        self._max_subwords = max_subwords
        self._outputs = outputs
        self._amounts: Counter[str] = Counter()
        self.subwords = 0

    def add(self, source: Source, stages: Stages, subwords: int) -> None:
        """Counts a text, with its stages and its subwords.

        Raises:
            HTTPException: 413: with this text the request holds too much; an `OptionRefusal` if
                an option asks for that.
        """
        self.subwords += subwords
        if message := _too_many(self.subwords, self._max_subwords, "{} subwords"):
            raise HTTPException(413, message)
        for cost in stages.costs(source, subwords):
            self._amounts[cost.kind] += cost.amount
            outputs = self._outputs if cost.per_output else 1
            times = f" (times {outputs} outputs)" if outputs > 1 else ""
            found = self._amounts[cost.kind] * outputs
            if message := _too_many(found, cost.most, cost.kind + times):
                raise OptionRefusal(cost.option, message, 413)


def _too_many(found: int, most: int, what: str) -> str:
    """Returns what an amount is refused with; "": it is not."""
    return f"{what.format(found)}: at most {most} are allowed" if found > most else ""
