"""The estimator of quality: what it computes, by a translator with the same weights."""

import keras
import numpy as np
import pytest
from keras import ops

from support.model_kinds import with_noise
from support.rounding import assert_close
from support.small_runs import make_run, save_weights
from support.terms import terms_of
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.models.transformer_estimator import TransformerEstimator, TwoTexts
from t2t_lite.runs.model_match import mismatch
from t2t_lite.runs.warm_start import warm_start

SMALL = {"hidden_size": 16, "filter_size": 24, "num_heads": 2, "num_hidden_layers": 1}
ONE = {"targets_vocab_size": 2 + 1}
PAIRS = [([5, 9, 2, 1], [3, 10, 1]), ([8, 1], [6, 2, 9, 11, 4, 1]), ([4, 11, 6, 2, 7, 1], [1])]


@pytest.fixture(scope="module")
def model():
    return with_noise(TransformerEstimator("transformer_base_v3", 13, **ONE, **SMALL))


def rows_of(*pairs, padding=0):
    rows = [source + output for source, output in pairs]
    size = max(map(len, rows)) + padding
    return np.array([row + [0] * (size - len(row)) for row in rows], np.int32)


def features_by(translator: Seq2Seq, source: list[int], output: list[int]) -> np.ndarray:
    """The means over an output, which a translator reads as in training."""
    features = {"inputs": np.array([source]), "targets": np.array([output])}
    hidden = translator.hidden(features)
    states = np.array(hidden, np.float64)[0]
    logits = np.array(translator.output_projection(hidden), np.float64)[0]
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    rows = np.array(translator.softmax_embedding.matrix, np.float64)[output]
    products = states * rows
    own = [row[id_] for row, id_ in zip(log_probs, output, strict=True)]
    return np.array([*products.mean(axis=0), np.mean(own), np.mean(np.exp(own))])


@pytest.mark.integration
@pytest.mark.parametrize(
    "form",
    [
        {"shared_embedding_and_softmax_weights": True},
        {"shared_embedding_and_softmax_weights": False, "softmax_bias": True},
        {
            "shared_embedding_and_softmax_weights": False,
            "shared_target_and_softmax_weights": True,
        },
    ],
)
def test_after_a_warm_start_it_reads_as_the_translator_does(form, tmp_path, caplog):
    run = make_run(tmp_path, hidden_size=8, num_hidden_layers=1, **form)
    translator = with_noise(run.build_model())
    save_weights(tmp_path, translator)
    model = with_noise(TransformerEstimator(run.hparams, translator.inputs_vocab_size, **ONE))
    warm_start(model, str(tmp_path))
    (missing,) = [text for text in caplog.messages if "keep their initial values" in text]
    assert missing.startswith("2 weights are missing there")
    assert "exist there, but not in this model" not in caplog.text

    kernel, bias = (np.array(w, np.float64) for w in model.class_projection.trainable_variables)
    features = [features_by(translator, *pair) for pair in PAIRS]
    wanted = [own[-1] + own @ kernel + bias for own in features]
    found = ops.convert_to_numpy(model.numbers(rows_of(*PAIRS)))
    assert_close(found, np.stack(wanted), terms_of(model, 20))


def test_before_training_a_number_is_a_mean_probability():
    model = TransformerEstimator("transformer_test", 13, **ONE)
    numbers = ops.convert_to_numpy(model.numbers(rows_of(*PAIRS)))
    assert ((numbers > 0) & (numbers < 0.5)).all(), "of 13 symbols, no one is certain"
    assert np.abs(model.class_projection.kernel).max() < 1e-3


@pytest.mark.integration
def test_numbers_do_not_depend_on_padding_or_on_other_texts(model):
    together = ops.convert_to_numpy(model.numbers(rows_of(*PAIRS, padding=3)))
    alone = [ops.convert_to_numpy(model.numbers(rows_of(pair)))[0] for pair in PAIRS]
    assert_close(together, np.stack(alone), terms_of(model, 20))
    assert len({*together[:, 0].tolist()}) == len(PAIRS)
    for place in (0, 1):  # both texts count
        changed = [list(text) for text in PAIRS[0]]
        changed[place][0] = 7
        assert abs(model.numbers(rows_of(tuple(changed)))[0, 0] - together[0, 0]) > 1e-3


@pytest.mark.parametrize(
    ("ids", "first", "second"),
    [
        ([5, 6, 1, 8, 1, 0], [5, 6, 1, 0, 0, 0], [8, 1, 0, 0, 0, 0]),
        ([1, 8, 9, 7, 2, 1], [1, 0, 0, 0, 0, 0], [8, 9, 7, 2, 1, 0]),
        ([5, 6, 1, 1, 0, 0], [5, 6, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]),
        ([5, 6, 7, 1, 0, 0], [5, 6, 7, 1, 0, 0], [0] * 6),
        ([5, 6, 7, 8, 9, 7], [5, 6, 7, 8, 9, 7], [0] * 6),  # cut
        ([0] * 6, [0] * 6, [0] * 6),
    ],
)
def test_two_texts_are_parted_at_the_first_eos(ids, first, second, model):
    texts = TwoTexts.of(np.array([ids], np.int32))
    assert [ops.convert_to_numpy(text)[0].tolist() for text in texts[:2]] == [first, second]
    there = ops.convert_to_numpy(texts.is_second)[0]
    assert np.array(ids)[there].tolist() == [id_ for id_ in second if id_]
    assert np.isfinite(model.numbers(np.array([ids], np.int32))).all()


@pytest.mark.parametrize(
    ("problem", "suited"),
    [
        ("quality_tmpdir", None),
        ("text2real_tmpdir", "transformer_regressor"),
        ("text2text_tmpdir", "transformer"),
    ],
)
def test_it_learns_problems_of_sources_and_translations(problem, suited):
    found = mismatch(TransformerEstimator, registry.problem(problem))
    assert (found and found.suited) == suited


def test_no_symbol_of_a_text_is_dropped():
    """Neither the EOS that parts the texts, nor a token whose probability is a feature."""
    with pytest.raises(UsageError, match=r"symbol_dropout=0\.1: .*; set symbol_dropout=0"):
        TransformerEstimator("transformer_test", 13, symbol_dropout=0.1, **ONE)


def test_it_is_saved_and_loaded(tmp_path, model):
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(loaded.numbers(rows_of(*PAIRS)), model.numbers(rows_of(*PAIRS)))
