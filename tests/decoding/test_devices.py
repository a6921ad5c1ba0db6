import time

import keras
import pytest
import tensorflow as tf

from support.limits import strategy_over
from support.rounding import assert_close
from support.terms import log_prob_terms
from t2t_lite import registry
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.devices import Replicas, decoding_devices
from t2t_lite.decoding.engine import Source, Target
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.errors import UserError
from t2t_lite.search.decode_hparams import DecodeHParams

DEVICES = ["CPU:0", "CPU:1"]
SEARCH = DecodeHParams(beam_size=2, extra_length=4, batch_size=4)


def make_model():
    keras.utils.set_random_seed(0)
    hparams = registry.hparams("transformer_test").copy(num_hidden_layers=1)
    return registry.model("transformer")(hparams, 12, 12)


@pytest.fixture
def model():
    return make_model()


@pytest.mark.integration
def test_two_devices_find_what_one_does_also_while_a_model_is_trained_on_them():
    strategy = strategy_over(2)
    with strategy.scope():
        model = make_model()
    problem = registry.problem("algorithmic_identity_decimal40")
    encoders = problem.get_feature_encoders("")
    one, two = (
        Decoder(TensorFlowEngine(model, encoders, SEARCH, devices), problem)
        for devices in (DEVICES[:1], strategy.extended.worker_devices)
    )
    sources = one.text.encode(
        [" ".join(str((7 * i + j * j) % 10) for j in range(i % 9)) for i in range(30)]
    )
    results = []
    for factor in (3.0, -1.0):  # the weights may change between calls
        for weight in model.weights:
            weight.assign(factor * weight.value)
        results.append([one.decode(sources), two.decode(sources)])
    for found, again in results:
        assert [[h.ids for h in beams] for beams in found] == [
            [h.ids for h in beams] for beams in again
        ]
        scores = [[h.score for beams in side for h in beams] for side in (found, again)]
        assert_close(*scores, 12 * log_prob_terms(model, 12))  # steps at most: 8 numbers and 4 more
    assert results[0][1] != results[1][1]


@pytest.mark.integration
def test_every_device_has_work_and_computes_by_itself(model):
    replicas = Replicas([model], DEVICES, lambda models: models[0])
    barrier = tf.constant(0)
    seen = set()

    def work(own, batch):
        matrix = own.targets_embedding.matrix.value
        assert (tf.constant(1.0) + 1).device == matrix.device  # here, and the weights are here, too
        seen.add(matrix.device)
        return batch + int(barrier)

    assert sorted(replicas.map(work, range(50))) == [(i, i) for i in range(50)]
    assert {name[-5:] for name in seen} == set(DEVICES)


def test_one_batch_needs_no_copy(model):
    replicas = Replicas([model], DEVICES, lambda models: models[0])
    assert list(replicas.map(lambda own, batch: own is model, [0])) == [(0, True)]
    assert list(replicas.map(lambda own, batch: own is model, [])) == []


def test_the_first_batch_of_each_work_is_alone(model):
    replicas = Replicas([model], DEVICES[:1], lambda models: models[0])
    under_way = []

    def work(name):
        def traced(own, batch):
            under_way.append(batch)
            time.sleep(0.01)
            seen.append((name, len(under_way)))
            under_way.pop()

        return traced

    for name in "ab":
        seen: list[tuple[str, int]] = []
        list(replicas.map(work(name), range(20)))
        assert seen[0] == (name, 1)
        assert max(seen) == (name, 2)


def _score(worker, targets):
    worker.score(targets)


def _search(worker, targets):
    worker.search([targets[0].source], [3])


@pytest.mark.integration
@pytest.mark.parametrize(
    ("other", "is_eager"),
    [(_score, False), (_search, False), (_score, True)],
    ids=["scores", "a search", "eager scores"],
)
def test_batches_see_their_own_attention(model, other, is_eager, request):
    """Also where the first batch needs neither attention nor what another batch is traced for."""
    encoders = registry.problem("algorithmic_identity_decimal40").get_feature_encoders("")
    penalized = SEARCH.copy(coverage_penalty=0.2)
    targets = [Target(Source("", [3] * n + [1]), [4] * n + [1]) for n in range(2, 12)]
    alone = TensorFlowEngine(model, encoders, penalized)
    [(_, wanted)] = alone.map(lambda worker, batch: worker.details(batch), [targets])
    if is_eager:
        request.getfixturevalue("eagerly")
    together = TensorFlowEngine(model, encoders, penalized)
    works = [
        lambda worker: None,
        lambda worker: other(worker, targets),
        *(lambda worker, t=target: worker.details([t]) for target in targets),
    ]
    found = dict(together.map(lambda worker, work: work(worker), works))
    for number, (_, attention) in enumerate(wanted):
        [(_, seen)] = found[2 + number]
        assert_close(seen, attention, log_prob_terms(model, 12), scale=1.0)


@pytest.mark.integration
def test_the_first_failure_ends_all(model):
    replicas = Replicas([model], DEVICES, lambda models: models[0])
    begun = []

    def work(own, batch):
        begun.append(batch)
        time.sleep(0.01)
        raise UserError(f"batch {batch}")

    with pytest.raises(UserError, match="batch"):
        list(replicas.map(work, range(1000)))
    assert len(begun) < 1000


def test_devices_by_number_of_gpus():
    cpus = [device.name for device in tf.config.list_logical_devices("CPU")]
    assert decoding_devices(0) == cpus
    with pytest.raises(UserError, match="--worker_gpu=99, but TensorFlow sees"):
        decoding_devices(99)
