"""What a request may hold besides its characters: what it costs apart from the model is bounded."""

from starlette.exceptions import HTTPException

from t2t_lite.alignment.units import units_of
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.terms.term_list import MOST_WANTED

# Most characters of the forms that all texts of a request ask for.
_MOST_FORMS = 2 * MOST_WANTED
# Most tags, entities and placeholders of all texts, times the outputs that they are put into.
_MOST_PIECES = 2_000
# Most cells of the alignments by which they are put there, also times the outputs: a square of the
# subwords, or of the words where there are more, of each text.
_MOST_CELLS = 2_000_000


class RequestLimits:
    """Counts what the texts of a request hold.

    Args:
        max_subwords: of all texts.
        outputs: into how many outputs of each text its markup is put.
    """

    def __init__(self, max_subwords: int, outputs: int) -> None:
        self._max_subwords = max_subwords
        self._outputs = outputs
        self.subwords = 0
        self._forms = self._pieces = self._cells = 0

    def add(self, source: Source, subwords: int) -> None:
        """Counts a text, with its subwords.

        Raises:
            HTTPException: 413: with this text the request holds too much.
        """
        self.subwords += subwords
        _refuse_many(self.subwords, self._max_subwords, "{} subwords")
        if source.terms:
            self._forms += source.terms.size(source.text)
            _refuse_many(self._forms, _MOST_FORMS, "the forms of the texts' terms: {} characters")
        if source.segment is None:
            return
        times = f" (times {self._outputs} outputs)" if self._outputs > 1 else ""
        self._pieces += source.segment.pieces
        _refuse_many(
            self._pieces * self._outputs,
            _MOST_PIECES,
            f"{{}} tags, entities and placeholders{times}",
        )
        self._cells += max(subwords, len(units_of(source.text))) ** 2
        _refuse_many(
            self._cells * self._outputs,
            _MOST_CELLS,
            f"long texts with markup: the squares of their subwords add up to {{}}{times}",
        )


def _refuse_many(found: int, most: int, what: str) -> None:
    if found > most:
        raise HTTPException(413, f"{what.format(found)}: at most {most} are allowed")
