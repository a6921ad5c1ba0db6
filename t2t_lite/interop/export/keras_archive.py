"""Exports the bare model as a `.keras` file, to use in Keras."""

import logging

from t2t_lite.interop.export.exported import Exported
from t2t_lite.interop.export.folder import new_folders
from t2t_lite.runs.run_folder import RunFolder

log = logging.getLogger(__name__)

KERAS = "keras"
_FILE = "model.keras"

_README = """\
# {problem} for Keras

{origin}
{file} maps source and target ids to logits; it does not search. The vocabulary is beside it.

```python
import keras
import {module}  # registers the model's class with Keras

model = keras.saving.load_model("{file}")
logits = model({{"inputs": source_ids, "targets": target_ids}})  # [B, T, V]; 1 ends a text, 0 pads
```
"""


def export(run: RunFolder, checkpoint: str | None, export_dir: str) -> None:
    """Writes `export_dir/keras/VERSION`, whole or not at all.

    Args:
        run: an opened run folder.
        checkpoint: prefix of a checkpoint; None: the newest.
        export_dir: the parent of all exports.
    """
    exported = Exported.load(run, checkpoint)
    model = exported.model
    with new_folders(export_dir, [KERAS]) as folders:
        folder = folders[KERAS]
        model.save(folder / _FILE)
        usage = _README.format(
            problem=run.problem.name,
            origin=exported.origin,
            file=_FILE,
            module=type(model).__module__,
        )
        exported.write_card(folder, "keras", usage)
        exported.copy_vocabulary(folder)
    log.info("wrote %s", export_dir)
