import numpy as np

from t2t_lite.layers.embedding import Embedding


def test_rows_are_scaled_and_padding_is_zero():
    layer = Embedding(7, 16)
    matrix = np.array(layer.matrix)
    rows = np.array(layer(np.array([[3, 0], [6, 1]])))
    np.testing.assert_allclose(rows[0, 0], matrix[3] * 4.0, rtol=1e-6)
    np.testing.assert_array_equal(rows[0, 1], np.zeros(16))
    np.testing.assert_allclose(
        np.array(Embedding(7, 16, scaled=False)(np.array([[2]]))).std(), 0.25, rtol=0.7
    )


def test_logits_are_products_with_the_unscaled_rows():
    layer = Embedding(7, 16)
    hidden = np.random.RandomState(0).normal(size=(2, 3, 16)).astype(np.float32)
    np.testing.assert_allclose(
        hidden @ np.array(layer.transposed()),
        hidden @ np.array(layer.matrix).T,
        rtol=1e-5,
        atol=1e-6,
    )


def test_fresh_rows_are_normal_with_the_inverse_root_of_the_size():
    matrix = np.array(Embedding(4000, 64).matrix)
    assert abs(matrix.mean()) < 1e-3
    np.testing.assert_allclose(matrix.std(), 64**-0.5, rtol=0.01)
    # A normal distribution has 4.6 % of its values beyond two standard deviations.
    np.testing.assert_allclose((np.abs(matrix) > 2 * 64**-0.5).mean(), 0.0455, rtol=0.05)
