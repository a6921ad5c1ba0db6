import tensorflow as tf

from t2t_lite.training.loss_scale import LossScale


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
