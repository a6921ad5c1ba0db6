"""What a request may hold besides its characters: what it costs apart from the model is bounded."""

from collections import Counter

from starlette.exceptions import HTTPException

from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.stages.registered import Stages


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
            HTTPException: 413: with this text the request holds too much.
        """
        self.subwords += subwords
        _refuse_many(self.subwords, self._max_subwords, "{} subwords")
        for cost in stages.costs(source, subwords):
            self._amounts[cost.kind] += cost.amount
            outputs = self._outputs if cost.per_output else 1
            times = f" (times {outputs} outputs)" if outputs > 1 else ""
            _refuse_many(self._amounts[cost.kind] * outputs, cost.most, cost.kind + times)


def _refuse_many(found: int, most: int, what: str) -> None:
    if found > most:
        raise HTTPException(413, f"{what.format(found)}: at most {most} are allowed")
