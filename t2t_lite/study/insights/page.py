"""The page to explore attention: one HTML file that works offline."""

from collections.abc import Sequence

import numpy as np

from t2t_lite import pages
from t2t_lite.study.insights.views import FAINT, View, head_colours

_DIGITS = 4  # decimals of a weight


def page(about: str, source: str, target: str, views: Sequence[View]) -> str:
    """Returns the page as HTML.

    Args:
        about: describes the model, for the head of the page.
        source: the source text.
        target: the target text.
        views: at least one.
    """
    data = {
        "about": about,
        "source": source,
        "target": target,
        "faint": FAINT,
        "colours": head_colours(max(len(weights) for view in views for weights in view.layers)),
        "views": [
            {
                "kind": view.kind,
                "title": view.title,
                "rows": view.rows,
                "columns": view.columns,
                "layers": [_rounded(weights) for weights in view.layers],
            }
            for view in views
        ],
    }
    return pages.render("study/insights/page.html", data=data)


def _rounded(weights: np.ndarray) -> list:
    return np.round(weights.astype(np.float64), _DIGITS).tolist()
