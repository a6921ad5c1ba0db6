import functools
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.layers.dense import EXCLUDED, Embedding, GivenLogits, OutputProjection
from t2t_lite.systems.conv_s2s import NormedProjection
from t2t_lite.training import losses
from t2t_lite.training.losses import (
    smoothed_among_possible,
    smoothed_cross_entropy,
    summed_cross_entropy,
)
from t2t_lite.training.objectives import two_passes
from t2t_lite.training.objectives.plain import Plain
from t2t_lite.training.objectives.rdrop import RDrop


def dense_loss(logits: tf.Tensor, targets: tf.Tensor, smoothing: float) -> tf.Tensor:
    """The definition, with the smoothed distribution written out: [N, V], [N] -> [N]."""
    vocab = logits.shape[-1]
    low = smoothing / (vocab - 1)
    labels = tf.one_hot(targets, vocab, on_value=1.0 - smoothing, off_value=low)
    entropy = -tf.reduce_sum(tf.math.xlogy(labels, labels), axis=-1)
    return -tf.reduce_sum(labels * tf.nn.log_softmax(logits), axis=-1) - entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.2, 0.5])
def test_value_and_gradient_are_those_of_the_definition(smoothing):
    rng = np.random.default_rng(0)
    logits = tf.constant(rng.normal(scale=3.0, size=(7, 11)), tf.float32)
    targets = tf.constant(rng.integers(0, 11, 7), tf.int32)
    weights = tf.constant(rng.random(7), tf.float32)
    results = []
    for loss in (smoothed_cross_entropy, dense_loss):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            values = loss(logits, targets, smoothing)
            total = tf.reduce_sum(weights * values)
        results.append((values.numpy(), tape.gradient(total, logits).numpy()))
    # A softmax, and a sum over the ids.
    assert_close(results[0][0], results[1][0], 2 * 11, scale=np.abs(logits).max())
    assert_close(results[0][1], results[1][1], 2 * 11)


def test_a_perfect_model_has_loss_zero():
    vocab, smoothing = 9, 0.1
    probabilities = np.full((1, vocab), smoothing / (vocab - 1), np.float32)
    probabilities[0, 4] = 1.0 - smoothing
    loss = smoothed_cross_entropy(tf.math.log(probabilities), tf.constant([4]), smoothing)
    assert_close(loss, [0.0], 2 * vocab, scale=-np.log(probabilities).min())


def test_extreme_logits_stay_finite():
    logits = tf.constant([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]])
    values = smoothed_cross_entropy(logits, tf.constant([0, 0]), 0.1)
    assert np.isfinite(values.numpy()).all()


def test_no_tokens_give_no_losses():
    assert smoothed_cross_entropy(tf.zeros((0, 5)), tf.zeros(0, tf.int32), 0.1).shape == (0,)


def assert_recorded(logits, targets, smoothing, per_token, total) -> None:
    """Compares the losses of logits [..., V] with T2T's, which are 0 for padding."""
    logits, ids = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1).astype(np.int32)
    losses = smoothed_cross_entropy(tf.constant(logits), tf.constant(ids), smoothing).numpy() * (
        ids != 0
    )
    terms, scale = 2 * logits.shape[-1], np.abs(logits).max()  # a softmax, and a sum over the ids
    assert_close(losses, per_token.reshape(-1), terms, scale=scale)
    assert_close(losses.sum(), float(total), terms + losses.size)


@pytest.mark.parametrize("smoothing", ["0.0", "0.1", "0.2"])
def test_t2t_unit(golden, smoothing):
    units = np.load(golden / "units.npz")
    names = "logits", "labels", f"per_token_{smoothing}", f"num_{smoothing}"
    logits, labels, *recorded = (units[f"label_smoothing/{name}"] for name in names)
    assert_recorded(logits, labels, float(smoothing), *recorded)


@pytest.mark.parametrize("config", ["base_v1", "base_v3", "two_vocabs", "channels"])
@pytest.mark.parametrize("batch", ["a", "b"])
@pytest.mark.parametrize(("smoothing", "name"), [(0.0, "xent"), (0.1, "xent_ls0.1")])
def test_t2t_losses_of_its_logits(golden, config, batch, smoothing, name):
    file = np.load(golden / "transformer" / config / "forward.npz")
    names = "logits", "targets", f"{name}_per_token", f"{name}_num"
    logits, targets, *recorded = (file[f"{batch}/{name}"] for name in names)
    assert_recorded(logits, targets, smoothing, *recorded)


@functools.cache
def compiled_loss(chunk_tokens: int) -> Callable[[np.ndarray, np.ndarray], list[tf.Tensor]]:
    """Returns a loss, and its gradients by features and by a matrix shared with an embedding."""
    embedding = Embedding(11, 6)
    embedding.matrix.assign(np.random.default_rng(1).normal(size=(11, 6)))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 6])])
    def compiled(ids, factor):
        with tf.GradientTape() as tape:
            hidden = factor * embedding(ids[None])[0]
            arguments = OutputProjection(embedding), hidden, ids, 0.1, chunk_tokens
            loss = 2.0 * summed_cross_entropy(*arguments, scale=3.0)
        return [loss, *tape.gradient(loss, [hidden, embedding.matrix.value])]

    return compiled


def loss_and_gradients(chunk_tokens: int, tokens: int) -> list[np.ndarray]:
    """Gradients of hidden features, and of a softmax matrix shared with an embedding."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 11, tokens).astype(np.int32)  # including padding
    factor = rng.normal(size=(tokens, 6)).astype(np.float32)
    found = compiled_loss(chunk_tokens)(ids, factor)
    return [np.asarray(tf.convert_to_tensor(part)) for part in found]


@pytest.mark.integration
@pytest.mark.parametrize("tokens", [0, 14])
def test_chunks_give_value_and_gradients_of_the_whole(tokens):
    whole = loss_and_gradients(0, tokens)
    assert (np.abs(whole[2]).max() > 0.1) == (tokens > 0)
    for chunk_tokens in (1, 5, 100):
        for one, other in zip(whole, loss_and_gradients(chunk_tokens, tokens), strict=True):
            # Features, log-probabilities of ids, a sum over tokens; there and back.
            assert_close(one, other, 2 * (6 + 2 * 11 + tokens))


PASSES = {"plain": Plain, "two": RDrop}


@pytest.mark.parametrize(
    ("vocabulary", "channels", "changes", "gpus", "chunks"),
    [
        (10_000, 128, {}, [], {"plain": 300, "two": 300}),
        (8_000, 128, {}, [], {"plain": 375, "two": 375}),
        (10_000, 128, {"loss_chunk_tokens": 50}, [], {"plain": 50, "two": 50}),
        # All at once, or half a batch where two passes would need more memory: the gradients of
        # wide weights would cost more than the cache saves,
        (32_000, 512, {}, [], {"plain": 0, "two": 2048}),
        # a batch is that short itself,
        (10_000, 128, {"batch_size": 280}, [], {"plain": 0, "two": 140}),
        # XLA keeps most numbers out of memory,
        (10_000, 128, {"xla_compile": True}, [], {"plain": 0, "two": 2048}),
        # or there is no such cache.
        (10_000, 128, {}, ["GPU:0"], {"plain": 0, "two": 2048}),
    ],
)
@pytest.mark.parametrize("passes", PASSES)
def test_chunks_stay_in_the_cache_where_that_pays(
    vocabulary, channels, changes, gpus, chunks, passes, monkeypatch
):
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: gpus)
    monkeypatch.setattr(losses, "summed_cross_entropy", lambda *arguments: arguments[4])
    monkeypatch.setattr(two_passes, "summed_pair_losses", lambda *arguments: (arguments[4], 0))
    hparams = registry.hparams("transformer_base").copy(**changes)
    model = SimpleNamespace(
        hparams=hparams,
        targets_vocab_size=vocabulary,
        output_projection=OutputProjection(Embedding(2, channels)),
    )
    hidden, targets = (
        tf.zeros([2, 2, channels]),
        tf.ones([1 if passes == "two" else 2, 2], tf.int32),
    )
    assert PASSES[passes]().summed_loss(model, hidden, targets).total == chunks[passes]


PROJECTIONS = {
    "bias": lambda embedding: OutputProjection(embedding, use_bias=True),
    "without padding": lambda embedding: OutputProjection(embedding, has_padding=False),
    "normed": lambda embedding: NormedProjection(embedding, weight_norm=True),
    "frozen": OutputProjection,
    "16 bits": lambda embedding: OutputProjection(embedding, dtype="mixed_bfloat16"),
}


@pytest.mark.parametrize(
    "kind",
    [*list(PROJECTIONS)[:-1], pytest.param("16 bits", marks=pytest.mark.bfloat16)],
)
def test_chunks_of_any_projection_are_the_whole(kind, eagerly):
    """Also of its own weights; frozen ones need no gradient."""
    rng = np.random.default_rng(3)
    dtype = "mixed_bfloat16" if kind == "16 bits" else "float32"
    projection = PROJECTIONS[kind](Embedding(11, 6, dtype=dtype))
    for variable in projection.variables:
        variable.assign(rng.normal(size=variable.shape))
    projection.trainable = kind != "frozen"
    hidden = tf.constant(rng.normal(size=(7, 6)), projection.compute_dtype)
    targets = tf.constant([1, 5, 0, 10, 3, 2, 0])

    def of(chunk_tokens):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            loss = summed_cross_entropy(projection, hidden, targets, 0.1, chunk_tokens, scale=3.0)
        weights = [variable.value for variable in projection.trainable_variables]
        gradients = tape.gradient(loss, [hidden, *weights])
        return [tf.cast(part, tf.float32) for part in (loss, *gradients)]

    whole = of(0)
    assert len(whole) == 2 + len(projection.trainable_variables)
    for one, other in zip(whole, of(3), strict=True):
        assert np.abs(one).max() > 0.01
        # Features, log-probabilities of ids, a sum over tokens; there and back.
        assert_close(one, other, 2 * (6 + 2 * 11 + 7), dtype=projection.compute_dtype)


# ---- logits that exclude ids


def excluding_logits() -> np.ndarray:
    """[4, 6]: ids 0 and 1 excluded, twice; nothing excluded; all but EOS excluded."""
    logits = np.random.default_rng(4).normal(scale=2.0, size=(4, 6)).astype(np.float32)
    logits[:2, :2] = EXCLUDED
    logits[3] = [EXCLUDED, 0.0, *[EXCLUDED] * 4]
    return logits


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_excluded_ids_get_no_share_of_the_smoothing(smoothing):
    logits, targets = excluding_logits(), np.array([2, 5, 0, 1], np.int32)
    given = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(given)
        found = smoothed_among_possible(given, tf.constant(targets), smoothing)
    gradients = tape.gradient(found, given).numpy()
    for rows, first in ((slice(0, 2), 2), (slice(2, 3), 0)):
        possible = tf.constant(logits[rows, first:])
        with tf.GradientTape() as tape:
            tape.watch(possible)
            wanted = smoothed_cross_entropy(possible, targets[rows] - first, smoothing)
        assert_close(found[rows], wanted, 2 * 6)
        assert_close(gradients[rows, first:], tape.gradient(wanted, possible), 2 * 6)
        assert not gradients[rows, :first].any()
    assert found[3] == 0.0
    assert not gradients[3].any()


@pytest.mark.parametrize("chunk_tokens", [0, 3])
def test_given_logits_are_summed(chunk_tokens):
    logits, targets = tf.constant(excluding_logits()), tf.constant([2, 0, 3, 1])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total = summed_cross_entropy(GivenLogits(), logits, targets, 0.1, chunk_tokens)
    each = smoothed_among_possible(logits, targets, 0.1).numpy()
    assert_close(total, each[0] + each[2] + each[3], 2 * 6 + 4)
    gradient = tape.gradient(total, logits).numpy()
    assert gradient[[0, 2]].any()
    assert not gradient[[1, 3]].any()
