"""Training further with a set such as `transformer_finetune`, which takes the model as it is."""

import json
import logging
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from support import small_runs
from t2t_lite.errors import UsageError, UserError
from t2t_lite.runs import run_folder
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.training import resolved_settings, trainer
from t2t_lite.training.resolved_settings import resolve_hparams

pytestmark = pytest.mark.integration

# A model unlike the set's in sizes, layers and weights.
MODEL = (
    "num_encoder_layers=2,num_decoder_layers=1,pos=emb,max_length=24,attention_bias=true,"
    "softmax_bias=true,use_target_space_embedding=true,ffn_activation=swish,"
    "layer_preprocess_sequence=none,layer_postprocess_sequence=dan,norm_epsilon=1e-5"
)
TRAINING = "label_smoothing=0.3,relu_dropout=0.4,batch_size=77,learning_rate_constant=3"
SEARCH = "beam_size=3,alpha=1"
SLOW = "learning_rate_constant=0,batch_size=64,batch_shuffle_size=2"


@pytest.fixture(scope="module")
def source(data_dir, tmp_path_factory) -> pathlib.Path:
    """The folder of a run whose weights are noise."""
    folder = tmp_path_factory.mktemp("source")
    run = small_runs.make_run(
        folder, "text2text_tmpdir", data_dir=data_dir, overrides=f"{MODEL},{TRAINING}"
    )
    model = run.build_model()
    for number, weight in enumerate(model.weights):
        weight.assign(np.random.RandomState(number).normal(size=weight.shape))
    small_runs.save_weights(folder, model)
    flags = json.loads((folder / run_folder.FLAGS).read_text())
    (folder / run_folder.FLAGS).write_text(json.dumps(flags | {"published_decode_hparams": SEARCH}))
    return folder


def config(data_dir, output_dir, source, hparams: str = SLOW, **changes):
    settings = small_runs.make_config(data_dir, output_dir, train_steps=2, schedule="train")
    given = {"hparams_set": "transformer_finetune", "warm_start_from": str(source or "")}
    return type(settings)(**{**vars(settings), "hparams": hparams, **given, **changes})


def test_the_model_is_that_of_the_other_run_and_the_training_that_of_the_set(
    source, data_dir, tmp_path, caplog
):
    caplog.set_level(logging.INFO, resolved_settings.__name__)
    hparams = resolve_hparams(config(data_dir, tmp_path, source, ""))
    there = RunFolder.open(str(source)).hparams
    fields = there.model_fields()
    assert {"hidden_size", "num_heads", "filter_size", "max_length"} <= fields.keys()
    assert {name: getattr(hparams, name) for name in fields} == fields
    for name in ("label_smoothing", "relu_dropout", "batch_size", "learning_rate_constant"):
        assert getattr(hparams, name) != getattr(there, name)
    assert f"the model is that of {source}; other than in the set: " in caplog.text
    assert "hidden_size=16" in caplog.text
    assert "norm_epsilon=1e-05" in caplog.text


def test_a_checkpoint_names_its_run_and_what_the_user_says_comes_last(source, data_dir, tmp_path):
    path = f"{source}/model.ckpt-7"
    hparams = resolve_hparams(config(data_dir, tmp_path, path, "num_decoder_layers=3"))
    assert (hparams.hidden_size, hparams.decoder_layers) == (16, 3)


def test_any_set_can_take_the_model(source, data_dir, tmp_path):
    changes = {"hparams_set": "transformer_small"}
    other = config(data_dir, tmp_path, source, "warm_start_model=true", **changes)
    assert resolve_hparams(other).hidden_size == 16
    assert resolve_hparams(config(data_dir, tmp_path, source, "", **changes)).hidden_size == 256


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": None}, "'transformer_finetune' trains a model further .* --warm_start_from"),
        ({"model": "attention_lm"}, "--model=attention_lm: .* holds a transformer, which"),
    ],
)
def test_without_such_a_model_there_is_an_error(changes, message, source, data_dir, tmp_path):
    with pytest.raises(UsageError, match=message):
        resolve_hparams(config(data_dir, tmp_path, **{"source": source, **changes}))


@pytest.mark.parametrize(
    ("hparams", "message"),
    [
        ("hidden_size=32", r"weights of the model .* do not fit: .*, there .*cp .*vocab\.\*"),
        ("num_decoder_layers=2", "do not fit: decoder/stack/layer_1/"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(hparams, message, source, data_dir, tmp_path):
    with pytest.raises(UserError, match=message) as error:
        trainer.run(config(data_dir, tmp_path / "run", source, f"{SLOW},{hparams}"))
    assert len(str(error.value)) < 1000


def test_another_vocabulary_is_refused(source, data_dir, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    (path,) = copy.glob("vocab.*")
    text = path.read_text(encoding="utf-8")
    assert text.count("'and_'") == 1
    path.write_text(text.replace("'and_'", "'dna_'"), encoding="utf-8")
    with pytest.raises(UserError, match="rows copied"):
        trainer.run(config(data_dir, tmp_path / "run", copy))


@pytest.mark.usefixtures("eagerly")
def test_all_weights_are_taken_and_a_resumed_run_needs_the_other_no_more(
    source, data_dir, tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    copy, output_dir = tmp_path / "copy", tmp_path / "run"
    shutil.copytree(source, copy)
    trainer.run(config(data_dir, output_dir, copy))
    before = RunFolder.open(str(source)).load_model().model
    assert f"copied {len(before.weights)} of {len(before.weights)} weights" in caplog.text
    after = RunFolder.open(str(output_dir)).load_model()
    assert after.step == 2
    for one, other in zip(after.model.weights, before.weights, strict=True):
        assert np.array_equal(one, other)
    ids = tf.constant([[3, 4, 5, 1]])
    features = {"inputs": ids, "targets": ids}
    assert np.array_equal(after.model(features), before(features))

    shutil.rmtree(copy)
    assert "is not read" not in caplog.text
    trainer.run(config(data_dir, output_dir, copy, train_steps=3))
    assert f"--warm_start_from={copy} is not read: the run continues from its own" in caplog.text
    resumed = RunFolder.open(str(output_dir))
    assert resumed.load_model().step == 3
    assert resumed.decode_hparams == SEARCH, "as the imported model is published"
