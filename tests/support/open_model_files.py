"""Small folders of open models, and what goes wrong with them."""

import json
import pathlib
import re
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import sentencepiece

from t2t_lite.errors import UserError
from t2t_lite.interop.imports import open_models

FIXTURE = pathlib.Path(__file__).parents[1] / "fixtures" / "marian"
SETTINGS = "special:model.yml"


def marian_folder(folder: pathlib.Path) -> pathlib.Path:
    """Copies a model in the form of OPUS-MT's releases."""
    folder.mkdir()
    for name in ("model.npz", "source.spm", "target.spm", "vocab.yml"):
        shutil.copy(FIXTURE / name, folder)
    return folder


def change_marian(
    folder: pathlib.Path,
    arrays: Mapping[str, np.ndarray | None] | None = None,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Changes arrays of a model, or removes those that are None, and settings in it."""
    with np.load(folder / "model.npz") as archive:
        own = {name: archive[name] for name in archive.files}
    text = own[SETTINGS].tobytes().decode().rstrip("\0")
    for name, value in (settings or {}).items():
        without = re.sub(rf"^{name}:.*\n(  .*\n)*", "", text + "\n", flags=re.MULTILINE)
        text = f"{without}{name}: {value}"
    own[SETTINGS] = np.frombuffer(text.encode() + b"\0", np.int8)
    own |= arrays or {}
    np.savez(
        folder / "model.npz", **{name: value for name, value in own.items() if value is not None}
    )


def hugging_face_folder(folder: pathlib.Path) -> pathlib.Path:
    """Writes a MarianMT model of one layer and 8 features, all weights random."""
    from safetensors.numpy import save_file

    folder.mkdir()
    pieces = sentencepiece.SentencePieceProcessor(str(FIXTURE / "source.spm"))
    for side in ("source", "target"):
        shutil.copy(FIXTURE / f"{side}.spm", folder)
    names = ["</s>", "<unk>", *(pieces.id_to_piece(id_) for id_ in range(3, 40)), "<pad>"]
    size = len(names)
    config = {
        "model_type": "marian",
        "d_model": 8,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 32,
        "vocab_size": size,
        "eos_token_id": 0,
        "pad_token_id": size - 1,
        "decoder_start_token_id": size - 1,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    vocabulary = {name: id_ for id_, name in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    save_file(hugging_face_tensors(size), folder / "model.safetensors")
    return folder


def hugging_face_tensors(size: int) -> dict[str, np.ndarray]:
    """Returns the weights of `hugging_face_folder` by name."""
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"model.shared.weight": (size, 8)}
    for side, blocks in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        layer = f"model.{side}.layers.0"
        for block in blocks:
            for part in ("q", "k", "v", "out"):
                shapes[f"{layer}.{block}.{part}_proj.weight"] = (8, 8)
                shapes[f"{layer}.{block}.{part}_proj.bias"] = (8,)
        for norm in (*blocks, "final"):
            shapes |= {f"{layer}.{norm}_layer_norm.{kind}": (8,) for kind in ("weight", "bias")}
        for number, (inputs, outputs) in enumerate([(8, 16), (16, 8)], 1):
            shapes[f"{layer}.fc{number}.weight"] = (outputs, inputs)
            shapes[f"{layer}.fc{number}.bias"] = (outputs,)
    tensors = {name: rng.normal(0, 0.3, shape) for name, shape in shapes.items()}
    tensors["model.shared.weight"][-1] = 0
    tensors["final_logits_bias"] = rng.normal(0, 0.3, (1, size))
    return {name: values.astype(np.float32) for name, values in tensors.items()}


def change_json(path: pathlib.Path, **changes: Any) -> None:
    """Changes fields of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes), encoding="utf-8")


def refusal(folder: pathlib.Path, **options: Any) -> str:
    """Returns the one line with which an import is refused; checks that nothing is written."""
    output = folder.parent / "run"
    before = sorted(folder.parent.iterdir())
    with pytest.raises(UserError) as raised:
        open_models.import_run(str(folder), str(output), **options)
    assert sorted(folder.parent.iterdir()) == before
    message = str(raised.value)
    assert "\n" not in message
    return message
