"""A trained Transformer as a folder for CTranslate2 (https://github.com/OpenNMT/CTranslate2).

The folder holds the weights, the vocabulary, the SentencePiece model, and a README.md with usage.
"""

import logging
import shutil

from t2t_lite import files
from t2t_lite.export.ctranslate2_model import convert
from t2t_lite.export.ctranslate2_readme import readme
from t2t_lite.export.pieces import tokens_of
from t2t_lite.models.finite_weights import require_finite_weights
from t2t_lite.runs import run_folder

log = logging.getLogger(__name__)


def export(
    run: run_folder.RunFolder, checkpoint: str | None, export_dir: str, quantization: str
) -> None:
    """Exports the model of a run folder, whole or not at all.

    Args:
        run: an opened run folder.
        checkpoint: prefix of a checkpoint; None: the newest.
        export_dir: the folder to write; must be missing or empty.
        quantization: how weights are stored, one of `ctranslate2_model.QUANTIZATIONS`.
    """
    with files.whole_folder(export_dir) as folder:
        model, step, checkpoint = run.load_model(checkpoint)
        require_finite_weights(model, checkpoint)
        encoders = run.encoders
        convert(model, tokens_of(encoders), quantization).save(str(folder))
        for name in run.problem.vocab_files():
            shutil.copyfile(run.folder / name, folder / name)
        text = readme(run, step, quantization, encoders, model.never_output)
        (folder / "README.md").write_text(text, encoding="utf-8")
    log.info("wrote %s", export_dir)
