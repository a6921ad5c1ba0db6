"""Your own text with the vocabulary of an imported model, to train the model further.

`t2t-import` writes the vocabulary to the model's folder; copy it to `--data_dir`:

    cp my_model/vocab.imported.* my_data/
"""

import pathlib
from collections.abc import Sequence
from typing import Any

from t2t_lite import registry
from t2t_lite.data.problem import three_splits
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import UsageError, UserError
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdir
from t2t_lite.text.text_encoder import TextEncoder, VocabType


class ImportedVocabulary(Text2TextProblem):
    """Base class for text in the vocabulary of an imported model, which lies in `data_dir`.

        @registry.register_problem
        class MyCorpus(ImportedVocabulary):
            target_language = "deu"  # only for a model of several languages

            def generate_samples(self, data_dir, tmp_dir, dataset_split):
                ...

    Attributes:
        source_language: the language of the sources; "": the model's only or default one.
        target_language: that of the targets.
    """

    vocab_type = VocabType.IMPORTED
    vocab_filename = "vocab.imported.target.json"
    source_language = ""
    target_language = ""

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        super().__init__(was_reversed, was_copy)
        if was_reversed:  # the vocabularies, and where languages are named, fit one direction
            raise UsageError(
                f"problem {self.name!r}: an imported model has one direction; import a model of "
                f"the other one, and use {self.base_name!r} with the sides of your text exchanged"
            )

    @property
    def encoding_settings(self) -> dict[str, Any]:
        """What changes the ids of a text: the languages, too."""
        languages = {n: getattr(self, n) for n in ("source_language", "target_language")}
        return super().encoding_settings | languages

    def vocab_files(self) -> list[str]:
        """Returns the table and the SentencePiece model of each side."""
        return [
            f"vocab.imported.{side}.{ending}"
            for side in ("source", "target")
            for ending in ("json", "spm")
        ]

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns an encoder for each side, in the languages of the problem."""
        from t2t_lite.text.imported_encoder import ImportedEncoder
        from t2t_lite.text.languages import Languages, speaking

        folder = pathlib.Path(data_dir)
        self._require_files(folder)
        source, _, target, _ = (folder / name for name in self.vocab_files())
        encoders = {"inputs": ImportedEncoder(source), "targets": ImportedEncoder(target)}
        languages = Languages(self.source_language, self.target_language)
        return {**speaking(encoders, languages)}

    def load_vocab(self, data_dir: str) -> TextEncoder:
        """Returns the encoder of the targets."""
        return self.feature_encoders(data_dir)["targets"]

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Checks that the vocabulary exists."""
        del tmp_dir
        self._require_files(pathlib.Path(data_dir))

    def vocab_source_files(self, tmp_dir: str) -> Sequence[pathlib.Path]:
        """Returns no file: the vocabulary is not built from text."""
        del tmp_dir
        return []

    def _require_files(self, folder: pathlib.Path) -> None:
        for name in self.vocab_files():
            if not (folder / name).is_file():
                raise UserError(
                    f"no vocabulary for {self.name!r}: {folder / name} is missing; copy that of "
                    f"the imported model: cp MODEL_DIR/vocab.imported.* {folder}"
                )


@registry.register_problem
class TranslateImported(ImportedVocabulary, Text2textTmpdir):
    """Aligned files in `--tmp_dir`, as for `text2text_tmpdir`."""

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """Ten training files, an evaluation file and, if its text exists, a test file."""
        return three_splits(train_shards=10)
