"""The recorded student of Marian's with a vocabulary for each side: it computes what it did."""

import pathlib

import numpy as np

from t2t_lite.interop.layouts.marian import SETTINGS, SOFTMAX_BIAS
from t2t_lite.text.sentencepiece_model import Model, Piece, PieceKind, with_more_pieces

_UNLIKELY = -100  # the bias of a piece that nothing outputs


def write_split(recorded: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes model.npz, and the vocabularies by Bergamot's names.

    Each has the pieces of the recorded one in an order of its own, and some that are not used.

    Args:
        recorded: the folder of the student, with model.npz and vocab.spm.
        folder: to write to.
    """
    with np.load(recorded / "model.npz") as file:
        arrays = dict(file)
    matrix, bias = arrays.pop("Wemb"), arrays[SOFTMAX_BIAS]
    random = np.random.default_rng(0)
    sizes = []
    for side, name, more in (("src", "encoder_Wemb", 1), ("trg", "decoder_Wemb", 3)):
        model = Model.FromString((recorded / "vocab.spm").read_bytes())
        order = random.permutation(len(matrix))
        pieces = [model.pieces[id_] for id_ in order]
        del model.pieces[:]
        model.pieces.extend(pieces)
        unused = [Piece(f"<unused{number}>", 0.0, PieceKind.UNUSED) for number in range(more)]
        longer = with_more_pieces(model.SerializeToString(), unused)
        (folder / f"{side}vocab.deen.spm").write_bytes(longer)
        arrays[name] = np.pad(matrix[order], ((0, more), (0, 0)))
        added = ((0, 0), (0, more))
        arrays[SOFTMAX_BIAS] = np.pad(bias[:, order], added, constant_values=_UNLIKELY)
        sizes.append(len(arrays[name]))
    changes = {
        "dim-vocabs:\n  - 1000\n  - 1000\n": "dim-vocabs:\n  - {}\n  - {}\n".format(*sizes),
        "tied-embeddings: false\ntied-embeddings-all: true\n": "tied-embeddings: true\n",
    }
    settings = arrays[SETTINGS].tobytes().decode()
    for before, after in changes.items():
        assert before in settings
        settings = settings.replace(before, after)
    arrays[SETTINGS] = np.frombuffer(settings.encode(), np.int8)
    np.savez(folder / "model.npz", **arrays)
