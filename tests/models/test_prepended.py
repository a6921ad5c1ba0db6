"""`prepend_mode`: the decoder reads the source before the target."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.marks import by_name
from support.model_kinds import with_noise
from support.rounding import assert_close
from support.terms import roundings_of, terms_of
from t2t_lite.decoding.ctranslate2_model import convert
from t2t_lite.decoding.scoring import total_score
from t2t_lite.errors import UsageError, UserError
from t2t_lite.models.attention_lm import AttentionLM
from t2t_lite.models.auxiliary_losses import hidden_and_statistics
from t2t_lite.models.prepended import full_attention_bias, joined
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.universal_transformer import UniversalTransformer
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.penalties import DEFAULT_PENALTY
from t2t_lite.systems.evolved_transformer import EvolvedTransformer

MODE = "prepend_inputs_masked_attention"
FULL = "prepend_inputs_full_attention"
SMALL = {"num_hidden_layers": 1, "hidden_size": 16, "filter_size": 24, "num_heads": 2}
V = 23
INPUTS = np.array([[5, 6, 1, 0, 0], [7, 1, 0, 0, 0], [8, 9, 14, 11, 1]], np.int32)
TARGETS = np.array([[13, 4, 1], [15, 1, 0], [16, 17, 18]], np.int32)


def make_model(cls, **changes):
    settings = {**SMALL, "prepend_mode": MODE, **changes}
    return with_noise(cls("transformer_tiny", V, V, **settings), 1.0)


KINDS = [(Transformer, MODE), (AttentionLM, MODE), (AttentionLM, FULL), (EvolvedTransformer, MODE)]
# With the sizes of the beam: both are searches of the same steps.
SEARCHED = list(zip(KINDS, (3, 1, 3, 1), strict=True))


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    kind, mode = request.param
    return make_model(kind, prepend_mode=mode)


def real(row):
    return row[row != 0]


def test_sources_and_targets_are_joined_without_gaps():
    rows = ops.convert_to_numpy(joined(INPUTS, TARGETS))
    for row, source, target in zip(rows, INPUTS, TARGETS, strict=True):
        start = len(real(source)) + 1
        assert row[:start].tolist() == [*real(source), 0]
        assert row[start : start + len(target)].tolist() == target.tolist()
        assert not row[start + len(target) :].any()


@pytest.mark.integration
def test_a_call_gives_what_the_decoder_predicts_after_the_separator(model):
    """Sentence by sentence, so that no row has padding: the batch plays no part either."""
    logits = ops.convert_to_numpy(model({"inputs": INPUTS, "targets": TARGETS}))
    for got, source, target in zip(logits, INPUTS, TARGETS, strict=True):
        source, target = real(source)[None], real(target)[None]
        whole = np.concatenate([source, [[0]], target], axis=1).astype(np.int32)
        if model.hparams.predicts_inputs:
            hidden = model.hidden({"inputs": source, "targets": whole})
        else:
            hidden = model.decoder(whole, model.encode(source))
        wanted = ops.convert_to_numpy(model.output_projection(hidden))[0, source.shape[1] + 1 :]
        # The two sums of the same terms are both rounded.
        assert_close(got[: target.shape[1]], wanted, 2 * terms_of(model, whole.shape[1]))


def test_with_full_attention_the_source_sees_all_of_itself_and_nothing_after():
    ids = joined(INPUTS, TARGETS)
    bias = ops.convert_to_numpy(full_attention_bias(ids))[:, 0]
    for row, seen in zip(ops.convert_to_numpy(ids), bias == 0.0, strict=True):
        start = row.tolist().index(0) + 1  # of the target
        for query in range(len(row)):
            assert seen[query].tolist() == [key <= max(query, start - 1) for key in range(len(row))]


def test_training_predicts_the_target_alone_with_full_attention():
    features = {"inputs": INPUTS, "targets": TARGETS}
    model = make_model(AttentionLM, prepend_mode=FULL)
    hidden, _ = hidden_and_statistics(model, features)
    assert hidden.shape == (*TARGETS.shape, 16)
    assert np.array_equal(model.output_projection(hidden), model(features))


@pytest.mark.integration
def test_the_decoder_reads_the_source(model):
    changed = np.where(INPUTS == 8, 10, INPUTS)
    logits = [
        ops.convert_to_numpy(model({"inputs": inputs, "targets": TARGETS}))
        for inputs in (INPUTS, changed)
    ]
    assert not np.allclose(logits[0][2], logits[1][2])


@pytest.mark.integration
@pytest.mark.parametrize(
    ("model", "beam_size"),
    [*SEARCHED, *by_name(*((kind, 4 - size) for kind, size in SEARCHED))],
    indirect=["model"],
)
def test_scores_of_a_search_are_those_of_its_outputs(model, beam_size: int):
    search = greedy_search(model) if beam_size == 1 else BeamSearch(model, beam_size)
    found = search(INPUTS, [4, 6, 5])
    features = {"inputs": tf.constant(INPUTS), "targets": tf.constant(found.ids[:, 0])}
    scores = total_score(model, features, *[DEFAULT_PENALTY] * (beam_size > 1)).numpy()
    assert_close(found.scores[:, 0], scores, 2 * 6 * roundings_of(model, 12))
    alone = [search(INPUTS[i : i + 1, : len(real(INPUTS[i]))], n) for i, n in enumerate([4, 6, 5])]
    for whole, one in zip(found.ids, alone, strict=True):
        assert np.array_equal(whole[:, : one.ids.shape[2]], one.ids[0])


@pytest.mark.integration
def test_it_is_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    features = {"inputs": INPUTS, "targets": TARGETS}
    assert np.array_equal(model(features), again(features))


def test_what_cannot_be(model):
    with pytest.raises(UsageError, match="one vocabulary, and have 23 and 29 ids"):
        type(model)(model.hparams, V, V + 6)
    with pytest.raises(UsageError, match=r"no source|not available, since the decoder reads"):
        model.hook_attention(print).__enter__()
    with pytest.raises(UserError, match=r"prepend_mode|only Transformers"):
        convert(model)
    with pytest.raises(UsageError, match="prepend_mode"):
        UniversalTransformer("universal_transformer_tiny", V, V, prepend_mode=MODE)
