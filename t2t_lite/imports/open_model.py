"""What a reader of models from elsewhere returns: everything that a run folder needs."""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.imports.safe_files import Tensor
from t2t_lite.imports.weights import Part
from t2t_lite.text import imported_encoder


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The vocabulary of one side; see `imported_encoder.write_encoder`."""

    pieces: Sequence[str]
    unknown: int
    model: bytes = b""
    special: Sequence[int] = ()
    languages: Mapping[str, int] = dataclasses.field(default_factory=dict)
    language_of: str = ""
    language: str = ""

    def write(self, path: pathlib.Path) -> None:
        """Writes the files of an `ImportedEncoder`."""
        imported_encoder.write_encoder(path, **vars(self))


@dataclasses.dataclass(frozen=True)
class OpenModel:
    """A Transformer of another toolkit, in our terms.

    Attributes:
        path: the file or folder, for messages.
        hparams: of our model.
        source: the source's vocabulary.
        target: the target's.
        parts: every variable of our model, with the names of its tensors.
        tensors: the tensors by name, in our layout and with our ids.
        decode_hparams: the search with which the model is published.
    """

    path: str
    hparams: TransformerHParams
    source: Vocabulary
    target: Vocabulary
    parts: Iterable[Part]
    tensors: Mapping[str, Tensor]
    decode_hparams: str
