"""Compares imported Hugging Face models with what transformers has computed.

The models and records are those of support/make_hugging_face_models.py.
"""

import json
import pathlib

import numpy as np

from t2t_lite.interop.imports import open_models
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.factory import make_search
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID


class Recorded:
    """A model as imported, and what transformers has computed with the original.

    Args:
        folder: of the original, with records/recorded.npz.
        run_folder: where to import it.
    """

    def __init__(self, folder: pathlib.Path, run_folder: pathlib.Path) -> None:
        self.folder = folder
        open_models.import_run(str(folder), str(run_folder))
        self._run = RunFolder.open(str(run_folder))
        self._model = self._run.load_model().model
        with np.load(folder / "records" / "recorded.npz") as file:
            self._recorded = dict(file)
        config = json.loads((folder / "config.json").read_text())
        self._padding, end = config["pad_token_id"], config["eos_token_id"]
        size = self._recorded["logits"].shape[-1]
        others = [id_ for id_ in range(size) if id_ not in (self._padding, end)]
        self._theirs = np.array([end, *others])  # the ids but padding, by ours minus 1
        self._ours = np.zeros(size, np.int32)
        self._ours[self._theirs] = np.arange(1, size)
        self._ours[self._padding] = PAD_ID
        self._language = int(self._recorded["language"])

    def logits_differ_by(self) -> float:
        """Returns the largest difference of logits, except those of padding."""
        targets = self._recorded["teacher_forced"]
        features = {
            "inputs": self._ours[self._recorded["sources"][: len(targets)]],
            "targets": self._ours[targets],
        }
        found = np.asarray(self._model(features))[..., 1 : 1 + len(self._theirs)]
        expected = self._recorded["logits"][..., self._theirs]
        return float(np.abs(found - expected)[targets != self._padding].max())

    def outputs_differ(self, name: str, changes: str) -> list[int]:
        """Returns the numbers of the sources whose outputs differ.

        Args:
            name: of the search in the records.
            changes: decode hparams.
        """
        hparams = DecodeHParams.of(self._run, changes)
        search = make_search(self._model, self._run.encoders, hparams)
        expected = self._ours[self._recorded[name]]
        inputs = self._ours[self._recorded["sources"]]
        begin = {}
        if self._language:
            begin["prefixes"] = np.full((len(inputs), 1), self._ours[self._language])
            begin["given"] = np.ones(len(inputs), np.int32)
        found = search(inputs, expected.shape[1] - 1, **begin).ids[:, 0]
        assert (found == EOS_ID).any(axis=1).all()
        return np.flatnonzero((found != expected[:, :-1]).any(axis=1)).tolist()
