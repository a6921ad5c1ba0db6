"""Exports for transformers: the way back by t2t-import, what transformers computes, refusals."""

import dataclasses
import json
import os
import pathlib
import re

import numpy as np
import pytest
import sentencepiece

from support import open_vocabularies
from support.exported_runs import BPE, Made, logits, made_run, random_pairs, read, sentences
from support.transformers_models import (
    EPSILON,
    IMPORTED,
    POST,
    PRE,
    PUBLISHED,
    TRAINED,
    Exported,
    ask_transformers,
    random_model,
    write_nllb,
)
from t2t_lite.errors import UserError
from t2t_lite.interop.export import hugging_face as exporter
from t2t_lite.interop.export.hugging_face_tokenizers import HuggingFaceSide, fast_tokenizer
from t2t_lite.interop.imports import safe_files
from t2t_lite.interop.layouts.hugging_face import PEGASUS
from t2t_lite.models.transformer import Transformer
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text import vocabularies
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder

pytest.importorskip("safetensors")

EXCLUDED = -1e4  # logits of what is never output


def export(run: Made, folder: pathlib.Path) -> pathlib.Path:
    exporter.export(run, None, str(folder / "out"), DecodeHParams.of(run))
    return folder / "out" / "huggingface" / "1"


@pytest.mark.integration
@pytest.mark.parametrize("layout", TRAINED)
def test_a_random_model_comes_back(tmp_path, layout):
    """To the bit, but for the row of the decoder's start, which is 0, as added biases are."""
    run = random_model(layout, tmp_path, seed=[*TRAINED].index(layout))
    back = read(export(run, tmp_path), tmp_path / "back")
    size = run.model.targets_vocab_size
    for name in ("targets_embedding", "inputs_embedding", "softmax_embedding"):
        matrices = [np.asarray(getattr(model, name).matrix) for model in (run.model, back.model)]
        np.testing.assert_array_equal(matrices[1][:size], matrices[0])
        assert not matrices[1][size:].any()
    assert back.model.hparams.pos == run.model.hparams.pos
    assert back.model.hparams.norm_epsilon == run.model.hparams.norm_epsilon
    pairs = random_pairs(run, 4)
    for found, expected in zip(logits(back, pairs), logits(run, pairs), strict=True):
        np.testing.assert_allclose(found[:, :size], expected, atol=1e-5)
    ids = [run.encoders["inputs"].encode(line) for line in sentences()]
    assert [back.encoders["inputs"].encode(line) for line in sentences()] == ids


@pytest.mark.integration
@pytest.mark.parametrize("name", ["marian_2", "m2m100_0"])
def test_a_model_goes_back_to_the_layout_that_it_came_from(tmp_path, name):
    """With all that computes in its own file."""
    run = read(PUBLISHED / name, tmp_path / "run")
    folder = export(run, tmp_path)
    config, published = (
        json.loads((path / "config.json").read_text()) for path in (folder, PUBLISHED / name)
    )
    assert config["model_type"] == published["model_type"]
    assert not [key for key in config if key.startswith("t2t_lite")]
    back = read(folder, tmp_path / "back")
    pairs = random_pairs(run, 4)
    for found, expected in zip(logits(back, pairs), logits(run, pairs), strict=True):
        known = expected > EXCLUDED
        np.testing.assert_allclose(found[:, : known.shape[1]][known], expected[known], atol=1e-5)
    if name.startswith("m2m100"):
        assert back.model.hparams == run.model.hparams
        assert list(back.encoders["inputs"].tokens) == list(run.encoders["inputs"].tokens)


@pytest.mark.integration
@pytest.mark.parametrize("name", ["marian_2", "m2m100_0"])
def test_the_least_length_comes_back(tmp_path, name):
    """Ours does not count the token of a language; theirs does."""
    run = read(PUBLISHED / name, tmp_path / "run")
    exporter.export(run, None, str(tmp_path / "out"), DecodeHParams.of(run, "min_length=4"))
    back = read(tmp_path / "out" / "huggingface" / "1", tmp_path / "back")
    assert DecodeHParams.of(back).min_length == 4


@pytest.fixture(scope="module", params=["mask first", "mask last"])
def nllb(request, tmp_path_factory) -> pathlib.Path:
    """A model of NLLB-200's layout."""
    folder = tmp_path_factory.mktemp("nllb") / "model"
    return write_nllb(folder, mask_last=request.param == "mask last")


@pytest.mark.integration
def test_nllb_goes_back_to_its_own_files(nllb, tmp_path):
    """With its weights to the bit, its pieces, and the languages by their own codes."""
    run = read(nllb, tmp_path / "run")
    spoken = dataclasses.replace(
        run, decode_hparams="source_language=eng_Latn,target_language=deu_Latn"
    )
    folder = export(spoken, tmp_path)
    before, after = (
        safe_files.read_safetensors(path / "model.safetensors") for path in (nllb, folder)
    )
    assert before.keys() <= after.keys()
    for name, tensor in before.items():
        np.testing.assert_array_equal(after[name].read(), tensor.read(), err_msg=name)
    back = read(folder, tmp_path / "back")
    assert back.model.hparams == run.model.hparams
    for side in ("inputs", "targets"):
        assert list(back.encoders[side].tokens) == list(run.encoders[side].tokens)
        assert back.encoders[side].languages == run.encoders[side].languages
    generation = json.loads((folder / "generation_config.json").read_text())
    tokens = json.loads((nllb / "tokenizer.json").read_text("utf-8"))["added_tokens"]
    (german,) = (token["id"] for token in tokens if token["content"] == "deu_Latn")
    assert generation["forced_bos_token_id"] == german
    assert 'src_lang="eng_Latn"' in (folder / "README.md").read_text()


def test_a_source_begins_with_the_label_of_its_language_as_readme_shows(tmp_path):
    open_vocabularies.write_opus(tmp_path, ("deu", "fra"))
    sides = {"inputs": "source", "targets": "target"}
    encoders = {k: ImportedEncoder(tmp_path / f"vocab.imported.{v}.json") for k, v in sides.items()}
    run = made_run(tmp_path, hidden_size=8, num_heads=1, num_hidden_layers=1, **POST)
    size = encoders["targets"].vocab_size
    run.model = Transformer(run.model.hparams, size, size)
    run.encoders = encoders
    exporter.export(run, None, str(tmp_path / "out"), DecodeHParams.of(run, "target_language=fra"))
    readme = (tmp_path / "out" / "huggingface" / "1" / "README.md").read_text(encoding="utf-8")
    assert 'tokenizer([">>fra<< A sentence."]' in readme


@pytest.mark.parametrize(
    "ties",
    [
        {"shared_embedding_and_softmax_weights": True},
        {"shared_embedding_and_softmax_weights": False, "shared_embedding": True},
        {"shared_embedding_and_softmax_weights": False},
    ],
)
def test_two_vocabularies_of_one_size_come_back(tmp_path, ties):
    """As in our model, they may have one matrix."""
    sizes = {"hidden_size": 8, "num_heads": 1, "num_hidden_layers": 1}
    run = made_run(tmp_path, **sizes, **POST, **ties)
    vocabularies.build(BPE, tmp_path / "other.model", [x.upper() for x in sentences()], 400)
    run.encoders["inputs"] = SentencePieceEncoder(tmp_path / "other.model")
    assert run.encoders["inputs"].vocab_size == run.encoders["targets"].vocab_size
    back = read(export(run, tmp_path), tmp_path / "back")
    pairs = random_pairs(run, 4)
    for found, expected in zip(logits(back, pairs), logits(run, pairs), strict=True):
        found = found[:, : run.model.targets_vocab_size]
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.skipif(
    "TRANSFORMERS_PYTHON" not in os.environ,
    reason="TRANSFORMERS_PYTHON names no Python with torch and transformers",
)
@pytest.mark.slow
@pytest.mark.parametrize("layout", [*TRAINED, *IMPORTED])
def test_transformers_computes_the_same(tmp_path, layout):
    """Logits, greedy outputs up to ties, and the ids and texts of its own tokenizer.

    benchmarks/exported_layouts.py compares more lines, with the epsilon of each model.
    """
    models = []
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        models.append(Exported(random_model(layout, folder, seed), folder / "out", EPSILON))
    # Of what came from elsewhere, tokenizers differ in spaces at an end, and in ▁ itself.
    lines = sentences() if layout in TRAINED else sentences()[:500]
    asked = {model.folder: model.questions(lines, 20) for model in models}
    answers = ask_transformers(os.environ["TRANSFORMERS_PYTHON"], asked)
    for model, answer in zip(models, answers, strict=True):
        found = model.compared(*answer)
        assert found.logits < 1e-5
        assert found.equal + found.ties == found.outputs == 20
        assert found.ids == found.texts == found.lines


def test_sinusoids_are_a_table_of_1024_rows(tmp_path):
    run = made_run(tmp_path, hidden_size=8, num_heads=1, num_hidden_layers=1, **POST)
    folder = export(run, tmp_path)
    tensors = safe_files.read_safetensors(folder / "model.safetensors")
    table = tensors["model.encoder.embed_positions.weight"].read()
    assert table.shape == (1024, 8)
    assert table[0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({**PRE, "norm_epsilon": 1e-3}, "norm_epsilon=0.001: PegasusForConditional"),
        ({**POST, "attention_neighborhood": 3}, "attention_neighborhood=3: MarianMTModel"),
        ({**POST, "layer_final_sequence": "n"}, "layer_final_sequence=n: MarianMTModel"),
        ({**PRE, "hidden_size": 7}, "hparam hidden_size=7: t2t-import reads a PegasusForCond"),
    ],
)
def test_what_has_no_counterpart_is_refused_before_anything_is_written(tmp_path, changes, message):
    sizes = {"hidden_size": 8, "num_heads": 1, "num_hidden_layers": 1}
    run = made_run(tmp_path, **sizes | changes)
    with pytest.raises(UserError, match=message):
        exporter.export(run, None, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_without_a_counterpart_is_refused(tmp_path):
    run = made_run(tmp_path, hidden_size=8, num_heads=1, num_hidden_layers=1)
    run.encoders["targets"] = SubwordTextEncoder.build_from_token_counts({"ab": 9}, 1)
    with pytest.raises(UserError, match="SubwordTextEncoder: Hugging Face's tokenizers have no"):
        exporter.export(run, None, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_json_of_bpe_keeps_user_defined_symbols_whole(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_prefix=str(tmp_path / "vocab"),
        model_type="bpe",
        vocab_size=400,
        user_defined_symbols=["<s|p>", "<s|p>>"],
        byte_fallback=True,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=3,
    )
    side = HuggingFaceSide.of(SentencePieceEncoder(tmp_path / "vocab.model"), PEGASUS)
    written = fast_tokenizer(side)
    split, byte = written["pre_tokenizer"]["pretokenizers"]
    assert (split["behavior"], byte["behavior"]) == ("Isolated", "MergedWithPrevious")
    assert re.split(f"({byte['pattern']['Regex']})", "<0x41>") == ["", "<", "0x41>"]
    assert re.split(byte["pattern"]["Regex"], "a<0x41>") == ["a<0x41>"]
    pattern = f"({split['pattern']['Regex']})"
    assert re.split(pattern, "a<s|p>b▁<s|p>>") == ["a", "<s|p>", "b▁", "<s|p>>", ""]
    assert written["model"]["ignore_merges"]  # no merges lead to them
