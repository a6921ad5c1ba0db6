"""The alignment error rate."""

import pytest

from t2t_lite.data.problem import Output
from t2t_lite.errors import DataError
from t2t_lite.metrics.by_name import score_outputs


def aer(outputs, references):
    return score_outputs("aer", [Output(text) for text in outputs], references).values["aer"]


def test_it_counts_sure_and_possible_links():
    # A has 3 links, S 2; one is sure, and two are possible or sure.
    assert aer(["0-0 1-2 3-3"], ["0-0 1p2 2-2"]) == pytest.approx(100 * (1 - (1 + 2) / (3 + 2)))
    assert aer(["0-0 1-1"], ["0-0 1-1"]) == 0
    assert aer(["0-0"], ["1-1"]) == 100
    assert aer(["0-0", "1-1 0-0"], ["0-0", "1?1 0:0 2-2"]) == pytest.approx(
        100 * (1 - (1 + 1 + 2) / (1 + 1 + 2 + 1))
    )
    assert aer([""], [""]) == 0


@pytest.mark.parametrize(
    ("output", "reference", "message"),
    [
        ("0:0", "0-0", "aer: output 1: expected links such as 0-0"),
        (f"0-{'9' * 5000}", "0-0", "aer: output 1: expected links such as 0-0"),
        ("0-0", f"{'9' * 5000}p0", "aer: reference 1: expected links such as 0-0"),
        (
            "0-0",
            "0-",
            r"aer: reference 1: expected links such as 0-0 \(sure\) and 1p2 \(possible\)",
        ),
    ],
)
def test_what_is_no_link_is_named(output, reference, message):
    with pytest.raises(DataError, match=message):
        aer([output], [reference])
