import numpy as np

from t2t_lite.layers.dense import Embedding


def test_rows_are_scaled_and_padding_is_zero():
    layer = Embedding(7, 16)
    matrix = np.array(layer.matrix)
    rows = np.array(layer(np.array([[3, 0], [6, 1]])))
    np.testing.assert_array_equal(rows[0, 0], matrix[3] * 4.0)  # a power of 2
    np.testing.assert_array_equal(rows[0, 1], np.zeros(16))
    plain = Embedding(7, 16, scaled=False)
    np.testing.assert_array_equal(plain(np.array([[2]]))[0, 0], np.array(plain.matrix)[2])


def test_logits_are_products_with_the_unscaled_rows():
    layer = Embedding(7, 16)
    np.testing.assert_array_equal(layer.transposed(), np.array(layer.matrix).T)


def test_fresh_rows_are_normal_with_the_inverse_root_of_the_size():
    matrix = np.array(Embedding(4000, 64).matrix)
    # Five standard errors of each.
    assert abs(matrix.mean()) < 5 * 64**-0.5 / matrix.size**0.5
    np.testing.assert_allclose(matrix.std(), 64**-0.5, rtol=5 / (2 * matrix.size) ** 0.5)
    # A normal distribution has 4.6 % of its values beyond two standard deviations.
    np.testing.assert_allclose(
        (np.abs(matrix) > 2 * 64**-0.5).mean(), 0.0455, atol=5 * (0.0455 / matrix.size) ** 0.5
    )
