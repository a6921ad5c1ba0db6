"""Every optimizer: compared with its formula, and through a checkpoint."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from support.limits import strategy_over
from support.rounding import assert_close, relative_bound
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams import basic
from t2t_lite.training import _private_api
from t2t_lite.training.optimizers import LossScale, make_optimizer

RATE, DECAY = 0.01, 0.3
B1, B2, EPSILON, MOMENTUM = 0.9, 0.98, 1e-4, 0.8
SETTINGS = (
    f"learning_rate_schedule=constant,learning_rate_constant={RATE},"
    f"optimizer_adam_beta1={B1},optimizer_adam_beta2={B2},optimizer_adam_epsilon={EPSILON},"
    f"optimizer_momentum_momentum={MOMENTUM}"
)


def hparams_of(case, changes=""):
    settings = [SETTINGS, f"optimizer={case.split()[0]}", OPTIMIZERS[case][0], changes]
    return registry.hparams("transformer_test").override(",".join(filter(None, settings)))


def draws(seed, count):
    """That many pairs of a matrix and a vector."""
    draw = np.random.default_rng(seed)
    sizes = (4, 6), (5,)
    return [[draw.normal(size=size).astype(np.float32) for size in sizes] for _ in range(count)]


# Of one update of Adam: two moments of three operations each, seven for the step.
_ROUNDINGS = 13
WEIGHTS = draws(0, 1)[0]
GRADIENTS = draws(1, 4)


class Training:
    """Weights and their optimizer, updated as the training step does it."""

    def __init__(self, hparams):
        self.weights = [tf.Variable(weight) for weight in WEIGHTS]
        self.optimizer = make_optimizer(hparams)
        self.optimizer.build(self.weights)
        self.checkpoint = tf.train.Checkpoint(weights=self.weights, optimizer=self.optimizer)

    def take(self, gradients):
        for pair in gradients:
            self.optimizer.apply([*map(tf.constant, pair)], self.weights)
        return [weight.numpy() for weight in self.weights]


def by_adam(weight, gradients, decay=0.0):
    mean = square = np.zeros_like(weight)
    for step, gradient in enumerate(gradients, start=1):
        mean = B1 * mean + (1 - B1) * gradient
        square = B2 * square + (1 - B2) * gradient**2
        rate = RATE * (1 - B2**step) ** 0.5 / (1 - B1**step)
        weight = weight - RATE * decay * weight - rate * mean / (square**0.5 + EPSILON)
    return weight


def by_adafactor(weight, gradients):
    """Algorithms 4 and 5 of Shazeer and Stern (2018), relative steps by the rate given."""

    def rms(x):
        return np.mean(x**2) ** 0.5

    whole, rows, columns = np.zeros_like(weight), 0.0, 0.0
    for step, gradient in enumerate(gradients, start=1):
        kept = 1 - step**-0.8
        if weight.ndim == 2:
            rows = kept * rows + (1 - kept) * (gradient**2).sum(1)
            columns = kept * columns + (1 - kept) * (gradient**2).sum(0)
            whole = np.outer(rows, columns) / rows.sum()
        else:
            whole = kept * whole + (1 - kept) * gradient**2
        update = gradient / whole**0.5
        weight = weight - RATE * max(1e-3, rms(weight)) * update / max(1.0, rms(update))
    return weight


def by_momentum(weight, gradients, nesterov=False):
    """TensorFlow 1's optimizer, which T2T uses."""
    total = np.zeros_like(weight)
    for gradient in gradients:
        total = MOMENTUM * total + gradient
        weight = weight - RATE * (gradient + MOMENTUM * total if nesterov else total)
    return weight


def by_adagrad(weight, gradients):
    """As in TensorFlow 1, whose constants T2T keeps; so the two below."""
    total = np.full_like(weight, 0.1)
    for gradient in gradients:
        total = total + gradient**2
        weight = weight - RATE * gradient / total**0.5
    return weight


def by_rms_prop(weight, gradients):
    square = np.ones_like(weight)
    for gradient in gradients:
        square = 0.9 * square + 0.1 * gradient**2
        weight = weight - RATE * gradient / (square + 1e-10) ** 0.5
    return weight


def by_ftrl(weight, gradients):
    """Without regularization."""
    total, linear = np.full_like(weight, 0.1), np.zeros_like(weight)
    for gradient in gradients:
        before, total = total, total + gradient**2
        linear = linear + gradient - (total**0.5 - before**0.5) / RATE * weight
        weight = -linear * RATE / total**0.5
    return weight


# Settings and formula of each.
OPTIMIZERS = {
    "adam": ("", by_adam),
    "true_adam": ("", by_adam),
    "multistep_adam": ("optimizer_multistep_accumulate_steps=4", by_adam),
    "adam_w": (f"weight_decay={DECAY}", functools.partial(by_adam, decay=DECAY)),
    "adafactor": ("", by_adafactor),
    "momentum": ("", by_momentum),
    "momentum nesterov": (
        "optimizer_momentum_nesterov=true",
        functools.partial(by_momentum, nesterov=True),
    ),
    "sgd": ("", lambda weight, gradients: weight - RATE * sum(gradients)),
    "adagrad": ("", by_adagrad),
    "ftrl": ("", by_ftrl),
    "rms_prop": ("", by_rms_prop),
}


@pytest.mark.parametrize("case", OPTIMIZERS)
def test_updates_are_those_of_the_formula(case):
    found = Training(hparams_of(case)).take(GRADIENTS)
    for index, weight in enumerate(WEIGHTS):
        expected = OPTIMIZERS[case][1](weight, [pair[index] for pair in GRADIENTS])
        # An update takes a dozen operations, and Adafactor's means over the weight.
        assert_close(found[index], expected, len(GRADIENTS) * (12 + weight.size))


def test_adam_in_a_trace_updates_every_device_and_type():
    strategy = strategy_over(2)
    values = [*WEIGHTS, WEIGHTS[1].astype(np.float64)]
    with strategy.scope():
        weights = [tf.Variable(value) for value in values]
        optimizer = make_optimizer(hparams_of("adam"))
        optimizer.build(weights)

    @tf.function
    def update(gradients, learn):
        if learn:
            optimizer.apply(gradients, weights)

    gradients = [[*pair, pair[1].astype(np.float64)] for pair in GRADIENTS]
    for ones in gradients:
        for learn in (False, True):
            update([tf.constant(one) for one in ones], tf.constant(learn))
    for index, weight in enumerate(weights):
        wanted = by_adam(values[index], [ones[index] for ones in gradients])
        terms = len(GRADIENTS) * _ROUNDINGS
        for copy in strategy.experimental_local_results(weight):
            assert_close(copy, wanted, terms)


def test_without_its_kernel_adam_is_keras_adam(monkeypatch):
    """A release of Keras may keep the moments elsewhere."""
    fused = Training(hparams_of("adam_w")).take(GRADIENTS)
    monkeypatch.setattr(_private_api, "_NAMES", ("of_another_release",))
    found = Training(hparams_of("adam_w")).take(GRADIENTS)
    for one, other in zip(found, fused, strict=True):
        assert_close(one, other, terms=len(GRADIENTS) * _ROUNDINGS)


@pytest.mark.parametrize("case", OPTIMIZERS)
def test_resuming_from_a_checkpoint_is_exact(case, tmp_path):
    """With a changing rate, so that the count of updates matters as well."""
    rates = "learning_rate_warmup_steps=10,learning_rate_minimum=1e-5"
    hparams = hparams_of(case, rates).copy(learning_rate_schedule="constant*linear_warmup")
    first = Training(hparams)
    first.take(GRADIENTS[:2])
    path = first.checkpoint.write(str(tmp_path / "checkpoint"))
    second = Training(hparams)
    second.checkpoint.read(path).assert_existing_objects_matched().assert_consumed()
    assert all(map(np.array_equal, second.take(GRADIENTS[2:]), first.take(GRADIENTS[2:])))


def test_adafactor_never_exceeds_one_over_the_root_of_the_step():
    """The documented limit of the rate."""
    hparams = hparams_of("adafactor").copy(learning_rate_constant=7.0)
    training = Training(hparams)
    before = WEIGHTS[0]
    for step, gradient in enumerate(GRADIENTS, start=1):
        matrix, _ = training.take([gradient])
        moved = np.sqrt(np.mean((matrix - before) ** 2))
        limit = np.sqrt(np.mean(before**2)) / step**0.5
        # The float32 means over the weight are rounded.
        assert 0.5 * limit < moved <= limit * (1 + relative_bound(12 + matrix.size))
        before = np.array(matrix)


def test_unknown_optimizer_names_the_nearest():
    with pytest.raises(UsageError, match=r"optimizer=adamw: expected adam, .*'adam_w'\?"):
        registry.hparams("transformer_base").copy(optimizer="adamw")


@pytest.mark.parametrize(
    ("old", "name"),
    [
        ("AdamW", "adam_w"),
        ("MultistepAdam", "multistep_adam"),
        ("SGD", "sgd"),
        ("RMSProp", "rms_prop"),
        ("Adagrad", "adagrad"),
        ("Ftrl", "ftrl"),
    ],
)
def test_old_names_of_optimizers_hold_on_the_command_line_and_in_files(old, name, caplog):
    basic._warn_of_optimizer.cache_clear()
    hparams = registry.hparams("transformer_tiny").override(f"optimizer={old},batch_size=99")
    assert (hparams.optimizer, hparams.batch_size) == (name, 99)
    assert f"hparam optimizer={old}: an old name; write {name}" in caplog.text
    assert type(hparams).from_dict({**hparams.to_dict(), "optimizer": old}) == hparams
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("optimizer", "group"),
    [
        ("true_adam", "adam"),
        ("adam_w", "adam"),
        ("adafactor", "adafactor"),
        ("momentum", "momentum"),
        ("sgd", "none"),
        ("rms_prop", "none"),
    ],
)
def test_an_optimizer_reads_no_hparams_of_others(optimizer, group):
    hparams = registry.hparams("transformer_base").copy(optimizer=optimizer)
    hparams.note_reads()
    make_optimizer(hparams)
    groups = "adam", "adafactor", "momentum"
    names = {g: [n for n in hparams.names() if n.startswith(f"optimizer_{g}_")] for g in groups}
    for other in groups:
        assert hparams.unread(names[other]) == (names[other] if other != group else [])


def test_weight_decay_without_an_optimizer_that_takes_it_is_refused():
    hparams = registry.hparams("transformer_base").copy(weight_decay=0.1)
    with pytest.raises(
        UsageError, match="optimizer=adam does not support it; set optimizer=adam_w"
    ):
        make_optimizer(hparams)


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ("learning_rate_schedule=constant*linear_warmup", 0),
        ("learning_rate_schedule=constant*single_cycle_cos_decay", 3000),
        ("learning_rate_schedule=constant*multi_cycle_cos_decay", 3000),
        ("learning_rate_schedule=constant*cosdecay", 2000),
        ("learning_rate_schedule=legacy,learning_rate_decay_scheme=cosine", 7000),
    ],
)
def test_a_rate_of_0_is_refused_for_the_optimizer_that_divides_by_it(changes, step):
    hparams = registry.hparams("transformer_base").override(
        "optimizer=ftrl,learning_rate_warmup_steps=1000,learning_rate_decay_steps=2000,"
        f"learning_rate_cosine_cycle_steps=7000,{changes}"
    )
    with pytest.raises(UsageError, match=f"after {step} updates the rate is 0, and optimizer=ftrl"):
        make_optimizer(hparams)
    make_optimizer(hparams.copy(learning_rate_schedule="constant"))
    make_optimizer(hparams.copy(learning_rate_minimum=1e-6))


# T2T counts micro-batches, in units of n, and changes the weights at every n-th of them.
@pytest.mark.parametrize(
    ("optimizer", "steps", "expected"),
    [
        ("multistep_adam", 4, [0.75, 1.75, 2.75, 3.75]),
        ("multistep_adam", 2, [0.5, 1.5, 2.5, 3.5]),
        ("multistep_adam", 1, [0, 1, 2, 3]),
        ("multistep_adam", 0, [0, 1, 2, 3]),
        ("adam", 4, [0, 1, 2, 3]),
    ],
)
def test_the_schedule_sees_the_last_micro_batch_of_an_update(optimizer, steps, expected):
    """With a rate of a tenth of the step, and a gradient for which Adam's update is the rate."""
    hparams = registry.hparams("transformer_test").override(
        "learning_rate_schedule=constant*linear_warmup,learning_rate_constant=10,"
        "learning_rate_warmup_steps=100,optimizer_adam_epsilon=1e-12,"
        "optimizer_adam_beta1=0.5,optimizer_adam_beta2=0.5,"  # powers without rounding
        f"optimizer={optimizer},optimizer_multistep_accumulate_steps={steps}"
    )
    weight = tf.Variable(0.0)
    made = make_optimizer(hparams)
    made.build([weight])
    weights = [0.0]
    for _ in expected:
        made.apply([tf.constant(1.0)], [weight])
        weights.append(float(weight))
    # An update takes a dozen operations.
    terms = 12 * len(expected)
    assert_close(-np.diff(weights), np.divide(expected, 10), terms, scale=max(np.abs(weights)))


def test_overflow_halves_down_to_the_lowest_and_patience_doubles():
    scale = LossScale(tokens=64)
    assert float(scale.value) == 2.0**15 / 64
    scale.update(tf.constant(False))
    assert float(scale.value) == 2.0**14 / 64
    scale._steps.assign(1998)
    for expected in (2.0**14, 2.0**15, 2.0**15):  # the 2,000th step doubles and resets the count
        scale.update(tf.constant(True))
        assert float(scale.value) == expected / 64
    scale._steps.assign_add(1998)  # with the last of those three, 1,999 since it doubled
    scale.update(tf.constant(True))
    assert float(scale.value) == 2.0**16 / 64
    for _ in range(15):
        scale.update(tf.constant(False))
    assert not scale.at_its_lowest
    scale.update(tf.constant(False))
    assert scale.at_its_lowest
    scale.update(tf.constant(False))
    assert float(scale.value) == 1 / 64
