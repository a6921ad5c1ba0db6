"""Damaged and hostile files of open models: one line each, nothing executed, nothing written."""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import struct
import tracemalloc
import zipfile
from unittest import mock

import numpy as np
import pytest

from support.open_model_files import (
    SETTINGS,
    change_json,
    change_marian,
    hugging_face_folder,
    hugging_face_tensors,
    marian_folder,
    refusal,
)
from t2t_lite.errors import UserError
from t2t_lite.interop.imports import marian as marian_reader
from t2t_lite.interop.imports import open_models, safe_files


class Evil:
    """Runs code when it is unpickled."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def marian(tmp_path) -> pathlib.Path:
    return marian_folder(tmp_path / "model")


@pytest.fixture
def hugging_face(tmp_path) -> pathlib.Path:
    pytest.importorskip("safetensors")
    return hugging_face_folder(tmp_path / "model")


@pytest.mark.parametrize("name", ["model.npz", "source.spm"])
def test_a_pointer_of_git_lfs_in_a_marian_folder(marian, name):
    write_pointer(marian / name)
    assert f"{name} is a pointer of Git LFS, not the file: run `git lfs pull`" in refusal(marian)


def test_a_pointer_of_git_lfs_in_a_hugging_face_folder(hugging_face):
    write_pointer(hugging_face / "model.safetensors")
    assert "model.safetensors is a pointer of Git LFS" in refusal(hugging_face)


def write_pointer(path: pathlib.Path) -> None:
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n")


@pytest.mark.parametrize("name", ["source.spm", "target.spm"])
def test_one_of_two_sentencepiece_models(marian, name):
    (marian / name).unlink()
    assert f"{name} is missing, which splits the text of the {name[:6]}" in refusal(marian)


@pytest.mark.integration
def test_pieces_without_a_sentencepiece_model(marian, tmp_path, caplog):
    for name in ("source.spm", "target.spm"):
        (marian / name).unlink()
    open_models.import_run(str(marian), str(tmp_path / "run"))
    assert "there is no source.spm beside it: texts must be split" in caplog.text


def test_a_model_of_the_first_pieces_of_a_vocabulary(marian, caplog):
    """As Marian trains it with --dim-vocabs: other pieces are unknown to the model."""
    pieces = [*marian_reader.read(marian).source.pieces]
    with (marian / "vocab.yml").open("a", encoding="utf-8") as file:
        file.write('"later": 1161\n"last": 1162\n')
    found = marian_reader.read(marian)
    assert "has 1163 pieces, and the model the first 1161" in caplog.text
    assert [*found.source.pieces] == [*found.target.pieces] == pieces


# ---- Marian's weights


def test_a_damaged_archive(marian):
    path = marian / "model.npz"
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"PK\x05\x06" + bytes(18), b"not a zip file"):
        path.write_bytes(damaged)
        assert "model.npz" in refusal(marian)


def test_a_changed_byte(marian):
    """The checksum of the array tells."""
    path = marian / "model.npz"
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)
    assert "model.npz is damaged: Bad CRC-32" in refusal(marian)


def test_python_objects_are_not_loaded(marian, tmp_path):
    objects = np.empty(1, object)
    objects[0] = Evil(tmp_path / "executed")
    change_marian(marian, {"Wemb": objects})
    assert "holds Python objects (a pickle), which are never loaded" in refusal(marian)
    assert not (tmp_path / "executed").exists()


def test_an_archive_that_unpacks_to_far_more(marian):
    with zipfile.ZipFile(marian / "model.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Wemb.npy", bytes(100_000_000))
    assert "claims 100,000,000 bytes, far more than the file has" in refusal(marian)


def test_an_archive_that_numpy_would_not_write(marian):
    """Other programs' methods are slower, and their damages have errors of their own."""
    with zipfile.ZipFile(marian / "model.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("Wemb.npy", bytes(100))
    assert "'Wemb.npy' is compressed in a way that neither NumPy nor PyTorch" in refusal(marian)


@pytest.mark.parametrize("header", [b"{'descr'( '<f4'}", b"(" * 9000, b"", b"{}", b"\xff"])
def test_a_damaged_header(marian, header: bytes):
    start = np.lib.format.magic(1, 0) + struct.pack("<H", len(header))
    with zipfile.ZipFile(marian / "model.npz", "w") as archive:
        archive.writestr("Wemb.npy", start + header + bytes(256))
    assert "model.npz is damaged" in refusal(marian)


@pytest.mark.parametrize("shape", [(1 << 40, 64), (-1, 64), (0, 64), (1161,)])
def test_a_header_that_claims_another_size(marian, shape):
    header = np.lib.format.magic(1, 0)
    text = repr({"descr": "<f4", "fortran_order": False, "shape": shape}).encode() + b"\n"
    with zipfile.ZipFile(marian / "model.npz", "w") as archive:
        archive.writestr("Wemb.npy", header + struct.pack("<H", len(text)) + text + bytes(256))
    assert "'Wemb.npy' has 256 bytes, and shape" in refusal(marian)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"encoder_l1_self_Wq": None}, r"encoder_l1_self_Wq \[64, 64\] is missing"),
        ({"encoder_l1_self_Wq": np.ones((64, 63), "f4")}, r"is \[64, 63\], not \[64, 64\]"),
        ({"encoder_l1_extra": np.ones((2, 2), "f4")}, r"encoder_l1_extra \[2, 2\] is unknown here"),
        ({"encoder_l1_self_Wq": np.ones((64, 64), "i1")}, "int8: quantized models cannot"),
        ({"encoder_l1_self_Wq": np.full((64, 64), np.nan, "f4")}, "values that are not finite"),
        ({"Wemb": np.ones((1160, 64), "f4")}, "1160 rows, and the vocabulary 1161 pieces"),
        ({SETTINGS: None}, "has no special:model.yml"),
        ({SETTINGS: np.ones(3, "f4")}, "expected a short text"),
        ({SETTINGS: np.zeros(1 << 21, "i1")}, "expected a short text"),
    ],
)
def test_wrong_arrays(marian, arrays, message):
    if SETTINGS in arrays:
        with np.load(marian / "model.npz") as archive:
            own = {name: archive[name] for name in archive.files} | arrays
        np.savez(marian / "model.npz", **{n: a for n, a in own.items() if a is not None})
    else:
        change_marian(marian, arrays)
    with pytest.raises(UserError, match=message):
        open_models.import_run(str(marian), str(marian.parent / "run"))
    refusal(marian)


def test_a_header_is_not_read_whole(marian):
    """The second version of the format has headers of up to 4 GB."""
    size = 1 << 23
    header = np.lib.format.magic(2, 0) + struct.pack("<I", size)
    random = np.random.default_rng(0).bytes(size // 16)  # or the archive is too small for it
    with zipfile.ZipFile(marian / "model.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Wemb.npy", header + random + bytes(size - len(random)))
    tracemalloc.start()
    try:
        assert "model.npz is damaged" in refusal(marian)
        assert tracemalloc.get_traced_memory()[1] < size // 2
    finally:
        tracemalloc.stop()


def test_an_error_without_a_text_is_named_by_its_type(marian, monkeypatch):
    monkeypatch.setattr(np.lib.format, "read_magic", mock.Mock(side_effect=MemoryError))
    assert "model.npz is damaged: MemoryError; download it again" in refusal(marian)


# ---- Marian's settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("type", "s2s"),
        ("transformer-decoder-autoreg", "average-attention"),
        ("transformer-postprocess-emb", "dn"),
        ("transformer-preprocess", "r"),
        ("transformer-postprocess", "dh"),
        ("transformer-postprocess-top", "a"),
        ("transformer-ffn-depth", "3"),
        ("transformer-decoder-ffn-depth", "1"),
        ("transformer-decoder-dim-ffn", "128"),
        ("transformer-ffn-activation", "sigmoid"),
        ("transformer-no-projection", "true"),
        ("transformer-no-bias", "true"),
        ("transformer-no-affine", "true"),
        ("transformer-pool", "true"),
        ("transformer-tied-layers", "[1, 1]"),
        ("transformer-train-position-embeddings", "true"),
        ("transformer-disable-position-embeddings", "true"),
        ("transformer-attention-mask", "alibi"),
        ("lemma-dim-emb", "-1"),
        ("lemma-dependency", "re-embedding"),
        ("factors-combine", "concat"),
        ("input-types", "[class, sequence]"),
        ("right-left", "true"),
        ("ulr", "true"),
        ("dim-emb", "21"),
        ("a-setting-of-2030", "true"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(marian, name: str, value: str):
    change_marian(marian, settings={name: value})
    assert f"{name}={value.strip('[]').replace(', ', '+')} has no counterpart" in refusal(marian)


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({}, "dec-cell=gru"),
        ({"dec-cell": "ssru", "layer-normalization": "true"}, "layer-normalization=true"),
        ({"dec-cell": "ssru", "transformer-rnn-projection": "true"}, "rnn-projection=true"),
    ],
)
def test_a_recurrent_decoder_must_be_an_ssru(marian, settings: dict[str, str], refused: str):
    change_marian(marian, settings={"transformer-decoder-autoreg": "rnn", **settings})
    assert f"{refused} has no counterpart" in refusal(marian)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("dim-emb", "100000000", r"Wemb .*not \[1162, 100000000\]"),
        ("enc-depth", "999999999", "encoder_l3_self_Wq .*is missing"),
        ("dec-depth", "999999999", "decoder_l3_self_Wq .*is missing"),
        ("dim-emb", "1e9", "expected a number as dim-emb"),
        ("dim-emb", "9" * 5000, "expected a number as dim-emb"),
        ("transformer-heads", "7", "cannot be split over 7 heads"),
        ("output-omit-bias", "perhaps", "expected true or false"),
        ("dim-emb", "{a: b}", "expected a text or numbers as dim-emb"),
        ("skip", "&a [*a]", "YAML aliases are not read"),
        ("skip", "[" * 50 + "]" * 50, "nested more than 8 levels deep"),
        ("skip", "[" * 100_000, "YAML"),
        ("ulr", "!!python/object/apply:os.system [ls]", "the YAML tag '.*os.system' is not read"),
        ("enc-depth", "1\nenc-depth: 2", "the key 'enc-depth' occurs twice"),
        ("skip", "{[a]: b}", "expected a text as a key, got "),
    ],
)
def test_hostile_settings(marian, name: str, value: str, message: str):
    change_marian(marian, settings={name: value})
    with pytest.raises(UserError, match=message):
        open_models.import_run(str(marian), str(marian.parent / "run"))
    refusal(marian)


def test_aliases_that_expand_to_gigabytes(marian):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    (marian / "vocab.yml").write_text("\n".join(lines))
    assert "vocab.yml: YAML aliases are not read" in refusal(marian)


# ---- Marian's vocabulary and decoder


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ('"</s>": 0\n"<unk>": 1\n"a": 3\n', "'a' has id '3': expected one from 0 to 2"),
        ('"</s>": 0\n"<unk>": 1\n"a": 1\n', "'a' and '<unk>' have id 1"),
        ('"</s>": 0\n"<unk>": 1\n"a": -1\n', "'a' has id '-1'"),
        ('"</s>": 0\n"<unk>": 1\n"a": [2]\n', "'a' has id"),
        ('"</s>": 0\n"x": 1\n"a": 2\n', "no piece <unk>"),
        ('"</s>": 0\n"<unk>": 1\n"a": 2\n', "1161 rows, and the vocabulary 3 pieces"),
        (
            '"</s>": 0\n"<unk>": 1\n"<pad>": 2\n"<padding>": 3\n',
            "1161 rows, and the vocabulary 4 pieces",
        ),
        ('"</s>": 0\n"</s>": 1\n', "the key '</s>' occurs twice"),
        ("- a\n- b\n", "expected the id of each piece"),
        ("{", "is not YAML"),
        ("\0", "is not YAML"),
        ("", "no piece </s>"),
    ],
)
def test_a_damaged_vocabulary(marian, vocabulary: str, message: str):
    (marian / "vocab.yml").write_text(vocabulary, encoding="utf-8")
    assert message in refusal(marian)


def test_a_damaged_sentencepiece_model(marian):
    (marian / "source.spm").write_bytes(b"not a model")
    assert "source.spm is damaged: not a SentencePiece model" in refusal(marian)


def test_a_missing_vocabulary(marian):
    (marian / "vocab.yml").unlink()
    assert "name that of the source, then that of the target under vocabs:" in refusal(marian)


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ("vocabs: [../../secret.yml, vocab.yml]", "secret.yml, the vocabulary of the source"),
        ("vocabs: [vocab.fsv, vocab.fsv]", "vocab.fsv, the vocabulary of the source"),
        (
            "vocabs: [/en/vocab.yml, /de/vocab.yml]",
            "vocabs names different files of one name (/en/",
        ),
        ("word-penalty: 0.5", "word-penalty has no counterpart here"),
        ("beam-size: 0", "beam_size"),
        ("beam-size: 6,dtype=float16", "beam-size"),
        ("normalize: [1]", "normalize"),
        (
            "max-length-factor: 1000.5",
            "length_factor=1001: expected a whole number, at least 0 and at most 1000",
        ),
        ("max-length-factor: 1e300", "at most 1000"),
        ("max-length-factor: .inf", "max-length-factor"),
        ("max-length-factor: -1", "length_factor=-1: expected"),
        ("just text", "expected settings by name"),
    ],
)
def test_a_damaged_decoder_file(marian, decoder: str, message: str):
    (marian.parent / "secret.yml").write_text('"</s>": 0\n')
    (marian / "decoder.yml").write_text(decoder, encoding="utf-8")
    assert message in refusal(marian)


@pytest.mark.parametrize("name", ["config.intgemm8bitalpha.yml", "model.npz.decoder.yml"])
@pytest.mark.parametrize(
    "setting", ["word-penalty: 0.5", "shortlist: [lex.bin, false]", "allow-unk: 3", "vocabs: ['']"]
)
def test_the_file_of_a_setting_is_named(marian, name: str, setting: str):
    (marian / "decoder.yml").unlink(missing_ok=True)
    vocabs = "" if setting.startswith("vocabs") else "vocabs: [vocab.yml, vocab.yml]\n"
    (marian / name).write_text(f"models: [model.npz]\n{vocabs}{setting}\n", encoding="utf-8")
    assert str(marian / name) in refusal(marian)


def test_one_of_several_models_is_named_in_its_folder(marian, monkeypatch):
    own = marian / "other.npz"
    own.write_bytes((marian / "model.npz").read_bytes())
    assert "has 2 models (model.npz, other.npz): name one with --checkpoint_path" in refusal(marian)
    monkeypatch.chdir(marian.parent)
    pathlib.Path("other.npz").write_bytes(b"not the one that is meant")
    for name in ("other.npz", "model/other.npz", str(own)):
        assert pathlib.Path(marian_reader.read(marian, name).path).samefile(own)
    assert "no such file" in refusal(marian, checkpoint_path="another.npz")


# ---- Hugging Face


def test_a_damaged_safetensors_file(hugging_face):
    path = hugging_face / "model.safetensors"
    whole = path.read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        b"",
        struct.pack("<Q", 1 << 60) + whole[8:],
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 100) + b"{" * 100,
    ):
        path.write_bytes(damaged)
        assert "model.safetensors is damaged" in refusal(hugging_face)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.encoder.layers.0.fc1.weight": None}, r"fc1.weight [8, 16] is missing"),
        ({"model.encoder.layers.0.fc1.bias": np.ones(15, "f4")}, "fc1.bias is [15], not [16]"),
        ({"model.other": np.ones(2, "f4")}, "model.other [2] is unknown here"),
        ({"model.shared.weight": None}, "model.encoder.embed_tokens.weight is missing"),
        (
            {"model.shared.weight": np.ones((39, 8), "f4")},
            "have 40 and 40 ids, and the embeddings 39",
        ),
        ({"model.shared.weight": np.ones((41, 8), "f4")}, "and the embeddings 41 and 41 rows"),
        ({"model.shared.weight": np.ones((), "f4")}, "expected [V, D]"),
        ({"final_logits_bias": np.ones((1, 41), "f4")}, "final_logits_bias is [1, 41]"),
        ({"model.encoder.layers.0.fc1.bias": np.ones(16, "i1")}, "quantized models cannot"),
        ({"model.encoder.layers.0.fc1.bias": np.full(16, np.inf, "f4")}, "not finite"),
    ],
)
def test_wrong_tensors(hugging_face, changes, message):
    from safetensors.numpy import save_file

    tensors = hugging_face_tensors(40) | changes
    kept = {name: values for name, values in tensors.items() if values is not None}
    save_file(kept, hugging_face / "model.safetensors")
    assert message in refusal(hugging_face)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "nllb-moe"}, "mixtures of experts have no counterpart here"),
        ({"model_type": "t5"}, "only marian (MarianMT, OPUS-MT), m2m_100"),
        ({"model_type": []}, "model_type=[]: only marian (MarianMT, OPUS-MT), m2m_100"),
        ({"decoder_ffn_dim": 32}, "encoder_ffn_dim=16 and decoder_ffn_dim=32"),
        ({"decoder_ffn_dim": "\n" * 99}, "decoder_ffn_dim='\\n\\n"),
        ({"encoder_attention_heads": 3, "decoder_attention_heads": 3}, "split over 3 heads"),
        ({"activation_function": "relu6"}, "activation_function='relu6' has no counterpart here"),
        ({"quantization_config": {"bits": 4}}, "quantized models cannot be imported"),
        ({"d_model": 1 << 50}, "not [1125899906842624, 1125899906842624]"),
        ({"d_model": 1 << 40}, "not [1099511627776"),
        ({"encoder_layers": 999_999_999}, "layers.1.self_attn.q_proj.weight"),
        ({"d_model": "8"}, "expected a whole number as 'd_model'"),
        ({"d_model": 0}, "hidden_size"),
        ({"pad_token_id": 40}, "pad_token_id=40 in its settings: expected one id below 40"),
        (
            {"eos_token_id": [0, 99]},
            "eos_token_id=[0, 99] in its settings: expected one id below 40",
        ),
        ({"decoder_start_token_id": None}, "decoder_start_token_id=None"),
        ({"bad_words_ids": [[1, 2]]}, "bad_words_ids or suppress_tokens has [1, 2]"),
        ({"bad_words_ids": 7}, "bad_words_ids or suppress_tokens has"),
        ({"suppress_tokens": [True]}, "bad_words_ids or suppress_tokens has [True]"),
        ({"num_beams": "4,dtype=float16"}, "expected numbers"),
        ({"num_beams": -1}, "beam_size"),
    ],
)
def test_a_hostile_config(hugging_face, changes, message):
    change_json(hugging_face / "config.json", **changes)
    assert message in refusal(hugging_face)


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b"{", b"[]", b"\xff", b'{"model_type": "marian"}']
)
def test_a_config_that_is_no_json(hugging_face, text: bytes):
    (hugging_face / "config.json").write_bytes(text)
    assert "config.json" in refusal(hugging_face)


@pytest.mark.parametrize(
    "changes", [{}, {"pad_token_id": 1}, {"pad_token_id": 2, "decoder_start_token_id": 3}]
)
def test_a_vocabulary_that_is_too_short(hugging_face, changes):
    (hugging_face / "vocab.json").write_text('{"</s>": 0, "<unk>": 1, "a": 2}')
    change_json(hugging_face / "config.json", **changes)
    assert "vocab.json has 3 pieces, and none of id " in refusal(hugging_face)


def test_a_vocabulary_whose_padding_is_its_unknown_piece(hugging_face):
    change_json(hugging_face / "config.json", pad_token_id=1, decoder_start_token_id=1)
    message = refusal(hugging_face)
    assert f"{hugging_face / 'vocab.json'} has no valid vocabulary: 'unknown': 0 is" in message


@pytest.mark.parametrize("text", ['{"a": 0}', '{"</s>": 0, "<unk>": 5}', "[]", "{"])
def test_a_vocabulary_that_lacks_ids(hugging_face, text: str):
    (hugging_face / "vocab.json").write_text(text)
    assert "vocab" in refusal(hugging_face)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..", "", 7, None])
def test_shards_outside_the_folder(hugging_face, name):
    (hugging_face / "model.safetensors").rename(hugging_face.parent / "secret")
    index = {"weight_map": {"model.shared.weight": name}}
    (hugging_face / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "is not the name of a file beside it" in refusal(hugging_face)


def test_missing_shards(hugging_face):
    path = hugging_face / "model.safetensors"
    index = hugging_face / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    path.rename(hugging_face / "other.safetensors")
    assert "model-1.safetensors, a part of the model, is missing" in refusal(hugging_face)
    index.write_text(json.dumps({"weight_map": {"a": "other.safetensors"}}))
    assert "other.safetensors lacks a" in refusal(hugging_face)
    index.write_text(json.dumps({"weight_map": 3}))
    assert "expected the file of each tensor" in refusal(hugging_face)
    index.unlink()
    assert "has no weights" in refusal(hugging_face)


def pickled(folder: pathlib.Path) -> pathlib.Path:
    (folder / "model.safetensors").unlink()
    return folder / "pytorch_model.bin"


def test_a_pickle_without_pytorch(hugging_face, monkeypatch):
    pickled(hugging_face).write_bytes(b"anything")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "torch" else find(n))
    assert "needs more packages: pip install '.[import]'" in refusal(hugging_face)


def test_a_pickle_and_an_old_pytorch(hugging_face, monkeypatch):
    pickled(hugging_face).write_bytes(b"anything")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.5.1+cpu")
    message = refusal(hugging_face)
    assert "PyTorch 2.5.1+cpu cannot read safely: pip install 'torch>=2.6'" in message


def test_a_pickle_that_runs_code(hugging_face, tmp_path):
    torch = pytest.importorskip("torch")
    path = pickled(hugging_face)
    torch.save({"model.shared.weight": Evil(tmp_path / "executed")}, path)
    assert "cannot be read without running code in it" in refusal(hugging_face)
    assert not (tmp_path / "executed").exists()
    for contents in ([1], {"a": 1}, {1: torch.ones(2)}, {"a": torch.ones(2, 2).to_sparse()}):
        torch.save(contents, path)
        assert "pytorch_model.bin" in refusal(hugging_face)
    path.write_bytes(b"damaged")
    assert "pytorch_model.bin" in refusal(hugging_face)


def test_tensors_of_pytorch_that_are_no_plain_ones(tmp_path):
    """Parameters and views of negated values are read, ragged tensors refused."""
    torch = pytest.importorskip("torch")
    values = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    negated = torch._neg_view(values)
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.nn.Parameter(values), "b": negated, "c": values.bfloat16()}, path)
    found = {name: tensor.read() for name, tensor in safe_files.read_torch(path).items()}
    np.testing.assert_array_equal(found["a"], values.numpy())
    np.testing.assert_array_equal(found["b"], -values.numpy())
    np.testing.assert_array_equal(found["c"], values.numpy())
    torch.save({"a": torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])}, path)
    with pytest.raises(UserError, match=r"pytorch_model\.bin"):
        safe_files.read_torch(path)


def test_a_pickle_that_claims_more_than_it_has(hugging_face):
    torch = pytest.importorskip("torch")
    path = pickled(hugging_face)
    torch.save({"model.shared.weight": torch.ones(1).expand(1_000_000, 1_000_000)}, path)
    message = refusal(hugging_face)
    assert "'model.shared.weight' has 4 bytes, and shape [1000000, 1000000]" in message
    torch.save({"model.shared.weight": torch.zeros(5_000_000)}, path)
    with zipfile.ZipFile(path) as stored:
        contents = {name: stored.read(name) for name in stored.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    assert "far more than the file has" in refusal(hugging_face)
    path.write_bytes(b"PK\x03\x04")
    assert "pytorch_model.bin is damaged" in refusal(hugging_face)


# ---- both


def test_yaml_without_pyyaml(marian, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "yaml" else find(n))
    assert "needs more packages: pip install '.[import]'" in refusal(marian)


def test_the_output_exists(marian):
    output = marian.parent / "run"
    output.mkdir()
    (output / "mine").touch()
    with pytest.raises(UserError, match="already exists"):
        open_models.import_run(str(marian), str(output))
    assert [path.name for path in output.iterdir()] == ["mine"]
