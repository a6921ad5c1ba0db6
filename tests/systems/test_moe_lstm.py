"""The size of LSTMs with experts, and the operations that they take."""

import pytest

from support.model_kinds import without_values

V = 32000


def published(hparams_set="moe_lstm_32", **changes):
    return without_values("moe_lstm", hparams_set, V, V, **changes)


@pytest.fixture(scope="module")
def model():
    return published()


@pytest.mark.integration
def test_operations_are_those_of_the_paper(model):
    """85 million multiplications a step (table 2), of the encoder, the decoder and the softmax.

    Five LSTMs, (1,024 × 8,192 + 2,048 × 512) each: 47.2 million; the context of one: 4.2; four
    experts of 2 × 512 × 2,048 on either side: 16.8; attention: 0.5; softmax: 16.4. The same way of
    counting gives 215 for GNMT, where the table has 214.
    """
    flops = model.forward_flops()
    assert (flops.source + flops.target) / 2 == pytest.approx(85e6, rel=0.01)


@pytest.mark.integration
def test_2048_experts_have_8_7_billion_parameters(model):
    """Table 2: 2 × 2,048 × 2.1 million of experts, 51.4 of LSTMs, 32.8 of embeddings and softmax.

    The paper's hierarchy of gates has about as many weights as one gate: 2 × 512 × (E + groups).
    The sizes with 32 and 512 experts are not published.
    """
    largest = published("moe_lstm_2048").count_params()
    assert largest == pytest.approx(8.7e9, rel=0.01)
    smallest, middle = model.count_params(), published(moe_num_experts=512).count_params()
    assert (smallest, middle) == (218_997_248, 2_233_246_208)
    assert largest - smallest == 2 * (2048 - 32) * (2 * 2048 * 512 + 2 * 512)
