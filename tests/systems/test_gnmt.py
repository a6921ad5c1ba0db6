"""GNMT's forms, and its size; its numbers stand in test_recurrent_golden.py."""

import numpy as np
import pytest
from keras import ops

from support.model_kinds import assert_steps_are_the_whole, make_model, without_values


@pytest.mark.integration
def test_size_is_that_of_mlperf():
    assert without_values("gnmt", "gnmt_mlperf", 32320, 32320).count_params() == 160_671_297


@pytest.mark.integration
def test_size_is_that_of_the_paper():
    """278 million in Shazeer et al. 2017, table 2, for an unknown vocabulary of about 32,000.

    The count takes 2 embeddings and a softmax: 32,000 × 1,024 × 3 = 98.3 million. 17 LSTMs with
    1,024 (2 encoder directions and 6 encoder layers), 2,048 (1 encoder and 8 decoder layers)
    inputs: (8 × 2,048 + 9 × 3,072) × 4,096 + 17 × 4,096 = 180.4 million. Attention: 2.1 million.
    """
    count = without_values("gnmt", "gnmt_wu2016", 32000, 32000).count_params()
    assert count == pytest.approx(281e6, rel=0.01)


def context_seen(model, features, step):
    """How far logits of a step depend on the context of the step before."""
    state = model.start_decoding(features["inputs"], 1, 3)
    ids, step = np.full((3, 1), 5, np.int32), ops.convert_to_tensor(step)
    logits, after = model.decode_step(ids, step, state)
    other = state.hypothesis._replace(context=state.hypothesis.context + 1.0)
    changed, _ = model.decode_step(ids, step, state._replace(hypothesis=other))
    assert np.abs(after.hypothesis.context - state.hypothesis.context).max() > 1e-2
    return float(np.abs(logits - changed).max())


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["gnmt", "gnmt_v2"])
@pytest.mark.parametrize("input_feeding", [True, False])
def test_the_context_of_the_step_before(kind, input_feeding, features):
    """Gnmt's upper layers read it; those of gnmt_v2 do not, but the first one may."""
    model = make_model(kind, input_feeding=input_feeding)
    assert (context_seen(model, features, 1) > 1e-2) == (kind == "gnmt" or input_feeding)


@pytest.mark.integration
def test_without_feeding_a_step_is_that_of_the_sequence(features):
    """The first layer then reads whole sequences, and attends in one product."""
    model = make_model("gnmt_v2", input_feeding=False, pass_hidden_state=False, start_id=3)
    assert_steps_are_the_whole(model, features)
