"""Tables as text, Markdown and JSON."""

import json

from t2t_lite.study.paper.table import Column, Table

TABLE = Table(
    "Two rows",
    [
        Column("what"),
        Column("BLEU", "published", ".1f"),
        Column("here", "measured", ".2f", "do it"),
        Column("± here", "measured", ".2f", "do it"),
    ],
    [["base", 25.8, 1.5, None], ["a longer one", None, 12.25, 0.25]],
    ["Mind the gap."],
)


def test_text_is_aligned():
    assert TABLE.render("text").splitlines() == [
        "Two rows",
        "",
        "what               BLEU      here    ± here",
        "              published  measured  measured",
        "-------------------------------------------",
        "base               25.8      1.50",
        "a longer one                12.25      0.25",
        "",
        "here; ± here, measured: do it",
        "Mind the gap.",
    ]


def test_markdown():
    lines = TABLE.render("markdown").splitlines()
    assert lines[2:5] == [
        "| what | BLEU (published) | here (measured) | ± here (measured) |",
        "| --- | ---: | ---: | ---: |",
        "| base | 25.8 | 1.50 |  |",
    ]
    assert lines[-2:] == ["- here; ± here, measured: do it", "- Mind the gap."]


def test_json_holds_the_values_themselves():
    read = json.loads(TABLE.render("json"))
    assert read["rows"][1] == {"what": "a longer one", "BLEU": None, "here": 12.25, "± here": 0.25}
    assert read["columns"][2] == {
        "name": "here",
        "origin": "measured",
        "spec": ".2f",
        "command": "do it",
    }
