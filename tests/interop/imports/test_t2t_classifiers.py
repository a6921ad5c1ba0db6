"""T2T's classifiers, `transformer_encoder`, through t2t-import."""

import numpy as np
import pytest

from support import t2t_arithmetic, t2t_files
from support.commands import printed_by
from support.registries import restored
from support.rounding import assert_close
from support.terms import log_prob_terms
from t2t_lite import registry
from t2t_lite.bin import t2t_decoder
from t2t_lite.data import text_problems
from t2t_lite.models.transformer_encoder import TransformerClassifier

PROBLEM = "sentiment_imdb_characters"
VOCAB_SIZE, CLASSES = 258, 2
SIZES = "num_hidden_layers=2,hidden_size=16,filter_size=24,num_heads=2"
# By hparams set, with changes to it: both orders of normalisation, and names of the matrix.
KINDS = {
    "pre_norm": ("transformer_tiny", ""),
    "post_norm": ("transformer_base_v1", ""),
    "own_matrix": ("transformer_base", ",shared_embedding_and_softmax_weights=False"),
}


@pytest.fixture(params=list(KINDS))
def t2t(request, tmp_path):
    """A folder with T2T's files of a classifier; its hparams and variables."""
    hparams_set, changes = KINDS[request.param]
    hparams = registry.hparams(hparams_set).override(SIZES + changes)
    arrays = t2t_arithmetic.draw_variables(
        "transformer_encoder", hparams, VOCAB_SIZE, shards=16, classes=CLASSES
    )
    t2t_files.write_checkpoint(tmp_path / "t2t", arrays)
    t2t_files.write_flags(
        tmp_path / "t2t",
        problem=PROBLEM,
        model="transformer_encoder",
        hparams_set=hparams_set,
        hparams=SIZES + changes,
    )
    (tmp_path / "data").mkdir()
    return tmp_path, hparams, arrays


def test_logits_are_those_of_t2ts_arithmetic(t2t):
    folder, hparams, arrays = t2t
    assert t2t_files.import_run(folder, "--target_space_id=3") == 0
    run, model = t2t_files.restored(folder)
    assert isinstance(model, TransformerClassifier)
    assert run.settings.model == "transformer_encoder"
    inputs = np.array([[3, 10, 1], [60, 200, 1]], np.int32)
    wanted = t2t_arithmetic.class_logits(hparams, arrays, inputs, space=3)
    found = model({"inputs": inputs, "targets": np.array([[2, 1], [3, 1]], np.int32)})
    assert_close(found[:, 0, 2:], wanted, log_prob_terms(model, inputs.shape[1]))


@pytest.mark.integration
@pytest.mark.parametrize("t2t", ["pre_norm"], indirect=True)
def test_the_decoder_writes_t2ts_labels(t2t, tmp_path):
    folder, hparams, arrays = t2t
    assert t2t_files.import_run(folder) == 0
    texts = ["a fine film", "dull", "so so", "I slept", "again!", "zzz"]
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in texts))
    files = f"--decode_from_file={tmp_path}/in.txt", f"--decode_to_file={tmp_path}/out.txt"
    printed_by(t2t_decoder.main, f"--output_dir={folder}/run", *files)
    ids = [[byte + 2 for byte in text.encode()] + [1] for text in texts]
    numbers = [
        t2t_arithmetic.class_logits(hparams, arrays, np.array([row]), space=0)[0].argmax()
        for row in ids
    ]
    labels = registry.problem(PROBLEM).class_labels("")
    assert (tmp_path / "out.txt").read_text().split() == [labels[number] for number in numbers]


@pytest.mark.parametrize("t2t", ["pre_norm"], indirect=True)
def test_what_does_not_fit_is_named(t2t, capsys):
    folder, _, arrays = t2t
    dense = next(name for name in arrays if name.endswith("dense/kernel"))
    t2t_files.write_checkpoint(folder / "t2t", {**arrays, dense: np.zeros((16, 5), np.float32)})
    assert "classes/kernel is [16, 5], not [16, 2]" in t2t_files.refused(folder, capsys)
    t2t_files.write_flags(
        folder / "t2t",
        problem="copy_sequence",
        model="transformer_encoder",
        hparams_set="transformer_tiny",
        hparams=SIZES,
    )
    t2t_files.write_tokens(folder / "data", "vocab.copy_sequence.tokens", VOCAB_SIZE)
    assert "problem 'copy_sequence' has no labels" in t2t_files.refused(folder, capsys)


def test_numbers_are_those_of_t2ts_arithmetic(tmp_path):
    """The regressor, every part of it: `transformer_regressor`."""
    model_name, problem = "transformer_regressor", "grades_of_bytes"
    members = {"vocab_type": text_problems.VocabType.CHARACTER, "base_name": problem}
    with restored():
        registry.register_problem(problem)(
            type("Grades", (text_problems.Text2RealProblem,), {**members, "generate_samples": None})
        )
        hparams = registry.hparams("transformer_tiny").override(SIZES)
        arrays = t2t_arithmetic.draw_variables(model_name, hparams, VOCAB_SIZE, classes=1)
        t2t_files.write_checkpoint(tmp_path / "t2t", arrays)
        flags = {"hparams_set": "transformer_tiny", "hparams": SIZES}
        t2t_files.write_flags(tmp_path / "t2t", problem=problem, model=model_name, **flags)
        (tmp_path / "data").mkdir()
        assert t2t_files.import_run(tmp_path, "--target_space_id=3") == 0
        _, model = t2t_files.restored(tmp_path)
    inputs = np.array([[3, 10, 7, 1], [60, 200, 9, 1]], np.int32)
    wanted = t2t_arithmetic.class_logits(hparams, arrays, inputs, space=3, model=model_name)
    assert_close(model.numbers(inputs), wanted, log_prob_terms(model, inputs.shape[1]))
