"""Run folders with the vocabulary of an imported model, of words; their weights are noise."""

import pathlib

import numpy as np

from support.kept_runs import kept_folder
from support.small_runs import make_run, open_copy, save_weights
from t2t_lite.runs import run_folder
from t2t_lite.text import imported_encoder

WORDS = [f"w{number}" for number in range(30)]
LANGUAGES = {"de": 33, "en": 34, "fr": 35}  # the ids of their tokens, which follow the words


def write_vocabulary(
    folder: pathlib.Path, default: str = "", language_of: str = imported_encoder.TEXT
) -> None:
    """Writes the vocabulary of a model like M2M100: texts of both sides begin with a language.

    With `TRANSLATION` it is one like OPUS-MT's: sources begin with the targets' language.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for side in ("source", "target"):
        has_languages = side == "source" or language_of == imported_encoder.TEXT
        imported_encoder.write_encoder(
            folder / f"vocab.imported.{side}.json",
            ["<pad>", "</s>", "<unk>", *WORDS, *(f"__{code}__" for code in LANGUAGES)],
            2,
            special=list(LANGUAGES.values()),
            languages=LANGUAGES if has_languages else {},
            language_of=language_of if has_languages else "",
            language=default if has_languages else "",
        )


def imported_run(
    folder: pathlib.Path,
    default: str = "",
    language_of: str = imported_encoder.TEXT,
    **hparams,
) -> run_folder.RunFolder:
    """Makes a run folder of a tiny Transformer that knows several languages.

    Args:
        folder: the run folder.
        default: the language of texts of both sides; "": none.
        language_of: as for `write_vocabulary`.
        **hparams: those to change.
    """
    settings = (default, language_of)
    kept_folder(
        folder, lambda made: _make_imported_run(made, *settings, **hparams), settings, hparams
    )
    return open_copy(folder, folder)


def _make_imported_run(
    folder: pathlib.Path, default: str, language_of: str, **hparams: object
) -> None:
    write_vocabulary(folder, default, language_of)
    sizes = {"max_length": 12, "num_hidden_layers": 1}
    # Else the noise would repeat its input.
    sizes |= {"shared_embedding_and_softmax_weights": False} | hparams
    run = make_run(folder, "translate_imported", hparams_set="transformer_tiny", **sizes)
    model = run.build_model()
    random = np.random.default_rng(7)  # all of whose outputs end
    for variable in model.trainable_variables:
        noise = random.normal(size=variable.shape, scale=2.0 / variable.shape[0] ** 0.5)
        variable.assign(noise + (variable.name == "gamma"))
    save_weights(folder, model)
