"""Table 1's layers against NumPy, what waits for what in them, and fits that are known."""

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close, relative_bound
from t2t_lite.study.paper.table1 import (
    Measurement,
    exponent,
    measure,
    plots,
    sequential_operations,
    table,
)
from t2t_lite.study.paper.table1_layers import LAYERS, restricted, self_attention

B, D = 2, 4


def batch(length: int) -> tf.Tensor:
    return tf.random.stateless_normal((B, length, D), (1, 2))


def attention(x: np.ndarray, seen: np.ndarray) -> np.ndarray:
    scores = np.where(seen, x @ x.transpose(0, 2, 1) * D**-0.5, -np.inf)
    weights = np.exp(scores)
    return weights / weights.sum(axis=-1, keepdims=True) @ x


def attention_terms(length: int) -> int:
    """A product over D features, a softmax and a mean over the positions."""
    return D + 2 * length


def changed_positions(layer, length: int, position: int, terms: int) -> list[int]:
    """The positions of a layer's output that change with the input at one."""
    x = batch(length).numpy()
    changed = x.copy()
    changed[:, position] += 1.0
    before, after = (layer(tf.constant(one)).numpy() for one in (x, changed))
    differs = np.abs(after - before).max(axis=(0, 2))
    return np.flatnonzero(differs > np.abs(before).max() * relative_bound(2 * terms)).tolist()


def test_self_attention_is_equation_1():
    x = batch(7)
    wanted = attention(x.numpy(), np.ones((7, 7), bool))
    assert_close(self_attention(D)(x), wanted, terms=attention_terms(7))


@pytest.mark.parametrize(("length", "neighborhood"), [(7, 3), (9, 3), (10, 5), (2, 5), (6, 4)])
def test_restricted_attention_in_blocks_is_that_under_a_band(length, neighborhood):
    x = batch(length)
    positions = np.arange(length)
    before = positions[:, None] - positions
    band = (before <= neighborhood // 2) & (-before <= (neighborhood - 1) // 2)
    wanted = attention(x.numpy(), band)
    assert_close(restricted(D, neighborhood)(x), wanted, terms=attention_terms(length))


@pytest.mark.parametrize("name", ["convolutional", "separable"])
def test_convolutions_see_the_positions_beside(name):
    assert changed_positions(LAYERS[name](D), 9, 4, terms=3 * D) == [3, 4, 5]


def test_recurrence_carries_the_past_on():
    assert changed_positions(LAYERS["recurrent"](D), 6, 2, terms=6 * 2 * D) == [2, 3, 4, 5]


@pytest.mark.parametrize("name", LAYERS)
def test_only_recurrence_waits_longer_in_longer_sequences(name):
    short, long = (sequential_operations(LAYERS[name](D), n, D) for n in (5, 50))
    assert long - short == (3 * 45 if name == "recurrent" else 0)  # product, sum, tanh


def test_attention_waits_for_four_operations():
    """Product, scale, softmax, product."""
    assert sequential_operations(self_attention(D), 5, D) == 4


def test_exponents_of_known_powers():
    sizes = [256, 512, 1024]
    values = [3e-9 * n**2 for n in sizes]
    # A line through logarithms, the largest of which is that of the least value.
    scale = -math.log(values[0])
    assert_close(exponent(sizes, values), 2.0, len(sizes), dtype="float64", scale=scale)


def synthetic() -> list[Measurement]:
    """n^1.5 d^0.5 seconds, n d megabytes, of every layer."""
    points = [("n", n, 64) for n in (128, 256)] + [("d", 128, d) for d in (64, 128)]
    return [
        Measurement(name, axis, n, d, n**1.5 * d**0.5, n * d)
        for name in LAYERS
        for axis, n, d in points
    ]


def test_the_table_sets_fits_beside_the_published_orders():
    shown = table(synthetic())
    columns = [column.name for column in shown.columns]
    assert len(shown.rows) == len(LAYERS)
    by_name = dict(zip(columns, shown.rows[0], strict=True))
    assert (by_name["order in n"], by_name["order in d"]) == (2, 1)
    for column, wanted in {"time ∝ n^": 1.5, "time ∝ d^": 0.5, "memory ∝ n^": 1.0}.items():
        # Of two points, the logarithms of which are below 10.
        assert_close(by_name[column], wanted, terms=2, dtype="float64", scale=10.0)
    assert shown.rows[1][4] == "3n - 1"


def test_plots_are_logarithmic_and_name_their_curves():
    drawn = plots(synthetic())
    assert sorted(drawn) == [
        f"table1_{what}_{axis}.svg" for what in ("megabytes", "seconds") for axis in "dn"
    ]
    image = ET.fromstring(drawn["table1_seconds_n.svg"])
    texts = [element.text for element in image.iter() if element.text]
    assert "Recurrent" in texts
    value = math.log10(128**1.5 * 64**0.5)
    assert f"Recurrent, log₂ n 7: log₁₀ s of a layer's forward pass {value:.5g}" in texts


def test_a_measurement_has_time_and_memory():
    found = measure("self_attention", "n", 512, 16)
    assert (found.size, found.width) == (512, 16)
    assert found.seconds > 0
    # Scores, scaled scores and weights of 8 sequences are 8 MiB each, the result is 1/4 MiB.
    assert found.megabytes == 3 * 8 + 0.25


def test_copies_take_memory_too():
    # Of 16 features in 8 sequences: 66 padded positions, 64 for each of 3 slices, 3 products, their
    # sum and the result; and 3 slices of the kernel.
    values = 8 * 16 * (66 + 8 * 64) + 3 * 16
    assert measure("separable", "n", 64, 16).megabytes == 4 * values / 2**20
