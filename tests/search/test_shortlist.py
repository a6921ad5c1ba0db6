"""Searches with a short list: the same as over the whole vocabulary without the other ids."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.constraints import MinLength, NoRepeatedNgrams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.penalties import Penalty
from t2t_lite.search.sampling import RandomSearch
from t2t_lite.text.alignment.shortlist import Shortlist

SOURCES, TARGETS = 9, 40
ALWAYS = [3, 4]
# Of each source id, ids that no other has; of the last, none.
TRANSLATIONS = np.array([[0, 0, 0, 0], [0, 0, 0, 0], *np.arange(5, 29).reshape(6, 4), [0] * 4])
INPUTS = np.array([[2, 3, 1, 0], [4, 1, 0, 0], [8, 1, 0, 0], [5, 6, 7, 1]])
NO_PREFIX = np.zeros([1, 0], np.int32)


def make_model(name="transformer", seed=2, **changes):
    keras.utils.set_random_seed(seed)
    hparams_set = {"transformer": "transformer_test", "gnmt": "gnmt_tiny"}.get(name)
    hparams = registry.hparams(hparams_set or registry.model(name).default_set)
    hparams = hparams.copy(num_hidden_layers=1, **changes)
    model = registry.model(name)(hparams, SOURCES, TARGETS)
    model({"inputs": INPUTS, "targets": INPUTS})
    matrix = model.softmax_embedding.matrix.numpy() * 2
    matrix[1] = 0  # outputs do not end at once
    model.softmax_embedding.matrix.assign(matrix)
    return model


def make_list():
    return Shortlist(ALWAYS, TRANSLATIONS, TARGETS)


def permitted(source):
    """The ids that outputs of a source may have."""
    return {1, *ALWAYS, *TRANSLATIONS[[i for i in source if i]].ravel().tolist()} - {0}


def used(ids):
    """The ids that outputs have."""
    return set(np.ravel(ids).tolist()) - {0}


class Masked:
    """A model whose softmax is over the permitted ids alone, computed the slow way."""

    def __init__(self, model):
        self._model = model

    def start_decoding(self, inputs, beams, length):
        state = self._model.start_decoding(inputs, beams, length)
        allowed = [
            [id_ in permitted(row) for id_ in range(TARGETS)] for row in np.asarray(inputs).tolist()
        ]
        return state._replace(sentence=(state.sentence, tf.constant(allowed)))

    def grow(self, state, length):
        inner = self._model.grow(state._replace(sentence=state.sentence[0]), length)
        return inner._replace(sentence=(inner.sentence, state.sentence[1]))

    def decode_step(self, ids, step, state):
        inner = state._replace(sentence=state.sentence[0])
        logits, after = self._model.decode_step(ids, step, inner)
        logits = tf.where(state.sentence[1][:, None], logits, -1e9)
        return logits, after._replace(sentence=state.sentence)


SEARCHES = {
    "greedy": lambda model, **more: greedy_search(model, **more),
    "beam": lambda model, **more: BeamSearch(model, 3, Penalty(alpha=0.6), **more),
    "constrained": lambda model, **more: BeamSearch(
        model, 2, constraints=[MinLength(3), NoRepeatedNgrams(1)], **more
    ),
}


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["beam", "constrained"])
@pytest.mark.usefixtures("eager_searches")
def test_the_list_is_the_vocabulary(kind):
    model = make_model()
    found = SEARCHES[kind](model, shortlist=make_list())(INPUTS, 8)
    for i, source in enumerate(INPUTS.tolist()):
        assert used(found.ids[i]) <= permitted(source)
    assert len({tuple(ids[0]) for ids in found.ids.tolist()}) == len(INPUTS)
    with tf.init_scope():
        ids, scores = _eager(SEARCHES[kind](Masked(model)), INPUTS)
    assert found.ids.tolist() == ids.tolist()
    assert_close(found.scores, scores, terms=8 * TARGETS)


def _eager(search, inputs):
    """Searches without tracing, since `Masked` reads the inputs."""
    limits = tf.fill([len(inputs)], 8)
    found = search.in_graph(tf.constant(inputs, tf.int32), limits)
    ids = np.zeros([*found.ids.shape[:2], 8], np.int32)
    ids[:, :, : found.ids.shape[2]] = found.ids
    return ids, found.scores.numpy()


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["greedy", "constrained"])
def test_outputs_do_not_depend_on_the_batch(kind):
    search = SEARCHES[kind](make_model(), shortlist=make_list())
    whole = search(INPUTS, 8)
    for i, source in enumerate(INPUTS):
        alone = search(source[None, source > 0], 8)
        assert alone.ids[0].tolist() == whole.ids[i].tolist()
        assert_close(alone.scores[0], whole.scores[i], terms=8 * TARGETS)


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_a_list_of_all_ids_changes_nothing():
    model = make_model(softmax_padding=False)
    every = Shortlist(range(TARGETS), TRANSLATIONS, TARGETS)
    found = BeamSearch(model, 4, shortlist=every)(INPUTS, 9)
    expected = BeamSearch(model, 4)(INPUTS, 9)
    np.testing.assert_array_equal(found.ids, expected.ids)
    assert_close(found.scores, expected.scores, terms=9 * TARGETS)


@pytest.mark.integration
def test_samples_are_of_the_list():
    search = RandomSearch(make_model(), 20, seed=3, shortlist=make_list())
    found = search(INPUTS, 8)
    for i, source in enumerate(INPUTS.tolist()):
        assert used(found.ids[i]) <= permitted(source)
        alone = search(INPUTS[i : i + 1], 8, numbers=np.array([i]))
        assert alone.ids[0].tolist() == found.ids[i].tolist()


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_a_prefix_need_not_be_of_the_list():
    search = BeamSearch(make_model(), 2, shortlist=make_list())
    prefixes = np.array([[35, 30], [30, 0], [0, 0], [5, 0]])
    found = search(INPUTS, 8, prefixes)
    for ids, prefix, source in zip(found.ids, prefixes.tolist(), INPUTS.tolist(), strict=True):
        prefix = [i for i in prefix if i]
        best = ids[0].tolist()
        assert best[: len(prefix)] == prefix
        assert used(best[len(prefix) :]) <= permitted(source)
    assert (found.scores[:, 0] > -1e3).all()


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_what_a_model_never_outputs_is_not_in_the_list():
    never = {4, 16, 21}
    for suppressed, expected in (("", never), ("4+16+21", set())):
        model = make_model(suppressed_ids=suppressed, softmax_padding=False)
        found = BeamSearch(model, 4, shortlist=make_list())(INPUTS, 8)
        assert used(found.ids) & never == expected


@pytest.mark.slow
def test_an_ensemble_decodes_with_a_list():
    models = [make_model(seed=seed) for seed in (1, 2)]
    found = BeamSearch(Ensemble(models), 3, shortlist=make_list())(INPUTS, 8)
    for i, source in enumerate(INPUTS.tolist()):
        assert used(found.ids[i]) <= permitted(source)
    twice = BeamSearch(Ensemble([models[0]] * 2), 3, shortlist=make_list())(INPUTS, 8)
    once = BeamSearch(models[0], 3, shortlist=make_list())(INPUTS, 8)
    np.testing.assert_array_equal(twice.ids, once.ids)


@pytest.mark.slow
def test_xla_changes_nothing():
    model = make_model(seed=4)
    found = BeamSearch(model, 3, shortlist=make_list(), xla_compile=True)(INPUTS, 8)
    expected = BeamSearch(model, 3, shortlist=make_list())(INPUTS, 8)
    np.testing.assert_array_equal(found.ids, expected.ids)


@pytest.mark.integration
@pytest.mark.bfloat16
@pytest.mark.usefixtures("eager_searches")
def test_bfloat16_decodes_with_a_list():
    found = greedy_search(make_model(dtype="bfloat16"), shortlist=make_list())(INPUTS, 8)
    assert used(found.ids[0]) <= permitted(INPUTS[0].tolist())


def test_a_model_without_a_narrow_softmax_is_refused():
    model = registry.model("neural_gpu")(
        registry.hparams("neural_gpu").copy(hidden_size=16), SOURCES, TARGETS
    )
    with pytest.raises(UsageError, match="NeuralGPU cannot decode with a short list"):
        BeamSearch(model, 2, shortlist=make_list())
