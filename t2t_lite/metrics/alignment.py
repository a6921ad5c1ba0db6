"""aer: the alignment error rate (Och and Ney 2003, section 5)."""

import re
from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.errors import DataError, quoted
from t2t_lite.metrics.base import OutputMetric, Segment, Statistics
from t2t_lite.text.alignment.pharaoh import parsed_links

_LINK = re.compile(r"([0-9]{1,9})([-p?:])([0-9]{1,9})")
_SURE = "-"


@registry.register_metric
class Aer(OutputMetric):
    """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) for the links A of outputs, in percent.

    Outputs are links such as 0-0 1-2. References are those that people made: 0-0 is sure (S), and
    1p2, 1?2 or 1:2 possible (P, which has the sure ones, too).
    """

    title = "AER (%)"
    lower_is_better = True

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns |A ∩ S| + |A ∩ P|, and |A| + |S|.

        Raises:
            DataError: part of a segment is not a link; the message names the segment.
        """
        rows = []
        for number, segment in enumerate(segments, 1):
            found = {*parsed_links(segment.output, f"aer: output {number}: ")}
            sure, possible = _reference(segment.reference, number)
            right = len(found & sure) + len(found & possible)
            rows.append((right, len(found) + len(sure)))
        return rows

    def score(self, totals: Sequence[float]) -> float:
        """Returns the rate for summed statistics; 0 if there is no link at all."""
        return 100.0 * (1.0 - totals[0] / totals[1]) if totals[1] else 0.0


def _reference(line: str, number: int) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Returns the sure links of a line, and all."""
    sure, possible = set(), set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise DataError(
                f"aer: reference {number}: expected links such as 0-0 (sure) and 1p2 (possible), "
                f"got {quoted(text)}"
            )
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == _SURE:
            sure.add(link)
    return sure, possible
