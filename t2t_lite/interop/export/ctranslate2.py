"""A trained Transformer as a folder for CTranslate2 (https://github.com/OpenNMT/CTranslate2).

The folder holds the weights, the vocabulary, the SentencePiece model, and a README.md with usage.
"""

import logging

from t2t_lite import files
from t2t_lite.decoding.ctranslate2_model import convert
from t2t_lite.interop.export.ctranslate2_readme import readme
from t2t_lite.interop.export.exported import Exported
from t2t_lite.interop.export.pieces import tokens_of
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.alignment.shortlist import VMAP, Shortlist
from t2t_lite.text.languages import speaking

log = logging.getLogger(__name__)


def export(
    run: run_folder.RunFolder,
    checkpoint: str | None,
    export_dir: str,
    quantization: str,
    hparams: DecodeHParams | None = None,
) -> None:
    """Exports the model of a run folder, whole or not at all.

    Args:
        run: an opened run folder.
        checkpoint: prefix of a checkpoint; None: the newest.
        export_dir: the folder to write; must be missing or empty.
        quantization: how weights are stored, one of `ctranslate2_model.QUANTIZATIONS`.
        hparams: the search and the languages that README.md shows; None: the run's.
    """
    search = DecodeHParams.of(run) if hparams is None else hparams
    with files.whole_folder(export_dir) as folder:
        exported = Exported.load(run, checkpoint)
        model = exported.model
        encoders = speaking(run.encoders, search.languages)
        tokens = tokens_of(encoders)
        convert(model, tokens, quantization).save(str(folder))
        if search.shortlist:
            shortlist = Shortlist.read(search.shortlist, run.encoders)
            lines = shortlist.lines(*([tokens.sources, tokens.targets] if tokens else []))
            files.write_text(folder / VMAP, "".join(f"{line}\n" for line in lines))
        exported.copy_vocabulary(folder)
        usage = readme(run, exported.step, quantization, search, encoders, model.never_output)
        exported.write_card(folder, "ctranslate2", usage)
    log.info("wrote %s", export_dir)
