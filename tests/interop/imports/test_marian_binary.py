"""Marian's binary models and short lists: what is written is read; nothing hostile is trusted."""

import contextlib
import itertools
import pathlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.errors import DataError
from t2t_lite.interop.imports.marian_binary import is_binary, read_binary
from t2t_lite.interop.imports.marian_shortlist import is_shortlist, read_shortlist
from t2t_lite.interop.layouts import marian_binary, marian_shortlist
from t2t_lite.interop.layouts.marian import SETTINGS, settings_array

_RANDOM = np.random.RandomState(0)
ARRAYS = {
    "Wemb": _RANDOM.normal(size=(6, 4)).astype(np.float32),
    "encoder_l1_self_Wq": _RANDOM.normal(size=(4, 3)).astype(np.float32),
    "encoder_l1_self_Wo_ln_scale": np.ones((1, 4), np.float32),
    "decoder_l1_rnn_W": np.zeros((4, 4), np.float32),  # nothing to scale
    "none_QuantMultA": np.array([3.5], np.float32),
    "Wemb_QuantMultA": np.array([3.5], np.float32),
    SETTINGS: settings_array({"type": "transformer"}),
}
LISTS = [[], [1, 3], [], [0, 2, 4], [1]]


def contents(in_8_bits: bool = True) -> bytes:
    return marian_binary.written(marian_binary.items_of(ARRAYS, in_8_bits))


def write(folder: pathlib.Path, data: bytes) -> pathlib.Path:
    path = folder / "model.bin"
    path.write_bytes(data)
    return path


def read(path: pathlib.Path) -> dict[str, np.ndarray]:
    tensors, _ = read_binary(path)
    found = {name: tensor.read() for name, tensor in tensors.items()}
    assert {name: values.shape for name, values in found.items()} == {
        name: tensor.shape for name, tensor in tensors.items()
    }
    return found


def test_float32_is_kept_to_the_bit(tmp_path):
    path = write(tmp_path, contents(in_8_bits=False))
    found = read(path)
    assert is_binary(path)
    assert not read_binary(path)[1]
    assert [*found] == [*sorted({*ARRAYS} - {SETTINGS}), SETTINGS]
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(found[name], values)


def test_matrices_are_rounded_to_127_steps_and_nothing_else(tmp_path):
    path = write(tmp_path, contents())
    found = read(path)
    assert read_binary(path)[1]
    for name, values in ARRAYS.items():
        step = np.abs(values).max() / 127 if name in ("Wemb", "encoder_l1_self_Wq") else 0
        assert np.abs(found[name] - values).max() <= 0.5001 * step, name
    kinds = {name: item.type for name, item in marian_binary.items_of(ARRAYS, True).items()}
    assert kinds["Wemb_QuantMultA"] == marian_binary.FLOAT32


def test_values_begin_at_multiples_of_256_bytes():
    for count in range(1, 9):
        names = [f"b{'x' * 5 * number}" for number in range(count)]
        data = marian_binary.written(
            marian_binary.items_of(dict.fromkeys(names, np.ones((1, 3), np.float32)), False)
        )
        assert len(data) % 256 == 0
        assert data.index(np.ones(3, np.float32).tobytes()) % 256 == 0


@pytest.mark.parametrize("in_8_bits", [True, False])
def test_every_truncation_is_refused_by_name(tmp_path, in_8_bits: bool):
    whole = contents(in_8_bits)
    for size in [*range(0, 400, 7), *range(400, len(whole), 97)]:
        path = write(tmp_path, whole[:size])
        with pytest.raises(DataError, match=r"model\.bin"):
            read_binary(path)


def read_or_refuse(path: pathlib.Path) -> None:
    """Reads all values; nothing but an error that names the file may happen."""
    with contextlib.suppress(DataError):
        read(path)
        return
    with pytest.raises(DataError, match=r"model\.bin"):
        read(path)


@pytest.mark.parametrize("field", range(2 + 4 * len(ARRAYS)))
def test_a_wrong_number_of_the_head_is_an_error_or_without_effect(tmp_path, field: int):
    """Versions, counts, lengths, types, axes and sizes: no crash, and no memory for them."""
    for value in (0xFF, 0xFFFF, 1 << 31, (1 << 63) - 1, (1 << 64) - 1):
        data = bytearray(contents())
        struct.pack_into("<Q", data, 8 * field, value)
        read_or_refuse(write(tmp_path, bytes(data)))


@given(st.integers(0, 1500), st.integers(0, 255))
def test_a_changed_byte_is_an_error_or_another_value(tmp_path_factory, place: int, value: int):
    data = bytearray(contents())
    data[place] = value
    read_or_refuse(write(tmp_path_factory.mktemp("fuzzed"), bytes(data)))


@pytest.mark.parametrize(
    ("code", "name"),
    [(0x1801, "packed8avx2"), (0x4102, "intgemm16"), (0x11001, "intgemm8avx2"), (0x5101, "0x5101")],
)
def test_a_matrix_packed_for_one_processor_is_named(tmp_path, code: int, name: str):
    items = marian_binary.items_of(ARRAYS, True)
    items["decoder_l1_rnn_W"] = items["decoder_l1_rnn_W"]._replace(type=code)
    with pytest.raises(DataError, match=f"decoder_l1_rnn_W' has the type {name}, .* intgemm8,"):
        read_binary(write(tmp_path, marian_binary.written(items)))


def test_a_multiplier_of_inputs_may_be_in_8_bits(tmp_path):
    """Marian's converter takes it for an embedding: the names of both have Wemb in them."""
    items = marian_binary.items_of(ARRAYS, True)
    values = struct.pack("<bf", 127, 127 / 3.5)
    items["Wemb_QuantMultA"] = marian_binary.Item(marian_binary.QUANTIZED, (1,), values)
    found = read(write(tmp_path, marian_binary.written(items)))
    assert found["Wemb_QuantMultA"] == pytest.approx([3.5])


@pytest.mark.parametrize("multiplier", [0.0, -1.0, np.nan, np.inf])
def test_a_multiplier_must_be_a_positive_number(tmp_path, multiplier: float):
    items = marian_binary.items_of(ARRAYS, True)
    wemb = items["Wemb"]
    items["Wemb"] = wemb._replace(values=wemb.values[:-4] + struct.pack("<f", multiplier))
    with pytest.raises(DataError, match="Wemb has the multiplier"):
        read(write(tmp_path, marian_binary.written(items)))


# ---- short lists


def shortlist(tmp_path, data: bytes, sources=range(5), targets=range(6)):
    path = tmp_path / "lex.s2t.bin"
    path.write_bytes(data)
    assert is_shortlist(path) == data.startswith(marian_shortlist.MAGIC.to_bytes(8, "little"))
    return read_shortlist(path, sources, targets)


def test_a_short_list_is_read_as_it_is_written(tmp_path):
    always, lists = shortlist(tmp_path, marian_shortlist.written(LISTS, 2, 9)).lists()
    assert always == [1]  # padding is never a candidate
    assert lists == [[], [1, 3], [], [2, 4], [1]]


def test_a_short_list_has_our_ids(tmp_path):
    """The file's 2 is our 1; our 0 is not in the file."""
    order = [-1, 2, 0, 1, 3, 4]
    _, lists = shortlist(tmp_path, marian_shortlist.written(LISTS, 0, 9), order, order).lists()
    assert lists == [[], [], [], [3, 4], [1, 2, 5], [3]]


def test_a_damaged_short_list_is_refused(tmp_path):
    whole = marian_shortlist.written(LISTS, 2, 9)
    for size in range(len(whole)):
        with pytest.raises(DataError, match=r"lex\.s2t\.bin"):
            shortlist(tmp_path, whole[:size])
    for place in range(8, len(whole) - len(whole) % 8):
        data = bytearray(whole)
        data[place] ^= 0x41
        with pytest.raises(DataError, match=r"lex\.s2t\.bin"):
            shortlist(tmp_path, bytes(data))


def with_checksum(numbers: list[int], offsets: list[int], ids: list[int]) -> bytes:
    body = struct.pack("<4Q", *numbers) + np.array(offsets, "<u8").tobytes()
    body += np.array(ids, "<u4").tobytes()
    return struct.pack("<2Q", marian_shortlist.MAGIC, marian_shortlist.checksum(body)) + body


@pytest.mark.parametrize(
    "data",
    [
        with_checksum([0, 9, 6, 2], [0, 2, 1, 2, 2, 2], [1, 2]),  # backward
        with_checksum([0, 9, 6, 2], [1, 1, 1, 2, 2, 2], [1, 2]),
        with_checksum([0, 9, 6, 2], [0, 1, 1, 2, 2, (1 << 64) - 1], [1, 2]),
        with_checksum([0, 9, 6, 2], [0, 1, 1, 2, 2, 2], [1, 6]),  # beyond the vocabulary
        with_checksum([7, 9, 6, 2], [0, 1, 1, 2, 2, 2], [1, 5]),
        with_checksum([1 << 63, 9, 6, 2], [0, 1, 1, 2, 2, 2], [1, 5]),
        with_checksum([0, 9, 5, 2], [0, 1, 1, 2, 2], [1, 5]),  # of another vocabulary
        with_checksum([0, 9, 0, 2], [], [1, 5]),
        with_checksum([0, 9, 1 << 61, 2], [0, 1, 1, 2, 2, 2], [1, 5]),
    ],
)
def test_a_consistent_checksum_is_not_enough(tmp_path, data: bytes):
    with pytest.raises(DataError, match=r"lex\.s2t\.bin"):
        shortlist(tmp_path, data)


def test_the_table_of_a_short_list_is_not_much_larger_than_its_file(tmp_path):
    count, many = 100_000, 5_000
    data = with_checksum([0, 9, count + 1, many], [*[0] * count, many], [1] * many)
    with pytest.raises(DataError, match="implausibly many"):
        shortlist(tmp_path, data, range(count), range(6))


# ---- what Marian itself has written


@pytest.mark.integration
def test_files_of_marian(golden, tmp_path):
    """Bytes of its converter; what the recorded sketch reads."""
    folder = golden / "ssru"
    data = (folder / "model.intgemm.alphas.bin").read_bytes()
    found = read(folder / "model.intgemm.alphas.bin")
    original = dict(np.load(folder / "model.npz"))
    inputs = {name: values for name, values in found.items() if name.endswith("_QuantMultA")}
    original[SETTINGS] = found[SETTINGS]
    again = marian_binary.written(marian_binary.items_of(original | inputs, in_8_bits=True))
    assert again == data
    list_data = (folder / "lex.ref.bin").read_bytes()
    _, _, first, best, count, ids = marian_shortlist.HEAD.unpack_from(list_data)
    offsets = np.frombuffer(list_data, "<u8", count, 48).tolist()
    values = np.frombuffer(list_data, "<u4", ids, 48 + 8 * count).tolist()
    lists = [values[start:end] for start, end in itertools.pairwise(offsets)]
    assert marian_shortlist.written(lists, first, best) == list_data
    tensors, are_8_bits = read_binary(folder / "ref.intgemm8.bin")
    assert are_8_bits
    assert all(np.isfinite(tensor.read()).all() for tensor in tensors.values())
