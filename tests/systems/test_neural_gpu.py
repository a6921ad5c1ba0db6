"""The Neural GPUs: their units against T2T's, and what their tapes see."""

import numpy as np
import pytest
from keras import ops

from support.model_kinds import make_model, model_of
from support.rounding import assert_close
from t2t_lite.layers.base import Dropout
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.factory import make_search
from t2t_lite.systems.neural_gpu import CGRU, saturating_sigmoid, step_dropout, through


def recorded_units(recorded, scope):
    """The units of a recorded body, from the bottom."""
    names = sorted({name.split("/")[3] for name in recorded if name.startswith(f"{scope}/weights")})
    units = []
    for name in names:
        prefix = f"{scope}/weights/neural_gpu/{name}"
        reset, gate, candidate = (
            [recorded[f"{prefix}/{part}_single/{kind}"] for kind in ("kernel", "bias")]
            for part in ("reset", "gate", "candidate")
        )
        unit = CGRU(9)
        unit.gates_kernel.assign(np.concatenate([reset[0], gate[0]], axis=-1).reshape(27, 18))
        unit.gates_bias.assign(np.concatenate([reset[1], gate[1]]))
        unit.candidate_kernel.assign(candidate[0].reshape(27, 9))
        unit.candidate_bias.assign(candidate[1])
        units.append(unit)
    return units


@pytest.mark.parametrize("scope", ["neural_gpu_body", "neural_gpu_body_alone"])
def test_steps_are_those_of_t2t(golden, scope):
    recorded = np.load(golden / "compared" / "units" / "units_conv.npz")
    units = recorded_units(recorded, scope)
    assert len(units) == 2
    tape = recorded[f"{scope}/x"]
    mask = np.ones(tape.shape[:2], bool)
    for _ in range(tape.shape[1]):
        tape = through(units, tape, mask)
    assert_close(tape, recorded[f"{scope}/out"], terms=2 * 2 * 27 * len(mask[0]))


def test_a_sentence_with_padding_computes_what_t2t_computes_without(golden):
    """T2T's own numbers with padding differ: its convolutions read across the end."""
    recorded = np.load(golden / "compared" / "units" / "units_conv.npz")
    alone, padded = "neural_gpu_body_alone", "neural_gpu_body_padded"
    units = recorded_units(recorded, alone)
    length = recorded[f"{alone}/x"].shape[1]
    tape = np.pad(recorded[f"{alone}/x"], [(0, 0), (0, 2), (0, 0), (0, 0)])
    mask = np.arange(length + 2)[None] < length
    for _ in range(length):
        tape = through(units, tape, mask)
    wanted = recorded[f"{alone}/out"]
    assert_close(tape[:, :length], wanted, terms=2 * 2 * 27 * length)  # two products in a unit
    assert not np.any(tape[:, length:])
    assert np.abs(recorded[f"{padded}/out"][1, :length] - wanted[0]).max() > 1e-3


def test_gates_reach_their_ends():
    found = saturating_sigmoid(np.array([-9.0, 0.0, 1.0, 9.0], np.float32))
    assert_close(found, [0.0, 0.5, 1.2 / (1 + np.exp(-1.0)) - 0.1, 1.0], terms=4)


def test_a_unit_starts_near_its_input():
    """Gates start at 1.2 σ(1) - 0.1, so that most of the tape stays."""
    unit = CGRU(4, 2, height=3, width=2)
    assert unit.gates_kernel.shape == (3 * 2 * 6, 8)
    assert unit.candidate_kernel.shape == (3 * 2 * 6, 4)
    for kernel in (unit.gates_kernel, unit.candidate_kernel):
        kernel.assign(0.0 * kernel)
    tape = np.random.RandomState(0).normal(size=(2, 5, 3, 4)).astype(np.float32)
    others = np.ones((2, 5, 3, 2), np.float32)
    found = unit(tape, np.ones((2, 5), bool), others)
    assert_close(found, tape * (1.2 / (1 + np.exp(-1.0)) - 0.1), terms=3 * 2 * 6 + 4)


def test_every_step_has_its_own_mask():
    tape = np.ones((2, 3, 1, 4), np.float32)
    dropped = step_dropout(Dropout(0.5), tape, 4, training=True)
    masks = [np.asarray(dropped(tape, number)) for number in range(4)]
    assert all(set(np.unique(mask)) == {0.0, 2.0} for mask in masks)
    assert len({mask.tobytes() for mask in masks}) == 4
    assert step_dropout(Dropout(0.5), tape, 4, training=False)(tape, 0) is tape


@pytest.mark.parametrize("length", [1, 4, 7])
def test_the_tape_is_as_long_as_asked(length):
    model = make_model("extended_neural_gpu", tape_ratio=1.5, tape_extra=2)
    inputs = np.array([[5] * length + [0] * (7 - length), [4, 3, 2, 9, 7, 6, 1]], np.int32)
    tape, mask = model.encoder.encode(inputs)
    assert tape.shape == (2, 13, 2, 16)
    lengths = np.count_nonzero(mask, axis=1)
    assert lengths.tolist() == [-(-3 * length // 2) + 2, 13]
    cells = np.any(ops.convert_to_numpy(tape), axis=(2, 3))
    np.testing.assert_array_equal(cells, mask)


def test_after_the_end_of_the_tape_all_tokens_are_equally_likely():
    inputs, targets = np.array([[5, 9, 1]], np.int32), np.ones((1, 6), np.int32)
    for kind in ("neural_gpu", "extended_neural_gpu"):
        model = make_model(kind, tape_ratio=1.0, tape_extra=1)
        logits = ops.convert_to_numpy(model({"inputs": inputs, "targets": targets}))
        assert np.abs(logits[0, :4]).max(axis=1).min() > 1e-2
        assert not logits[0, 4:].any()


def test_operations_by_hand():
    """For each step and each cell of the tape, one product with every kernel."""
    model = make_model("extended_neural_gpu", tape_ratio=2.0, tape_extra=3)
    d, width, vocab, s, t = 16, 2, 13, 5, 4
    cells = width * (2 * s + 3)
    seen = 3 * 3  # cells that a convolution sees
    encoder = s * cells * 2 * seen * d * 3 * d  # two units of two gates and a candidate
    decoder = t * cells * 2 * seen * 2 * d * 3 * d
    features = {"inputs": np.ones((1, s), np.int32), "targets": np.ones((1, t), np.int32)}
    assert float(model.forward_flops().forward(features)) == 2 * (encoder + decoder + t * d * vocab)


@pytest.mark.integration
@pytest.mark.parametrize("beams", [1, 2])
def test_outputs_of_a_known_length(features, beams):
    hparams = DecodeHParams(beam_size=beams, extra_length=0, force_decode_length=True)
    inputs = features["inputs"]
    lengths = np.count_nonzero(inputs, axis=1)
    ids, _ = make_search(model_of("neural_gpu"), {}, hparams)(inputs, lengths)
    assert np.count_nonzero(ids[:, 0], axis=1).tolist() == lengths.tolist()
    assert np.argmax(ids[:, 0] == 1, axis=1).tolist() == (lengths - 1).tolist()
