"""T2T's sets that are not available: what they need, and what to start from instead.

Models of kinds that are not here at all, such as those of images, have no sets in the file.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence

from t2t_lite import registry

# What the sets need: their names.
NEEDS: Mapping[str, Sequence[str]] = json.loads(
    pathlib.Path(__file__).with_name("refused_sets.json").read_text(encoding="utf-8")
)

for _reason, _names in NEEDS.items():
    for _name in _names:
        registry.refuse_hparams(
            _name, f"T2T's hparams set {_name!r} is not available: it needs {_reason}"
        )
