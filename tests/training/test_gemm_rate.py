"""The rate of matrix products, on a predictable clock."""

import math

from t2t_lite import registry
from t2t_lite.training.gemm_rate import gemm_rate

D = 16


def test_the_measured_rate_is_that_of_a_product(monkeypatch):
    """On a clock that advances 0.1 s per call, the rate is the work divided by the ticks."""
    transformer = registry.model("transformer")(
        "transformer_test", 40, 40, hidden_size=D, filter_size=24, num_heads=2, num_hidden_layers=1
    )
    clock = iter(range(1000))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock) / 10)
    expected = 2 * (2 * 8 * D * 3 * D) / 0.1  # one turn; the fused projection [D, 3D] is largest
    assert math.isclose(gemm_rate(transformer, 8, "CPU:0"), expected, rel_tol=1e-9)
