"""The Transformer without a source: T2T's language models, and what the contract asks of them."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support import t2t_arithmetic, t2t_files
from support.model_kinds import (
    assert_beams_are_the_whole,
    assert_reads_earlier_targets_alone,
    with_noise,
    without_values,
)
from support.rounding import assert_close
from support.terms import roundings_of, terms_of
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.models.attention_lm import AttentionLM
from t2t_lite.models.transformer import Transformer
from t2t_lite.search.beam_search import BeamSearch
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.factory import make_search
from t2t_lite.text.text_encoder import ByteTextEncoder, NoText

SMALL = {"num_hidden_layers": 1, "hidden_size": 16, "filter_size": 24, "num_heads": 2}
PRE_NORM = {"layer_preprocess_sequence": "n", "layer_postprocess_sequence": "da"}
VOCAB_SIZE = 13
TARGETS = np.array([[3, 10, 1, 0, 0, 0], [6, 2, 9, 12, 4, 1], [7, 1, 0, 0, 0, 0]], np.int32)


def make_model(cls=AttentionLM, **changes):
    return with_noise(cls("attention_lm_base", 0, VOCAB_SIZE, **{**SMALL, **changes}))


def features_of(targets):
    return {"inputs": np.zeros([len(targets), 0], np.int32), "targets": targets}


def logits_of(model, targets=TARGETS):
    return ops.convert_to_numpy(model(features_of(targets)))


def norms_of(name):
    return PRE_NORM if name == "n" else {}


@pytest.fixture(scope="module", params=["none", "n"])
def model(request):
    return make_model(**norms_of(request.param))


# For what takes seconds: steps compute what the whole does with either.
ONE_NORM = pytest.mark.parametrize("model", ["n"], indirect=True)


@pytest.mark.parametrize("name", ["none", "n"])
def test_logits_are_those_of_a_forward_pass_in_numpy(name):
    """Of two layers; the other tests have one."""
    model = make_model(num_hidden_layers=2, **norms_of(name))
    arrays = t2t_files.t2t_arrays(model)
    wanted = t2t_arithmetic.logits("attention_lm", model.hparams, arrays, TARGETS)
    assert_close(logits_of(model), wanted, terms_of(model, 6))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "vocabulary", "millions"),
    [("attention_lm_small", 32_000, 45), ("transformer_lm_tpu_0", 8_000, 92)],
)
def test_parameters_are_as_many_as_t2t_says(name, vocabulary, millions):
    model = without_values("attention_lm", name, 0, vocabulary)
    assert abs(model.count_params() / 1e6 - millions) < 1


def test_a_transformer_without_source_is_the_same_model(model):
    other = Transformer(model.hparams, 0, VOCAB_SIZE)
    other.set_weights(model.get_weights())
    np.testing.assert_array_equal(logits_of(other), logits_of(model))


# ---- the contract


def test_logits_depend_on_earlier_targets_alone(model):
    assert_reads_earlier_targets_alone(functools.partial(logits_of, model), TARGETS)


def test_padding_and_batch_change_nothing(model):
    together = logits_of(model)
    padded = logits_of(model, np.pad(TARGETS, [(0, 1), (0, 2)]))
    assert np.isfinite(padded).all()
    assert_close(padded[:3, :6], together, terms_of(model, 8))
    for row, wanted in zip(TARGETS, together, strict=True):
        alone = logits_of(model, row[None, row > 0])[0]
        assert_close(alone, wanted[: len(alone)], terms_of(model, 6), scale=np.abs(together).max())


def test_stepwise_logits_are_those_of_the_whole_sequence(model):
    assert_beams_are_the_whole(model, np.zeros([2, 0], np.int32), terms_of(model, 6))


@pytest.mark.integration
@ONE_NORM
@pytest.mark.parametrize("xla_compile", [False, pytest.param(True, marks=pytest.mark.integration)])
def test_a_search_continues_prompts(model, xla_compile):
    """Greedy: each next id is the most probable one after all ids before it."""
    prompts = np.array([[3, 10, 0], [6, 0, 0], [0, 0, 0]], np.int32)
    search = BeamSearch(model, 1, xla_compile=xla_compile)
    found = search(np.zeros([3, 0], np.int32), [6, 5, 4], prompts)
    for prompt, ids, limit in zip(prompts, found.ids[:, 0], [6, 5, 4], strict=True):
        wanted = [*prompt[prompt > 0]]
        while len(wanted) < limit and wanted[-1:] != [1]:
            logits = logits_of(model, np.array([[*wanted, 0]], np.int32))
            wanted.append(int(logits[0, len(wanted), 0:].argmax()))
        np.testing.assert_array_equal(ids[:limit][: len(wanted)], wanted)


@pytest.mark.integration
@pytest.mark.parametrize("method", ["argmax", "random"])
@ONE_NORM
@pytest.mark.usefixtures("eager_searches")
def test_scores_leave_prompts_out(model, method):
    check_scores(model, [model], sampling_method=method)


@pytest.mark.integration
@ONE_NORM
def test_an_ensemble_continues_prompts_by_mean_probabilities(model):
    models = [model, make_model(Transformer, num_hidden_layers=2)]
    check_scores(Ensemble(models), models)


def check_scores(searched, models, **settings):
    """Compares scores with sums of log-probabilities, of the mean over models."""
    hparams = DecodeHParams(beam_size=2, alpha=0.0, return_beams=True, **settings)
    prompts = np.array([[3, 10, 7], [6, 0, 0]], np.int32)
    encoders = {"inputs": NoText(), "targets": ByteTextEncoder()}
    found = make_search(searched, encoders, hparams)(np.zeros([2, 0], np.int32), 6, prompts)
    for prompt, rows, scores in zip(prompts, *found, strict=True):
        size = np.count_nonzero(prompt)
        for ids, score in zip(rows, scores, strict=True):
            probs = [ops.convert_to_numpy(ops.softmax(logits_of(m, ids[None])))[0] for m in models]
            log_probs = np.log(np.mean(probs, axis=0))
            end = [*ids, 1].index(1) + 1  # an untrained model may output padding
            after = range(size, min(end, len(ids)))
            wanted = sum(log_probs[t, ids[t]] for t in after)
            terms = terms_of(models[0], len(ids)) + VOCAB_SIZE + len(after)
            # Log-probabilities are differences of logits, whose errors they have.
            assert_close(score, wanted, terms, scale=len(ids) * np.abs(log_probs).max())


@pytest.mark.integration
def test_a_saved_model_is_the_model(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits_of(loaded), logits_of(model))
    path = tf.train.Checkpoint(model=model).write(tmp_path / "checkpoint")
    other = make_model(**{name: getattr(model.hparams, name) for name in PRE_NORM})
    for variable in other.trainable_variables:
        variable.assign(variable + 1.0)
    tf.train.Checkpoint(model=other).read(path).assert_consumed()
    np.testing.assert_array_equal(logits_of(other), logits_of(model))


@pytest.mark.float16
def test_half_precision_is_close(model):
    norms = {name: getattr(model.hparams, name) for name in PRE_NORM}
    found = np.float32(logits_of(make_model(dtype="float16", **norms)))
    assert_close(found, logits_of(model), roundings_of(model, 6), dtype="float16")


def test_flops_are_those_of_the_targets(model):
    one = float(model.forward_flops().forward(features_of(np.ones([1, 5], np.int32))))
    products = [v for v in model.trainable_variables if v.name == "kernel"]
    assert one > 2 * 5 * sum(np.prod(v.shape) for v in products)
    assert model.forward_flops().source == 0


# ---- what there is not


def test_there_is_no_encoder_and_no_attention_to_a_source(model):
    assert {*model.attention_layers()} == {"decoder"}
    assert model.encoder is None
    with pytest.raises(UsageError, match="no source"), model.hook_attention(print):
        pass
    assert not [v for v in model.variables if "target_space" in v.path]


@pytest.mark.integration
def test_other_models_need_a_source():
    for name in registry.list_models():
        cls = registry.model(name)
        if cls.__module__.startswith("t2t_lite.") and not cls.can_lack_inputs:
            with pytest.raises(UsageError, match="has no inputs: for a language model use"):
                cls(cls.hparams_class(), 0, VOCAB_SIZE)
    with pytest.raises(UsageError, match="attention_lm is a language model"):
        AttentionLM("attention_lm_base", VOCAB_SIZE, VOCAB_SIZE)
