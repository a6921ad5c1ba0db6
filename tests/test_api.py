"""The front door: what `import t2t_lite` offers."""

import ast
import itertools
import operator
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import t2t_lite as t2t
from support.limits import strategy_over
from support.marks import by_name
from support.rounding import assert_close
from support.small_models import make_decided
from support.small_runs import generate_pairs, noisy_run
from support.terms import forward_terms
from t2t_lite import registry
from t2t_lite.data.generation import generator
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdir
from t2t_lite.search.penalties import Penalty
from t2t_lite.training.config import TrainerConfig

TINY = {
    "hidden_size": 16,
    "filter_size": 24,
    "num_hidden_layers": 1,
    "num_heads": 2,
    "batch_size": 200,
    "max_length": 30,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder of random weights, opened by the front door."""
    return t2t.open_run(
        noisy_run(tmp_path_factory.mktemp("run"), hidden_size=16, num_hidden_layers=1).folder
    )


@pytest.mark.integration
def test_importing_and_opening_load_neither_keras_nor_tensorflow(run):
    script = (
        "import sys, t2t_lite\n"
        "def heavy(): return {'tensorflow', 'keras', 'numpy'} & set(sys.modules)\n"
        "assert not heavy(), heavy()\n"
        f"run = t2t_lite.open_run({str(run.folder)!r})\n"
        "assert run.problem.name == 'translate_ende_wmt_characters'\n"
        "assert run.hparams.hidden_size == 16\n"
        "assert run.problem.get_feature_encoders(str(run.folder))['inputs'].vocab_size == 258\n"
        "assert not heavy() - {'numpy'}, heavy()\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_every_name_is_there_and_listed_once():
    stub = ast.parse(pathlib.Path(t2t.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    listed = ast.literal_eval(stub.body[-1].value)
    assert len(listed) == len({*listed})
    assert {*t2t.__all__} == {*listed}
    assert all(getattr(t2t, name) is not None for name in t2t.__all__)
    assert {*t2t.__all__} <= {*dir(t2t)}
    with pytest.raises(AttributeError, match="no attribute 'Transfomer'"):
        operator.attrgetter("Transfomer")(t2t)


def test_an_unknown_search_setting_names_the_nearest(run):
    with pytest.raises(UsageError, match=r"'beam_sise'.*beam_size"):
        run.translator(beam_sise=3)


def test_a_model_has_the_weights_of_its_checkpoint(run):
    saved = tf.train.load_checkpoint(run.checkpoint())
    types = saved.get_variable_to_dtype_map()
    values = [saved.get_tensor(name) for name, kind in types.items() if kind == tf.float32]
    weights = [np.asarray(weight) for weight in run.model().trainable_weights]
    assert len(weights) > 0
    assert sorted(one.tobytes() for one in weights) == sorted(one.tobytes() for one in values)


def test_a_model_is_loaded_under_a_strategy(run):
    with strategy_over(2).scope():
        model = run.model()
    for found, wanted in zip(model.weights, run.model().weights, strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())


# Each prints the shape, and whether TensorFlow was imported.
_LOADERS = {
    "keras first": """
import sys, keras, t2t_lite
print(keras.models.load_model(sys.argv[1]).output_shape, "tensorflow" in sys.modules)
""",
    "t2t_lite first": """
import sys, t2t_lite
assert not {"keras", "tensorflow"} & sys.modules.keys()
import keras
t2t_lite.GNMT  # any class brings the others
print(keras.models.load_model(sys.argv[1]).output_shape, "tensorflow" in sys.modules)
""",
}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("backend", "order"),
    [
        ("tensorflow", "keras first"),
        ("jax", "t2t_lite first"),
        *by_name(("tensorflow", "t2t_lite first"), ("jax", "keras first")),
    ],
)
def test_a_keras_file_is_loaded_in_a_new_process(backend, order, tmp_path):
    pytest.importorskip(backend)
    ids = keras.Input((None,), dtype="int32")
    encoder = t2t.TransformerEncoder(
        "transformer_base", 13, hidden_size=8, filter_size=12, num_heads=2, num_hidden_layers=1
    )
    mean = keras.layers.GlobalAveragePooling1D()(encoder(ids))
    path = tmp_path / "classifier.keras"
    keras.Model(ids, keras.layers.Dense(3)(mean)).save(path)
    assert t2t.load_model(path).output_shape == (None, 3)
    done = subprocess.run(
        [sys.executable, "-c", _LOADERS[order], str(path)],
        env={**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout == f"(None, 3) {backend == 'tensorflow'}\n"


def test_arguments_of_keras_reach_it(tmp_path):
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    model.save(tmp_path / "model.keras")
    compiled = [t2t.load_model(tmp_path / "model.keras", compile=c).compiled for c in (True, False)]
    assert compiled == [True, False]


def test_a_run_folder_is_not_a_keras_file(run):
    with pytest.raises(UserError, match=r"run folder: use t2t_lite\.open_run\('.*'\)\.model\(\)"):
        t2t.load_model(run.folder)


@pytest.mark.parametrize("name", ["newest", 7, "7", "model.ckpt-7"])
def test_a_checkpoint_has_many_names(run, name):
    path = f"{run.folder}/model.ckpt-7"
    assert run.checkpoint(name) == run.checkpoint(pathlib.Path(path)) == path


@pytest.mark.parametrize("name", ["bset", 8, "nowhere/model.ckpt-1", ""])
def test_a_missing_checkpoint_is_named(run, name):
    with pytest.raises(UserError, match=rf"has no checkpoint '{name}' .*newest, best, averaged"):
        run.checkpoint(name)


def test_the_home_folder_is_understood(run, monkeypatch):
    monkeypatch.setenv("HOME", str(run.folder.parent))
    assert t2t.open_run(f"~/{run.folder.name}").folder == run.folder
    required = {"problem": "p", "model": "m", "hparams_set": "h", "output_dir": "run"}
    assert TrainerConfig(**required, data_dir="~/d").data_dir == str(run.folder.parent / "d")


@pytest.mark.integration
def test_translations_are_compared_as_objects(run, eagerly):
    translate = run.translator(beam_size=1, extra_length=2)
    (one,), (other,) = (translate("A cat.", n_best=1) for _ in range(2))
    assert one in {one}
    assert one != other


def _logits_of(model, as_dict: bool) -> keras.Model:
    """A functional model with a Transformer in it, which search knows nothing of."""
    ids = {name: keras.Input([None], dtype="int32", name=name) for name in ("inputs", "targets")}
    logits = model(ids)
    return keras.Model(ids if as_dict else [ids["inputs"], ids["targets"]], logits)


@pytest.mark.integration
def test_search_over_a_plain_model_finds_what_steps_find():
    model = make_decided("transformer", 3)
    inputs = np.random.default_rng(1).integers(2, 20, [3, 5])
    limits = [10, 7, 12]
    penalty = Penalty(alpha=0.6)
    ids, scores = t2t.BeamSearch(model, beam_size=3, penalty=penalty)(inputs, limits)
    terms = max(limits) + forward_terms(model.hparams, max(limits), 12)
    for as_dict in (False, True):
        search = t2t.BeamSearch(_logits_of(model, as_dict), beam_size=3, penalty=penalty)
        plain_ids, plain_scores = search(inputs, limits)
        np.testing.assert_array_equal(plain_ids, ids)
        assert_close(plain_scores, scores, terms)


@pytest.mark.integration
def test_one_limit_holds_for_all_sentences():
    search = t2t.BeamSearch(make_decided("transformer", 3), beam_size=2)
    inputs = np.array([[5, 6, 7], [8, 9, 0]])
    for one, each in zip(search(inputs, 6), search(inputs, [6, 6]), strict=True):
        np.testing.assert_array_equal(one, each)


@pytest.mark.integration
def test_a_plain_model_has_no_attention_to_penalise():
    plain = _logits_of(make_decided("transformer", 3), as_dict=False)
    search = t2t.BeamSearch(plain, 2, Penalty(coverage_penalty=0.2))
    with pytest.raises(UsageError, match="coverage penalty"):
        search(np.array([[5, 6]]), 4)


def test_search_says_which_backend_it_needs(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UsageError, match="this is jax: set KERAS_BACKEND=tensorflow"):
        t2t.BeamSearch(make_decided("transformer", 3))


# ---- making one


@pytest.fixture(scope="module")
def data(few_shards, tmp_path_factory):
    return generate_pairs(tmp_path_factory.mktemp("run"), "text2text_tmpdir", 60)


def test_data_is_generated_by_name_or_problem(tmp_path):
    (tmp_path / "inputs.train.txt").write_text("a b\nc d\n", encoding="utf-8")
    (tmp_path / "targets.train.txt").write_text("b a\nd c\n", encoding="utf-8")
    for side in ("inputs", "targets"):
        (tmp_path / f"{side}.eval.txt").write_text("a\n", encoding="utf-8")
    made = []
    for name, problem in (
        ("name", "text2text_tmpdir"),
        ("problem", t2t.registry.problem("text2text_tmpdir")),
    ):
        t2t.generate_data(problem, data_dir=tmp_path / name, tmp_dir=tmp_path, num_workers=1)
        made.append(
            {p.name: p.read_bytes() for p in (tmp_path / name).iterdir() if "-dev-" in p.name}
        )
    assert made[0] == made[1] != {}
    with pytest.raises(UsageError, match=r"unknown setting 'num_worker'.*num_workers"):
        t2t.generate_data("text2text_tmpdir", data_dir=tmp_path, num_worker=1)


@pytest.mark.integration
def test_batches_weigh_tokens_but_not_padding(data):
    batches = t2t.dataset("text2text_tmpdir", "dev", data_dir=data, batch_size=100)
    sentences = 0
    endless = t2t.dataset("text2text_tmpdir", "dev", data_dir=data, batch_size=100, repeat=True)
    assert sum(len(targets) for _, targets, _ in itertools.islice(endless, 20)) > 6
    for features, targets, weights in batches:
        assert set(features) == {"inputs", "targets"}
        np.testing.assert_array_equal(features["targets"], targets)
        np.testing.assert_array_equal(weights, np.asarray(targets) != 0)
        sentences += len(targets)
    assert sentences == 6
    with pytest.raises(UsageError, match="split 'trian': expected train, dev, test, unseen"):
        t2t.dataset("text2text_tmpdir", "trian", data_dir=data)
    with pytest.raises(UsageError, match=r"'rdrop_alpha' does not change batches.*, bpe_dropout,"):
        t2t.dataset("text2text_tmpdir", data_dir=data, batch_size=100, rdrop_alpha=5.0)


@pytest.mark.integration
def test_no_batch_waits_for_examples_that_are_all_too_long(data):
    for repeat in (False, True):
        with pytest.raises(DataError, match=r"no usable example: .*dropped above max_length=2;"):
            t2t.dataset("text2text_tmpdir", data_dir=data, repeat=repeat, max_length=2)


@pytest.mark.integration
def test_each_epoch_has_other_batches(data):
    def contents(batches) -> list[bytes]:
        return [np.asarray(targets).tobytes() for _, targets, _ in batches]

    settings = {"data_dir": data, "batch_size": 40, "batch_shuffle_size": 0}
    batches = t2t.dataset("text2text_tmpdir", **settings)
    first, second = contents(batches), contents(batches)
    assert {*first} != {*second}
    assert contents(t2t.dataset("text2text_tmpdir", **settings)) == first


@pytest.mark.integration
def test_fit_goes_over_the_training_split_once_an_epoch(data, eagerly):
    batches = t2t.dataset("text2text_tmpdir", data_dir=data, batch_size=100)
    assert sum(len(targets) for _, targets, _ in batches) == 60
    endless = t2t.dataset("text2text_tmpdir", data_dir=data, batch_size=100, repeat=True)
    assert sum(len(targets) for _, targets, _ in itertools.islice(endless, 90)) > 60
    history = _fitted(data).fit(batches, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]


def _fitted(data) -> keras.Model:
    size = registry.problem("text2text_tmpdir").get_feature_encoders(str(data))["inputs"].vocab_size
    hparams = registry.hparams("transformer_test").copy(**TINY)
    model = t2t.Transformer(hparams, size, size)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss)
    return model


def test_a_problem_may_extend_the_generation(tmp_path):
    calls = []

    class Extended(type(t2t.registry.problem("text2text_tmpdir"))):
        def write_files(self, data_dir, tmp_dir, options):
            calls.append(data_dir)
            generator.generate_from_samples(self, data_dir, tmp_dir, options)

    for split in ("train", "eval"):
        for side in ("inputs", "targets"):
            (tmp_path / f"{side}.{split}.txt").write_text("a b\n", encoding="utf-8")
    problem, data = Extended(), tmp_path / "data"
    t2t.generate_data(problem, data_dir=data, tmp_dir=tmp_path, num_workers=1)
    assert calls == [str(data)]
    assert list(data.glob("*-dev-*"))


def test_an_unknown_problem_leaves_no_folder(tmp_path):
    with pytest.raises(UsageError, match="unknown problem"):
        t2t.generate_data("typo", data_dir=tmp_path / "data", tmp_dir=tmp_path)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem": Text2textTmpdir}, r"expected a registered name .*: Text2textTmpdir\(\)$"),
        ({"problem": None}, "problem=None: expected a registered name or an object"),
        ({"problem": ["text2text_tmpdir"]}, "expected a registered name or an object"),
        ({"data_dir": ""}, "data_dir is empty: name a folder"),
        ({"tmp_dir": ""}, "tmp_dir is empty: name a folder"),
        ({"pair_scores": "nowhere/s.txt", "clean": "min_score=0"}, r"nowhere/s\.txt: no such file"),
        ({"pair_scores": ".", "clean": "min_score=0"}, "is not a regular file"),
        ({"alignments": "nowhere/a.txt"}, r"nowhere/a\.txt: no such file"),
    ],
)
def test_generation_names_what_it_cannot_use(tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    for side in ("inputs", "targets"):
        (tmp_path / f"{side}.train.txt").write_text("a b\n" * 40, encoding="utf-8")
    known = {"problem": "text2text_tmpdir", "data_dir": tmp_path / "data", "tmp_dir": tmp_path}
    with pytest.raises(UserError, match=message):
        t2t.generate_data(**known | changes)


def test_a_name_in_place_of_a_list_of_metrics_is_refused():
    with pytest.raises(UsageError, match=r"metrics='bleu': expected a list .* \['bleu'\]$"):
        t2t.evaluate("any", metrics="bleu")


@pytest.mark.parametrize("name", ["file", "", "nowhere"])
def test_what_is_no_run_folder_is_said_to_be_none(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"^{name or 'an empty name'} is not a run folder: "):
        t2t.open_run(name)


def test_training_refuses_what_it_does_not_know(tmp_path):
    known = {"problem": "text2text_tmpdir", "model": "transformer", "data_dir": tmp_path}
    known |= {"hparams_set": "transformer_test", "output_dir": tmp_path}
    with pytest.raises(UsageError, match=r"unknown setting 'train_step'.*train_steps"):
        t2t.train(**known, train_step=3)
    with pytest.raises(UsageError, match=r"'hiden_size'.*hidden_size"):
        t2t.train(**known, hparams={"hiden_size": 3})
    with pytest.raises(UsageError, match=r"hparam dtype=16: expected"):
        t2t.train(**known, hparams={"dtype": 16})
