"""What every model must do for training, search and Keras.

A new model is held to all of it by one line in `KINDS` (conftest.py).
"""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.marks import FLOAT16
from support.model_kinds import (
    KINDS,
    LAYERS,
    SHALLOW,
    TRACED,
    assert_beams_are_the_whole,
    assert_reads_earlier_targets_alone,
    kinds,
    logits_of_kind,
    make_model,
    make_untrained,
    model_of,
    possible,
)
from support.rounding import assert_close, relative_bound
from support.terms import roundings_of, terms_of
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.models.seq2seq import shift_right
from t2t_lite.text.number_encoder import number_id
from t2t_lite.training.objectives import objective_of

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"
# Kinds that see the source alone, not the targets.
WITHOUT_DECODER = ("classifier", "regressor", "neural_gpu")
# Kinds of which a target is one symbol.
CLASSIFIERS = ("classifier",)
# Kinds that make embeddings of their own.
EMBEDDING = (
    "classifier",
    "neural_gpu",
    "extended_neural_gpu",
    "luong",
    "lstm",
    "conv_s2s",
    "gnmt_v2",
)
# For what no option of a layer changes.
OF_LAYERS = kinds(integration=LAYERS)
# Positions of the longer side in the fixture `features`.
LENGTH = 7


@pytest.fixture
def whole(kind):
    """Logits of `model` for `features`."""
    return logits_of_kind(kind)


def logits_of(model, features, **kwargs):
    return possible(model(features, **kwargs))


@pytest.mark.parametrize("kind", kinds(integration=KINDS))
def test_logits_are_those_recorded(kind, model, whole):
    """Holds the numbers of every model where T2T's are not at hand."""
    path = FIXTURES / f"logits_{kind}.npy"
    if not path.exists():
        np.save(path, whole)
        pytest.fail(f"{path.name} was missing and is recorded anew: look at it, then commit it")
    assert_close(whole, possible(np.load(path)), terms_of(model, LENGTH))


# ---- making one


def test_every_registered_model_is_held_to_this():
    classes = {name: registry.model(name) for name in registry.list_models()}
    own = {name for name, cls in classes.items() if cls.__module__.startswith("t2t_lite.")}
    # Language models are in test_transformer_language_model.py, and what reads two texts of a line
    # in test_transformer_estimator.py.
    others = {"attention_lm", "transformer_estimator"}
    assert {model for model, _, _ in KINDS.values()} == own - others


def test_a_model_is_made_by_the_name_of_a_set(kind, model):
    name, hparams_set, small = KINDS[kind]
    made = registry.model(name)(
        hparams_set, inputs_vocab_size=13, targets_vocab_size=13, name="mine", **small
    )
    assert made.hparams == model.hparams
    assert made.name == "mine"
    assert [v.shape for v in made.variables] == [v.shape for v in model.variables]


def test_the_weights_of_a_vocabulary_are_those_with_its_size(kind):
    name, hparams_set, small = KINDS[kind]
    made = registry.model(name)(hparams_set, inputs_vocab_size=101, targets_vocab_size=109, **small)
    # A classifier has no weights for padding and EOS.
    sizes = {101: ("inputs", 0), 109: ("targets", 0), 107: ("targets", 2)}
    wanted = {
        (id(weight), axis, *sizes[size])
        for weight in made.trainable_variables
        for axis, size in enumerate(weight.shape)
        if size in sizes
    }
    declared = list(made.vocabulary_rows())
    assert {(id(rows.weight), rows.axis, rows.side, rows.first_id) for rows in declared} == wanted
    assert len({rows.role for rows in declared}) == len(declared)


def test_wrong_hparams_are_a_usage_error(kind):
    name, hparams_set, _ = KINDS[kind]
    cls = registry.model(name)
    with pytest.raises(UsageError, match="'hidden_sise'; did you mean 'hidden_size'"):
        cls(hparams_set, 13, 13, hidden_sise=8)
    with pytest.raises(UsageError, match="hidden_size='8': expected a whole"):
        cls(hparams_set, 13, 13, hidden_size="8")
    with pytest.raises(UsageError, match=f"{cls.__name__} takes {cls.hparams_class.__name__}; got"):
        cls(BasicHParams(), 13, 13)


def test_a_config_makes_the_same_model_again(model):
    config = model.get_config()
    other = type(model).from_config(config)
    assert other.get_config() == config
    assert [v.shape for v in other.variables] == [v.shape for v in model.variables]


def test_names_of_hparams_are_unique(kind):
    """A field that every model has is declared once, in `BasicHParams`."""
    own = registry.model(KINDS[kind][0]).hparams_class
    assert issubclass(own, BasicHParams)
    assert not set(vars(own).get("__annotations__", {})) & set(BasicHParams.names())


# ---- what it costs


def test_flops_are_those_of_each_sentence(model):
    """Linear in sentences; a longer source or target costs more; padding costs nothing."""

    def forward(*lengths, padding=0):
        ids = [np.arange(max(lengths[0]) + padding) < n for n in lengths[0]]
        targets = [np.arange(max(lengths[1]) + padding) < n for n in lengths[1]]
        features = {"inputs": np.array(ids, np.int32), "targets": np.array(targets, np.int32)}
        return float(model.forward_flops().forward(features))

    one, other = forward([7], [5]), forward([4], [3])
    assert other > 0
    assert forward([7, 4], [5, 3]) == forward([7, 4], [5, 3], padding=3) == one + other
    assert forward([8], [5]) > one
    assert forward([7], [6]) > one
    # At least one product with each weight but embeddings, by one of the sides.
    matrices = [v for v in model.trainable_variables if v.name == "kernel"]
    assert one > 2 * min(7, 5) * sum(np.prod(v.shape) for v in matrices)


# ---- search


def test_stepwise_logits_are_those_of_the_whole_sequence(model, features):
    """For more steps than source positions."""
    assert_beams_are_the_whole(model, features["inputs"][:, :4], terms_of(model, LENGTH))


def test_beams_share_what_belongs_to_the_sentence(model, features):
    state = model.start_decoding(features["inputs"], 4, 5)
    _, after = model.decode_step(np.zeros((3, 4), np.int32), ops.convert_to_tensor(0), state)
    for before, now in zip(
        keras.tree.flatten(state.sentence), keras.tree.flatten(after.sentence), strict=True
    ):
        assert now is before
        assert now.shape[0] == 3
        assert 4 not in now.shape[1:2]
    assert {part.shape[:2] for part in keras.tree.flatten(after.hypothesis)} == {(3, 4)}


# ---- what a logit may depend on


def test_a_narrowed_vocabulary_has_the_same_logits(model, features):
    """In steps, whose ids are then places in it."""
    if not model.can_narrow:
        return
    ids, inputs = np.array([0, 1, 4, 7, 9, 12]), features["inputs"]
    places = np.array([[2, 4], [5, 3], [1, 2]])[: len(inputs)]  # [B, K]
    whole = model.start_decoding(inputs, 2, 3)
    narrow = model.narrow(model.start_decoding(inputs, 2, 3), ids)
    for step in range(3):
        logits, whole = model.decode_step(ids[places], step, whole)
        found, narrow = model.decode_step(places, step, narrow)
        assert found.shape[-1] == len(ids)
        assert_close(
            possible(found), possible(ops.take(logits, ids, axis=-1)), terms_of(model, LENGTH)
        )


def test_logits_depend_on_earlier_targets_alone(model, kind, features):
    def logits(targets):
        return logits_of(model, {**features, "targets": targets})

    reads = kind not in WITHOUT_DECODER
    assert_reads_earlier_targets_alone(logits, features["targets"], reads)


def test_neither_padding_nor_the_batch_changes_anything(model, features, whole):
    padded = {
        "inputs": np.pad(features["inputs"], [(0, 1), (0, 3)]),
        "targets": np.pad(features["targets"], [(0, 1), (0, 2)]),
    }
    logits = logits_of(model, padded)
    assert np.isfinite(logits).all()  # in a sentence of nothing but padding, too
    terms = terms_of(model, LENGTH + 3)
    assert_close(logits[:3, :6], whole, terms)
    for i in range(3):
        alone = {name: ids[i : i + 1, : np.count_nonzero(ids[i])] for name, ids in features.items()}
        logits = logits_of(model, alone)[0]
        assert_close(logits, whole[i, : len(logits)], terms, scale=np.abs(whole).max())


@pytest.mark.integration
@pytest.mark.parametrize("kind", LAYERS)
def test_compiled_by_xla_computes_the_same(kind, features):
    """And traced for a batch of any size."""
    model = model_of(kind, **SHALLOW.get(kind, {}))
    signature = dict.fromkeys(features, tf.TensorSpec([None, None], tf.int32))
    compiled = tf.function(
        lambda batch: model(batch),
        input_signature=[signature],
        autograph=False,
        jit_compile=True,
    )
    assert_close(possible(compiled(features)), logits_of(model, features), terms_of(model, LENGTH))


def test_shift_right_is_that_of_t2t(golden):
    units = np.load(golden / "units.npz")
    np.testing.assert_array_equal(shift_right(units["shift_right/in"]), units["shift_right/out"])


# ---- embeddings


@pytest.mark.parametrize(
    ("shared", "sizes", "matrices"),
    [(False, (13, 13), [13, 13]), (True, (13, 13), [13]), (True, (13, 17), [13, 17])],
)
def test_targets_and_softmax_share_one_matrix_whatever_sources_have(shared, sizes, matrices):
    hparams = {"shared_target_and_softmax_weights": True, "shared_embedding": shared}
    model = make_model("post_norm", *sizes, shared_embedding_and_softmax_weights=False, **hparams)
    assert model.softmax_embedding is model.targets_embedding
    rows = [v.shape[0] for v in model.trainable_variables if v.name == "matrix"]
    assert sorted(rows) == matrices


@pytest.mark.parametrize(
    ("shared", "softmax_too", "sizes", "matrices"),
    [
        (False, False, (13, 13), [13, 13, 13]),
        (True, False, (13, 13), [13, 13]),
        (False, True, (13, 13), [13]),
        (False, True, (13, 17), [13, 17, 17]),  # as T2T: unlike vocabularies unshare by themselves
        (True, False, (13, 17), [13, 17, 17]),
    ],
)
@pytest.mark.parametrize(
    "kind",  # those that make embeddings of their own, and one of the others
    ["post_norm", *(pytest.param(kind, marks=pytest.mark.integration) for kind in EMBEDDING)],
)
def test_embeddings_are_shared_as_asked(kind, shared, softmax_too, sizes, matrices):
    model = make_model(
        kind, *sizes, shared_embedding=shared, shared_embedding_and_softmax_weights=softmax_too
    )
    rows = [v.shape[0] for v in model.trainable_variables if v.name == "matrix"]
    if kind in CLASSIFIERS:
        matrices = [sizes[0]]
    elif kind in WITHOUT_DECODER:  # sources and softmax
        matrices = [13] if matrices == [13] else list(sizes)
    assert sorted(rows) == matrices
    ids = np.array([[sizes[0] - 1]]), np.array([[sizes[1] - 1]])
    assert (
        logits_of(model, dict(zip(("inputs", "targets"), ids, strict=True))).shape[-1] == sizes[1]
    )


# ---- training


@pytest.mark.integration
@pytest.mark.parametrize("kind", TRACED)
def test_every_weight_learns(kind, features):
    model = make_untrained(kind)
    if kind in CLASSIFIERS:
        features["targets"] = features["targets"][:, :1]
    if model.only_numbers:
        features["targets"] = np.full([3, 6], number_id(0.5), np.int32)
    objective = objective_of(model, model.hparams)
    with tf.GradientTape() as tape:
        hidden = model.hidden(features, training=True)
        loss, _ = objective.summed_loss(model, hidden, features["targets"])
    gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        found = ops.convert_to_numpy(tf.convert_to_tensor(gradient))
        assert np.isfinite(found).all(), variable.path
        assert found.any(), variable.path


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["luong", "experts"])  # Keras compiles the latter by XLA
def test_keras_fit_learns(dropouts, features, kind):
    model = make_untrained(kind, **dict.fromkeys(dropouts, 0.0))
    model.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
    )
    model.optimizer.build(model.trainable_variables)  # else Keras traces the step twice
    many = {name: np.tile(ids, (30, 1)) for name, ids in features.items()}
    before = model.evaluate(features, features["targets"], verbose=0)
    model.fit(many, many["targets"], batch_size=3, epochs=3, shuffle=False, verbose=0)
    assert before > 1.5
    assert model.evaluate(features, features["targets"], verbose=0) < 0.5


@pytest.mark.integration
@pytest.mark.parametrize("kind", OF_LAYERS)
def test_dropout_is_for_training_alone_and_repeats_with_the_seeds(model, features, whole):
    def logits(seeds=None, training=True):
        if seeds is not None:
            model.seeds.state.assign(seeds)
        return logits_of(model, features, training=training)

    first = logits((1, 0))
    assert np.abs(first - whole).max() > 1e-2
    assert np.abs(first - logits()).max() > 1e-2  # the seeds went on
    np.testing.assert_array_equal(logits(training=False), whole)  # wherever they are
    assert np.abs(first - logits((2, 0))).max() > 1e-2
    np.testing.assert_array_equal(first, logits((1, 0)))


@pytest.mark.parametrize("kind", OF_LAYERS)
def test_without_dropout_training_is_evaluation(kind, dropouts, features):
    model = make_model(kind, **dict.fromkeys(dropouts, 0.0))
    np.testing.assert_array_equal(
        logits_of(model, features, training=True), logits_of(model, features)
    )


@pytest.mark.integration
@pytest.mark.parametrize("kind", OF_LAYERS)
def test_every_dropout_hparam_acts(kind, dropouts, features, whole):
    assert dropouts
    for on in dropouts:
        acting = make_model(kind, **{name: 0.5 if name == on else 0.0 for name in dropouts})
        difference = logits_of(acting, features, training=True) - whole  # of the same weights
        assert np.abs(difference).max() > 1e-2, on


def test_all_randomness_comes_from_one_generator(model):
    assert {id(v) for v in model.non_trainable_variables} == {id(model.seeds.state)}


@pytest.mark.float16
@pytest.mark.integration
def test_mixed_precision_keeps_to_the_numbers(kind, features, whole):
    """Nothing is narrower than the type, or left out; test_copies.py has bfloat16."""
    dtype = "float16"
    model = model_of(kind, dtype=dtype)
    logits = model(features, training=False)
    state = model.start_decoding(features["inputs"], 2, 3)
    step, _ = model.decode_step(np.zeros((3, 2), np.int32), ops.convert_to_tensor(0), state)
    assert {v.dtype for v in model.trainable_variables} == {"float32"}
    assert keras.config.dtype_policy().name == "float32", "other models are left alone"
    for rough, wanted in ((logits, whole), (step[:, 1], whole[:, 0])):
        projection = model.output_projection
        is_whole = projection.excludes or not projection.has_padding
        wanted_dtype = "float32" if is_whole else dtype
        assert keras.backend.standardize_dtype(rough.dtype) == wanted_dtype
        rough = possible(ops.cast(rough, "float32"))
        # One of the two is rounded to the type.
        bound = relative_bound(roundings_of(model, LENGTH), dtype)
        assert np.abs(rough - wanted).max() < bound * np.abs(whole).max()


@pytest.mark.parametrize("dtype", ["float32", FLOAT16])
def test_rows_of_padding_stay_finite(kind, dtype, features):
    """The last batch is filled up with them; hiding all their positions must not divide by 0.

    float16 has the smallest range, which -1e9 exceeds.
    """
    padding = {name: np.zeros_like(ids) for name, ids in features.items()}
    model = model_of(kind) if dtype == "float32" else model_of(kind, dtype=dtype)
    logits = model(padding, training=True)
    assert np.isfinite(ops.convert_to_numpy(ops.cast(logits, "float32"))).all()


_LOCAL = {"self_attention_type": "local"}
_RELATIVE = {"self_attention_type": "dot_product_relative"}
_NONE_ATTENDS = {"decoder_attention": "0+0+0"}
_OWN_WIDTH = {"share_input_output_embed": True, "decoder_out_embed_dim": 8}
_FEW_BACK = {"decoder_layers": "8x3+8x3x3", "decoder_attention": ""}


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("post_norm", {"dtype": "half"}, "dtype=half: expected float32, bfloat16 or float16"),
        ("post_norm", {"num_encoder_layers": -1}, "at least 0"),
        ("post_norm", {"filter_size": -8}, "at least 1"),
        ("post_norm", {"hidden_size": 18, "num_heads": 4}, "over 4 heads"),
        ("post_norm", {"num_heads": 3}, r"key_channels=16 .* 3 heads"),
        ("post_norm", {"attention_value_channels": 15}, r"value_channels=15 .* 2 heads"),
        ("post_norm", _LOCAL, "=local: expected dot_product or dot_product_rel"),
        ("post_norm", _RELATIVE, r"max_relative_position=0: .* at least"),
        ("post_norm", {"pos": "sine"}, "pos=sine: expected timing, timing_paper, emb or none"),
        ("post_norm", {"layer_preprocess_sequence": "nx"}, r"'nx': expected letters n, d, a"),
        ("pre_norm", {"ffn_layer": "conv"}, "ffn_layer=conv: expected dense_relu_dense, "),
        ("experts", {"moe_hidden_sizes": "0"}, "expected one number"),
        ("experts", {"moe_hidden_sizes": "8,9"}, r"moe_hidden_sizes='8,9': expected one number"),
        ("experts", {"moe_k": 5}, "k=5 experts for each token: expected 1 to 4"),
        ("universal", {"recurrence_type": "lstm"}, "recurrence_type=lstm: expected basic or act"),
        ("universal", {"act_type": "global"}, "act_type=global: expected basic or accumulated"),
        ("universal", {"pos": "timing"}, "pos=timing: expected none"),
        ("lstm", {"num_hidden_layers": 0}, "needs at least 1"),
        ("luong", {"attention_window": -1}, "at least 0"),
        ("luong", {"attention_mechanism": "dot"}, r"mechanism=dot: expected bahdanau, .*luong"),
        ("gnmt", {"num_hidden_layers": 1}, "num_hidden_layers=1: expected at least 2"),
        ("gnmt_v2", {"start_id": 13}, "expected an id of the target vocabulary"),
        ("deep_att", {"num_decoder_layers": 0}, "at least 1"),
        ("neural_gpu", {"tape_width": 0}, "at least 1"),
        ("byte_net", {"kernel_height": 0}, "at least 1"),
        ("byte_net", {"unfolding": 0.9}, "unfolding=0.9: expected a number, at least 1"),
        ("byte_net", {"residual_block": "dense"}, "=dense: expected bottleneck or chain"),
        ("conv_s2s", {"encoder_layers": "512,3"}, r"='512,3': expected groups.*got '512,3'"),
        ("conv_s2s", {"decoder_layers": "512x3+"}, "='512x3.': expected groups.*got ''"),
        ("conv_s2s", _FEW_BACK, "layer 2 has no output 3 layers back"),
        ("conv_s2s", {"decoder_attention": "1+1"}, "expected 1 .attention. or 0 for each of the 3"),
        ("conv_s2s", {"decoder_attention": "1+2+1"}, "expected 1 .attention. or 0 for each of"),
        ("conv_s2s", _NONE_ATTENDS, "at least one 1"),
        ("conv_s2s", _OWN_WIDTH, "=8: a softmax that shares the embeddings has their 16 features"),
    ],
)
def test_impossible_values_are_a_usage_error(kind, changes, message):
    with pytest.raises(UsageError, match=message):
        make_model(kind, **changes)


# ---- parts


def test_the_encoder_is_a_model_that_shares_layers(model, features, tmp_path):
    encoded = ops.convert_to_numpy(model.encoder(features["inputs"]))
    assert encoded.shape == (3, 7, 16)
    own = {id(v) for v in model.trainable_variables}
    assert {id(v) for v in model.encoder.trainable_variables} < own
    assert model.encoder is model.encoder
    model.encoder.save(tmp_path / "encoder.keras")
    loaded = keras.saving.load_model(tmp_path / "encoder.keras")
    np.testing.assert_array_equal(loaded(features["inputs"]), encoded)


# ---- files and other backends


@pytest.mark.parametrize("kind", OF_LAYERS)
def test_a_saved_model_is_the_model(model, features, whole, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.hparams == model.hparams
    np.testing.assert_array_equal(logits_of(loaded, features), whole)


def test_a_tensorflow_checkpoint_holds_every_variable(kind, model, features, whole, tmp_path):
    path = tf.train.Checkpoint(model=model).write(tmp_path / "checkpoint")
    other = make_model(kind)
    for variable in other.trainable_variables:
        variable.assign(variable + 1.0)
    tf.train.Checkpoint(model=other).read(path).assert_consumed()
    np.testing.assert_array_equal(logits_of(other, features), whole)


_ON_JAX = """
import sys, jax, keras, numpy as np
from t2t_lite import registry
assert keras.backend.backend() == "jax"
folder, *kinds = sys.argv[1:]
for name in registry.list_models():
    registry.model(name)
features = dict(np.load(f"{folder}/features.npz"))

def results(model, features):
    state = model.start_decoding(features["inputs"], 1, 6)
    step, _ = model.decode_step(features["targets"][:, :1], 0, state)
    return model(features), step[:, 0]

for kind in kinds:
    model = keras.saving.load_model(f"{folder}/{kind}.keras")
    whole, step = jax.jit(lambda features: results(model, features))(features)
    np.savez(f"{folder}/{kind}.npz", whole=whole, step=step)
"""


@pytest.mark.slow
def test_another_process_and_backend_computes_the_same(features, tmp_path):
    np.savez(tmp_path / "features.npz", **features)
    wanted = {}
    for kind in TRACED:
        model_of(kind).save(tmp_path / f"{kind}.keras")
        wanted[kind] = logits_of_kind(kind)
    subprocess.run(
        [sys.executable, "-c", _ON_JAX, str(tmp_path), *TRACED],
        env={
            **os.environ,
            "KERAS_BACKEND": "jax",
            "JAX_PLATFORMS": "cpu",
            # The graphs are run once each: no time for a compiler to optimise them.
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0",
        },
        check=True,
    )
    for kind, logits in wanted.items():
        on_jax, terms = np.load(tmp_path / f"{kind}.npz"), terms_of(model_of(kind), LENGTH)
        assert_close(possible(on_jax["whole"]), logits, terms)
        assert_close(possible(on_jax["step"]), logits[:, 0], terms, scale=np.abs(logits).max())
