"""t2t-import, from T2T's files to a run folder like any other."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from support import t2t_files
from support.commands import exit_code
from support.limits import full_disk
from support.registries import restored
from support.rounding import assert_close
from support.terms import log_prob_terms
from t2t_lite import registry
from t2t_lite.bin import t2t_trainer
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.interop.imports.t2t_variables import embedding_rows
from t2t_lite.models.transformer import Transformer
from t2t_lite.runs import averaging, opening, run_folder
from t2t_lite.runs.warm_start import warm_start
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import TokenTextEncoder, VocabType

TOKENS = "text2text_tmpdir_tokens"
VOCAB_SIZE = 21
SMALL = {"num_hidden_layers": 1, "hidden_size": 8, "filter_size": 12, "num_heads": 2}
SIZES = ",".join(f"{name}={value}" for name, value in SMALL.items())


class TwoLists(Text2TextProblem):
    """Tokens, from one list for the sources and another for the targets."""

    name = "two_lists"

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        raise NotImplementedError

    @property
    def vocab_type(self):
        return VocabType.TOKEN

    def vocab_files(self):
        return ["vocab.inputs.tokens", "vocab.targets.tokens"]

    def feature_encoders(self, data_dir):
        paths = [pathlib.Path(data_dir, name) for name in self.vocab_files()]
        inputs, targets = map(TokenTextEncoder, paths)
        return {"inputs": inputs, "targets": targets}


@pytest.fixture(autouse=True)
def two_lists():
    with restored():
        registry.register_problem("two_lists")(TwoLists)
        yield


def small_model(**changes):
    hparams = registry.hparams("transformer_base").copy(**{**SMALL, **changes})
    model = Transformer(hparams, VOCAB_SIZE, VOCAB_SIZE)
    for i, variable in enumerate(model.trainable_variables):
        noise = np.random.RandomState(i).normal(size=variable.shape)
        variable.assign(noise / variable.shape[0] ** 0.5 + (variable.name == "gamma"))
    return model


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with T2T's files of a small model's training, and the model."""
    folder = tmp_path_factory.mktemp("trained")
    model = small_model(use_target_space_embedding=True)
    t2t_files.write_checkpoint(folder / "t2t", t2t_files.t2t_arrays(model))
    t2t_files.write_tokens(folder / "data", f"vocab.{TOKENS}.tokens", VOCAB_SIZE)
    set_flags(folder)
    return folder, model


@pytest.fixture
def t2t(trained, tmp_path):
    """The same, for one test only."""
    folder, model = trained
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path, model


def set_flags(folder, **changes):
    flags = {
        "problem": TOKENS,
        "model": "transformer",
        "hparams_set": "transformer_base",
        "hparams": f"{SIZES},symbol_modality_num_shards=3",
    }
    t2t_files.write_flags(folder / "t2t", **{**flags, **changes})


def features(high=VOCAB_SIZE):
    draw = np.random.RandomState(5)
    return {name: draw.randint(1, high, (3, 6)).astype("int32") for name in ("inputs", "targets")}


# ---- against T2T itself


def import_golden(golden_folder, folder):
    """Imports a golden configuration; returns its settings."""
    config = json.loads((golden_folder / "config.json").read_text())
    arrays = dict(np.load(golden_folder / "weights.npz"))
    t2t_files.write_checkpoint(folder / "t2t", arrays)
    model = config.get("model", "transformer")
    t2t_files.write_flags(
        folder / "t2t", problem="two_lists", model=model, hparams_set=config["hparams_set"]
    )
    (folder / "t2t" / "hparams.json").write_text(json.dumps(config["hparams"]))
    for side in ("source", "target"):
        name = {"source": "vocab.inputs.tokens", "target": "vocab.targets.tokens"}[side]
        t2t_files.write_tokens(folder / "data", name, config[f"{side}_vocab_size"])
    assert t2t_files.import_run(folder, f"--target_space_id={config['target_space_id']}") == 0
    return config


@pytest.mark.integration
@pytest.mark.parametrize("config", ["base_v1", "relative", "two_vocabs", "channels"])
def test_logits_are_those_of_t2t(golden, tmp_path, config):
    """Both orders of normalisation, all kinds of layers, shards of uneven size."""
    folder = golden / "transformer" / config
    import_golden(folder, tmp_path)
    _, model = t2t_files.restored(tmp_path)
    recorded = np.load(folder / "forward.npz")
    for batch in "ab":
        batch_features = {name: recorded[f"{batch}/{name}"] for name in ("inputs", "targets")}
        terms = log_prob_terms(model, max(array.shape[1] for array in batch_features.values()))
        assert_close(model(batch_features), recorded[f"{batch}/logits"], terms)


@pytest.mark.integration
@pytest.mark.parametrize("name", ["evolved_transformer", "universal_transformer_act"])
def test_models_of_similar_layers_are_imported(golden, tmp_path, name):
    folder = golden / "compared" / name
    config = import_golden(folder, tmp_path)
    run, model = t2t_files.restored(tmp_path)
    assert run.settings.model == config["model"]
    recorded = np.load(folder / "forward.npz")
    batch_features = {name: recorded[f"a/{name}"] for name in ("inputs", "targets")}
    real = batch_features["targets"] != 0
    # A universal Transformer passes its layers once for each step.
    passes = getattr(model.hparams, "act_max_steps", 0) or 1
    terms = passes * log_prob_terms(model, max(array.shape[1] for array in batch_features.values()))
    assert_close(np.asarray(model(batch_features))[real], recorded["a/logits"][real], terms)


@pytest.mark.integration
@pytest.mark.parametrize("config", [pytest.param("two_vocabs", marks=pytest.mark.slow), "relative"])
def test_texts_are_those_of_t2t(golden, tmp_path, config):
    folder = golden / "transformer" / config
    settings = import_golden(folder, tmp_path)
    run, _ = t2t_files.restored(tmp_path)
    how = settings["decode"]["variants"]["fast/beam4_single"]
    search = f"beam_size=4,alpha={how['alpha']},extra_length={how['extra_length']}"
    decoder = Decoder.from_run(run, hparams=DecodeHParams().override(search))
    recorded = np.load(folder / "decode.npz")
    encoders = run.encoders
    sources = [encoders["inputs"].decode(ids) for ids in recorded["inputs"]]
    outputs = recorded["fast/beam4_single/outputs"].reshape(len(sources), -1)
    ends = [list(ids).index(1) if 1 in ids else len(ids) for ids in outputs]
    texts = [encoders["targets"].decode(ids[:end]) for ids, end in zip(outputs, ends, strict=True)]
    assert Translator(decoder)(sources) == texts
    assert len(set(texts)) > 3


@pytest.mark.integration
def test_the_250_variables_of_a_real_checkpoint_all_have_a_place(golden, tmp_path, capsys):
    recorded = json.loads((golden / "t2t_variable_names.json").read_text())["variables"]
    assert len(recorded) == 250
    draw = np.random.RandomState(0)
    values = {v["name"]: np.asarray(draw.normal(size=v["shape"]), v["dtype"]) for v in recorded}
    t2t_files.write_values(tmp_path / "t2t", values | {"global_step": np.int64(t2t_files.STEP)})
    problem = registry.problem("translate_ende_wmt8k")
    t2t_files.write_flags(tmp_path / "t2t", problem=problem.name, hparams_set="transformer_test")
    reserved, characters = ["<pad>_", "<EOS>_"], sorted(set("<pad>EOS_\\u;0123456789"))
    words = [f"{number}_" for number in range(8190 - len(reserved) - len(characters))]
    vocabulary = "".join(f"'{subtoken}'\n" for subtoken in reserved + characters + words)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / problem.vocab_filename).write_text(vocabulary)

    assert t2t_files.import_run(tmp_path) == 0
    log = capsys.readouterr().err
    run, model = t2t_files.restored(tmp_path)
    of_the_model = [a for name, a in values.items() if name.startswith("transformer/")]
    assert model.count_params() == sum(array.size for array in of_the_model)
    assert (
        f"{len(of_the_model)} variables read, {250 - len(of_the_model)} of training skipped" in log
    )
    assert (run.folder / problem.vocab_filename).read_text() == vocabulary


# ---- without T2T's numbers


@pytest.mark.integration
@pytest.mark.parametrize(
    "changes",
    [
        {"use_target_space_embedding": True},
        {"layer_preprocess_sequence": "none", "layer_postprocess_sequence": "dan", "pos": "emb"},
        {"shared_embedding_and_softmax_weights": False, "attention_value_channels": 12},
        {"shared_embedding_and_softmax_weights": False, "shared_embedding": True, "pos": "none"},
        {"self_attention_type": "dot_product_relative", "max_relative_position": 2},
    ],
)
def test_weights_survive_a_round_trip(tmp_path, changes):
    """Through shards of uneven size, and hparams.json as T2T writes it."""
    model = small_model(**changes)
    t2t_files.write_checkpoint(tmp_path / "t2t", t2t_files.t2t_arrays(model, target_space_id=6))
    t2t_files.write_tokens(tmp_path / "data", f"vocab.{TOKENS}.tokens", VOCAB_SIZE)
    recorded = model.hparams.to_dict() | {"symbol_modality_num_shards": 3, "bottom": {}}
    if recorded["pos"] == "none":
        recorded["pos"] = None
    (tmp_path / "t2t" / "hparams.json").write_text(json.dumps(recorded))
    assert t2t_files.import_run(tmp_path, f"--problem={TOKENS}", "--target_space_id=6") == 0
    run, found = t2t_files.restored(tmp_path)
    assert run.hparams == model.hparams
    assert np.array_equal(found(features()), model(features()))


def test_names_are_those_of_t2t():
    """A sample of every kind, spelled out."""
    relative = {"self_attention_type": "dot_product_relative", "max_relative_position": 2}
    names = set(
        t2t_files.t2t_arrays(small_model(**relative, use_target_space_embedding=True), shards=11)
    )
    body = "transformer/body"
    layer = f"{body}/decoder/layer_0"
    prefixes = {
        f"transformer/symbol_modality_{VOCAB_SIZE}_8/shared/weights_10",
        f"{body}/target_space_embedding/kernel",
        f"{body}/encoder/layer_prepostprocess/layer_norm/layer_norm_scale",
        f"{layer}/self_attention/layer_prepostprocess/layer_norm/layer_norm_bias",
        f"{layer}/encdec_attention/multihead_attention/k/kernel",
        f"{layer}/encdec_attention/multihead_attention/output_transform/kernel",
        f"{layer}/ffn/conv1/bias",
        f"{layer}/ffn/conv2/kernel",
        f"{layer}/self_attention/multihead_attention/dot_product_attention_relative/"
        "relative_positions_values/embeddings",
    }
    assert prefixes <= names
    post_norm = small_model(layer_preprocess_sequence="none", layer_postprocess_sequence="dan")
    names = set(t2t_files.t2t_arrays(post_norm))
    assert f"{layer}/ffn/layer_postprocess/layer_norm/layer_norm_scale" in names
    assert not any("layer_prepostprocess" in name for name in names)


@pytest.mark.integration
def test_shards_are_joined_by_their_numbers(t2t):
    folder, model = t2t
    arrays = t2t_files.t2t_arrays(model, shards=12)
    t2t_files.write_checkpoint(
        folder / "t2t", dict(sorted(arrays.items()))
    )  # weights_10 before weights_2
    assert t2t_files.import_run(folder) == 0
    assert np.array_equal(t2t_files.restored(folder)[1](features()), model(features()))


@pytest.mark.integration
def test_the_newest_checkpoint_or_the_one_that_is_named(t2t):
    folder, _ = t2t
    other = small_model(use_target_space_embedding=True)
    other.softmax_embedding.matrix.assign(other.softmax_embedding.matrix * 2.0)
    older = t2t_files.write_checkpoint(folder / "t2t", t2t_files.t2t_arrays(other), step=90_000)
    (folder / "t2t" / "checkpoint").write_text('model_checkpoint_path: "/gone/model.ckpt-90000"')
    assert t2t_files.import_run(folder) == 0
    assert (
        t2t_files.restored(folder)[0]
        .settings.others["imported_from"]
        .endswith(f"model.ckpt-{t2t_files.STEP}")
    )
    for number, name in enumerate([older, pathlib.Path(older).name]):
        flags = (f"--checkpoint_path={name}", f"--output_dir={folder}/older{number}")
        assert t2t_files.import_run(folder, *flags) == 0
        run = run_folder.RunFolder.open(f"{folder}/older{number}")
        model = run.build_model()
        assert run.restore_weights(model) == 90_000
        assert np.array_equal(model(features()), other(features()))


@pytest.mark.integration
def test_the_run_is_for_decoding_averaging_and_warm_starts(t2t):
    folder, model = t2t
    assert t2t_files.import_run(folder) == 0
    run, _ = t2t_files.restored(folder)
    started = run.build_model()
    warm_start(started, str(run.folder))
    assert np.array_equal(started(features()), model(features()))
    (checkpoint,) = averaging.newest_checkpoints(run.folder, 1)
    averaged = averaging.average(run, [checkpoint])
    assert run.restore_weights(started, averaged) == t2t_files.STEP
    with pytest.raises(UserError, match=r"an average or imported, for inference only: it has no o"):
        opening.refuse_inference_only(run.folder)


def test_training_does_not_resume_in_it(t2t, capsys):
    folder, _ = t2t
    assert t2t_files.import_run(folder) == 0
    flags = [f"--problem={TOKENS}", "--model=transformer", "--hparams_set=transformer_base"]
    flags += [f"--data_dir={folder}/data", f"--output_dir={folder}/run"]
    assert exit_code(t2t_trainer.main, *flags) == 1
    *_, line = capsys.readouterr().err.strip().splitlines()
    assert f"checkpoint {folder}/run/model.ckpt-{t2t_files.STEP} is an average or imported" in line
    assert "--warm_start_from" in line


# ---- errors


def test_all_that_does_not_fit_is_named_at_once(t2t, capsys):
    folder, model = t2t
    arrays = t2t_files.t2t_arrays(model)
    ffn = "transformer/body/encoder/layer_0/ffn"
    del arrays[f"{ffn}/conv1/bias"]
    arrays[f"{ffn}/conv2/kernel"] = np.zeros((12, 9), np.float32)
    arrays["transformer/body/encoder/layer_0/moe/gates"] = np.zeros(3, np.float32)
    t2t_files.write_checkpoint(folder / "t2t", arrays)
    line = t2t_files.refused(folder, capsys)
    assert f"model.ckpt-{t2t_files.STEP}: variables do not fit" in line
    assert f"{ffn}/conv1/bias [12] is missing" in line
    assert f"{ffn}/conv2/kernel is [12, 9], not [12, 8]" in line
    assert "transformer/body/encoder/layer_0/moe/gates [3] is unknown here" in line
    assert line.count(";") == 2


@pytest.mark.parametrize("shard", [0, 1])
def test_missing_rows_of_an_embedding_are_named(t2t, capsys, shard):
    folder, model = t2t
    arrays = t2t_files.t2t_arrays(model)
    missing = f"transformer/symbol_modality_{VOCAB_SIZE}_8/shared/weights_{shard}"
    del arrays[missing]
    t2t_files.write_checkpoint(folder / "t2t", arrays)
    assert f"model.ckpt-{t2t_files.STEP}: variables are missing: {missing}" in t2t_files.refused(
        folder, capsys
    )


def test_a_far_shard_of_an_embedding_is_no_reason_to_list_all_others():
    matrix = "transformer/symbol_modality_9_8/shared"
    with pytest.raises(UserError, match=f"{matrix}/weights_0, as there is {matrix}/weights_999999"):
        embedding_rows({f"{matrix}/weights_999999": np.zeros((3, 8))})


def test_a_second_embedding_of_a_kind_is_named(t2t, capsys):
    folder, model = t2t
    second = f"transformer/symbol_modality_{VOCAB_SIZE + 1}_8/shared/weights_0"
    rows = np.zeros((VOCAB_SIZE, 8), np.float32)
    t2t_files.write_checkpoint(folder / "t2t", {**t2t_files.t2t_arrays(model), second: rows})
    assert f"{second} [{VOCAB_SIZE}, 8] is unknown here" in t2t_files.refused(folder, capsys)


def test_shards_of_different_widths_are_named(t2t, capsys):
    folder, model = t2t
    arrays = t2t_files.t2t_arrays(model)
    odd = f"transformer/symbol_modality_{VOCAB_SIZE}_8/shared/weights_1"
    arrays[odd] = np.zeros((7, 5), np.float32)
    t2t_files.write_checkpoint(folder / "t2t", arrays)
    assert f"{odd} [7, 5] is unknown here" in t2t_files.refused(folder, capsys)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"problem": "text2text_tmpdir_token"}, f"(near: {TOKENS}, "),
        ({"problem": "text2text_tmpdir_token"}, "give --problem=NAME"),
        ({"problem": ""}, "that names the problem: give --problem"),
        ({"model": "lstm_seq2seq_attention"}, "has model 'lstm_seq2seq_attention': only 'tran"),
        ({"hparams_set": ""}, "neither hparams.json nor a hparams set"),
        ({"hparams_set": "transformer_bas"}, "t2t: unknown hparams set 'transformer_bas'; did you"),
        ({"hparams_set": "lstm_attention"}, "is a LSTMHParams, not a Transformer's"),
        ({"hparams": "proximity_bias=True,moe_loss=[1,2]"}, "unsupported model: proximity_bias=1"),
        ({"hparams": "hidden_size=abc"}, "hparam hidden_size='abc': expected a whole number"),
        ({"hparams": f"{SIZES},ffn_layer=parameter_attention"}, "ffn_layer=dense_relu_dense"),
        ({"problem": "text2text_tmpdir"}, "the vocabulary of text2text_tmpdir: --data_dir is"),
    ],
)
def test_usage_errors_are_one_line(t2t, capsys, flags, message):
    folder, _ = t2t
    set_flags(folder, **flags)
    assert message in t2t_files.refused(folder, capsys)


def test_another_vocabulary_is_refused(t2t, capsys):
    folder, _ = t2t
    t2t_files.write_tokens(folder / "data", f"vocab.{TOKENS}.tokens", VOCAB_SIZE + 1)
    line = t2t_files.refused(folder, capsys)
    assert f"shared has {VOCAB_SIZE} rows" in line
    assert f"has {VOCAB_SIZE + 1} entries; correct --data_dir, or --problem" in line


def test_a_checkpoint_that_cannot_be_read_is_refused(t2t, capsys):
    folder, _ = t2t
    (data,) = (folder / "t2t").glob("*.data-*")
    data.write_bytes(data.read_bytes()[:-2000])
    assert f"model.ckpt-{t2t_files.STEP} cannot be read: " in t2t_files.refused(folder, capsys)
    data.with_name(f"model.ckpt-{t2t_files.STEP}.index").unlink()
    assert "holds no checkpoint (model.ckpt-STEP.index)" in t2t_files.refused(folder, capsys)


def test_a_target_space_that_is_not_there_is_refused(t2t, capsys):
    folder, _ = t2t
    assert "target_space_id=32: expected a number below 32" in t2t_files.refused(
        folder, capsys, "--target_space_id=32"
    )


def test_a_folder_with_something_in_it_is_left_alone(t2t, capsys):
    folder, _ = t2t
    (folder / "runs").mkdir()
    (folder / "runs" / "notes.txt").write_text("mine")
    assert "already exists" in t2t_files.refused(folder, capsys, f"--output_dir={folder}/runs")


def test_a_full_disk_leaves_nothing(t2t, capsys):
    folder, _ = t2t
    with full_disk(4000):
        assert "t2t-import: error: " in t2t_files.refused(folder, capsys)
