"""A run folder of a model that was not trained, and yet gives short outputs of varied subwords."""

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import keras

from support import small_runs
from support.kept_runs import kept_folder
from t2t_lite import registry
from t2t_lite.runs import run_folder
from t2t_lite.text.imported_encoder import ImportedEncoder


def short_run(
    folder: pathlib.Path,
    problem: str,
    write_vocabulary: Callable[[pathlib.Path], None] | None = None,
    **hparams: Any,
) -> run_folder.RunFolder:
    """Makes a run folder with one checkpoint, whose outputs are four subwords long.

    Args:
        folder: for the run and its vocabulary.
        problem: a name.
        write_vocabulary: writes an imported model's to a folder; None: it is built from text.
        **hparams: those to change.
    """
    # Problems and writers of vocabularies may be those of the test's own file.
    source = pathlib.Path(sys._getframe(1).f_code.co_filename).read_bytes()
    settings = (problem, write_vocabulary and write_vocabulary.__qualname__)
    kept_folder(
        folder,
        lambda made: _make_short_run(made, problem, write_vocabulary, **hparams),
        *(source, settings, hparams),
    )
    return small_runs.open_copy(folder / "run", folder / "data")


def _make_short_run(
    folder: pathlib.Path,
    problem: str,
    write_vocabulary: Callable[[pathlib.Path], None] | None,
    **hparams: Any,
) -> None:
    data_dir = folder / "data"
    if write_vocabulary is None:
        registry.problem(problem).build_vocab(str(data_dir), "")
    else:
        data_dir.mkdir(parents=True)
        write_vocabulary(data_dir)
        table = ImportedEncoder(data_dir / "vocab.imported.target.json")
        # What a trained model leaves out; and else the noise would repeat its input.
        never = [table.unknown_id, *sorted(table.special_ids)]
        hparams["suppressed_ids"] = "+".join(map(str, never))
        hparams["shared_embedding_and_softmax_weights"] = False
    names = {"problem": problem, "hparams_set": "transformer_tiny"}
    sizes = {"pos": "emb", "max_length": 40, "num_hidden_layers": 1}
    run = small_runs.make_run(folder / "run", data_dir=data_dir, **names, **sizes, **hparams)
    keras.utils.set_random_seed(8)
    model = run.build_model()
    for weight in model.trainable_variables:
        if weight.name == "bias":
            weight.assign(keras.random.normal(weight.shape, stddev=0.1, seed=1))
    table = keras.ops.convert_to_numpy(model.decoder.position.table).copy()
    table[4:] = 100.0 * model.softmax_embedding.matrix[1]  # from here on EOS is likeliest
    model.decoder.position.table.assign(table)
    small_runs.save_weights(run.folder, model)
