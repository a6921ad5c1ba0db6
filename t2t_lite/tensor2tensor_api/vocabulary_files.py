"""Which files of the data folder a problem's encoders read, found by asking for its encoders."""

import re
from collections.abc import Callable
from typing import Any

from t2t_lite.tensor2tensor_api.text_encoder import noting_files

# A folder that does not exist, for which encoders are asked which files they read.
_NOWHERE = "/t2t_lite-no-such-folder"
_NOWHERE_PATH = re.compile(re.escape(_NOWHERE) + r"/[^\s'\";:,]+")


def read_by(feature_encoders: Callable[[str], Any]) -> list[str]:
    """Returns the names of the files that `feature_encoders` reads."""
    import os

    with noting_files() as paths:
        try:
            feature_encoders(_NOWHERE)
        except Exception as error:  # an encoder of the user's own opens its file
            paths += _NOWHERE_PATH.findall(str(error))
    inside = [path for path in dict.fromkeys(paths) if path.startswith(_NOWHERE)]
    return [os.path.relpath(path, _NOWHERE) for path in inside]
