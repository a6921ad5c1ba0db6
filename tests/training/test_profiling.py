"""The profiler records ten updates after the first ten, or what there is of them."""

import pytest
import tensorflow as tf

from t2t_lite.training.profiling import Profiler


@pytest.fixture
def calls(monkeypatch) -> list[str]:
    """Names of the functions of TensorFlow's profiler that were called."""
    found: list[str] = []
    for name in ("start", "stop"):
        monkeypatch.setattr(
            tf.profiler.experimental, name, lambda *args, name=name: found.append(name)
        )
    return found


@pytest.mark.parametrize(
    ("updates", "expected"), [(10, []), (11, ["start"]), (20, ["start"]), (21, ["start", "stop"])]
)
def test_a_training_that_resumes_skips_ten_updates_as_well(
    tmp_path, calls, updates, expected, caplog
):
    with Profiler(tmp_path, first=500, is_wanted=True) as profiler:
        for step in range(500, 500 + updates):
            profiler.before(step)
        assert calls == expected
    assert calls == ["start", "stop"][: 2 * bool(expected)], "an early end keeps what there is"
    nothing = "profile: nothing was recorded: that begins after 10 updates"
    assert caplog.messages == [nothing] * (not expected)


def test_it_is_recorded_only_if_wanted(tmp_path, calls, caplog):
    with Profiler(tmp_path, first=0, is_wanted=False) as profiler:
        for step in range(-1, 30):
            profiler.before(step)
    assert not calls
    assert not caplog.messages


def test_tensorboard_finds_the_recording(tmp_path):
    with Profiler(tmp_path, first=0, is_wanted=True) as profiler:
        for step in range(21):
            profiler.before(step)
            tf.constant([1.0]) + step
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))
