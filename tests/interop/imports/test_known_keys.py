"""Each file and each key of a folder is read, known to be without effect, or refused by name."""

import json
import shutil

import pytest

from support.open_model_files import change_json, hugging_face_folder, marian_folder, refusal
from t2t_lite.interop.imports import hugging_face, marian
from t2t_lite.interop.layouts import marian_shortlist
from t2t_lite.search.decode_hparams import DecodeHParams

# Files of folders at Hugging Face's hub, and of those that training leaves.
WITHOUT_EFFECT = """
    README.md .gitattributes LICENSE metadata.json benchmark_results.txt pytorch_model.bin
    benchmark_translations.zip tf_model.h5 flax_model.msgpack rust_model.ot model.tflite
    model.fp16.safetensors pytorch_model.fp16.bin model.bin shared_vocabulary.json
    decoder_model_merged.onnx quantize_config.json ort_config.json optimizer.pt scheduler.pt
    rng_state_0.pth random_states_0.pkl training_args.bin trainer_state.json all_results.json
    zero_to_fp32.py handler.py train.sh decoder.yml opus.spm32k.vocab.yml source.vocab
    sentencepiece.model newstest.eval config.json.bak example.ipynb processor_config.json
"""


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("safetensors")
    return hugging_face_folder(tmp_path / "model")


# ---- Hugging Face


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("adapter_config.json", '{"peft_type": "LORA"}', "adapters such as LoRA's cannot be"),
        ("modeling_mine.py", "", "modeling_mine.py: the model has code of its own"),
        ("tokenization_mine.py", "", "tokenization_mine.py: the model has code of its own"),
        ("adapter_model.safetensors", "", "has a file 'adapter_model.safetensors', which is not"),
        ("prefixes.json", "{}", "has a file 'prefixes.json', which is not known here"),
        ("head\n.bin", "", r"has a file 'head\n.bin', which is not known here"),
    ],
)
def test_a_file_that_may_change_the_model(folder, name: str, contents: str, message: str):
    (folder / name).write_text(contents)
    assert message in refusal(folder)


def test_files_without_effect(folder):
    expected = hugging_face.read(folder)
    for name in WITHOUT_EFFECT.split():
        (folder / name).write_text("anything")
    (folder / "runs").mkdir()
    found = hugging_face.read(folder)
    assert (found.hparams, found.source, found.target) == (
        expected.hparams,
        expected.source,
        expected.target,
    )


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("config.json", {"tie_encoder_decoder": True}, "tie_encoder_decoder=True has no"),
        ("config.json", {"rope_theta": 1e4}, "rope_theta=10000.0 has no counterpart here: such"),
        ("config.json", {"is_encoder_decoder": False}, "=False has no counterpart here (only True"),
        (
            "config.json",
            {"adapters": {"adapters": {"a": 1}}},
            "adapters={'adapters': {'a': 1}} has",
        ),
        ("config.json", {"prefix": "translate: "}, "prefix='translate: ' has no counterpart"),
        ("config.json", {"scale_embedding": "no"}, "scale_embedding='no': expected true or false"),
        ("config.json", {"vocab_size": 48}, "have 48 and 48 ids, and the embeddings 40 and 40"),
        ("config.json", {"a\nb": 1}, r"'a\nb'=1 has no counterpart"),
        ("config.json", {"num_beam_groups": 2}, "num_beam_groups=2 has no counterpart here (only"),
        ("tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"}, "'T5Tokenizer' has no"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": "a.B"}}, "has code of its own"),
        (
            "tokenizer_config.json",
            {"sp_model_kwargs": {"enable_sampling": True}},
            "sp_model_kwargs",
        ),
        ("tokenizer_config.json", {"split_special_tokens": True}, "split_special_tokens=True has"),
        ("tokenizer_config.json", {"eos_token": "<unk>"}, "sources end with <unk>, which has id 1"),
        ("tokenizer_config.json", {"extra_special_tokens": 7}, "expected a list of tokens"),
        ("tokenizer_config.json", {"separate_vocabs": True}, "target_vocab.json is missing"),
        ("special_tokens_map.json", {"language_token": "x"}, "language_token=x has no counterpart"),
        ("added_tokens.json", {"<x>": 99}, "40 pieces and 1 added tokens"),
        ("added_tokens.json", {"<x>": 3}, "'<x>' has id 3, which is"),
        ("added_tokens.json", {"<x>": "forty"}, "'forty' is not the id of a token"),
        ("tokenizer.json", {"added_tokens": [{"id": 1}]}, "a token={'id': 1}: expected a text"),
        ("tokenizer.json", {"a_part_of_2030": True}, "a_part_of_2030=True has no counterpart"),
    ],
)
def test_a_key_that_may_change_the_model(folder, file: str, changes, message: str):
    path = folder / file
    if not path.exists():
        path.write_text("{}")
    change_json(path, **changes)
    assert message in refusal(folder)


def test_files_that_do_not_agree(folder):
    token = {"content": "<x>", "special": True}
    settings = {"eos_token": "</s>", "added_tokens_decoder": {"41": token}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "added_tokens.json").write_text('{"<x>": 42}')
    assert "added_tokens.json: the token '<x>' has id 42, which other files" in refusal(folder)
    (folder / "added_tokens.json").unlink()
    (folder / "special_tokens_map.json").write_text('{"eos_token": {"content": "<end>"}}')
    assert "eos_token is '</s>' in tokenizer_config.json and '<end>' in special" in refusal(folder)


def test_keys_without_effect(folder):
    expected = hugging_face.read(folder)
    change_json(
        folder / "config.json",
        architectures=["MarianMTModel"],
        dropout=0.3,
        encoder_layerdrop=0.1,
        torch_dtype="float16",
        id2label={"0": "a"},
        task_specific_params={"translation": {"num_beams": 7}},
        eos_token_ids=[0],
        adapters={"adapters": {}, "config_map": {"x": None}},
        a_setting_of_2030=None,
    )
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "model_max_length": 512,
        "source_lang": "en",
        "sp_model_kwargs": {},
        "name_or_path": "x/y",
        "return_attention_mask": True,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    found = hugging_face.read(folder)
    assert (found.hparams, found.decode_hparams) == (expected.hparams, expected.decode_hparams)
    assert found.source.pieces == expected.source.pieces


def test_several_ids_may_end_an_output(folder):
    words = [[39], [7], [0], [3]]  # ends do not count as bad words
    settings = {"eos_token_id": [7, 0], "decoder_start_token_id": 39, "bad_words_ids": words}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    model = hugging_face.read(folder)
    assert model.hparams.other_ends == (8,)  # ours of 7, after padding
    vocabulary = json.loads((folder / "vocab.json").read_bytes())
    assert vocabulary[model.target.pieces[8]] == 7
    assert model.hparams.suppressed_ids == "0+4"  # ours of padding and of 3
    change_json(folder / "generation_config.json", eos_token_id=[7, 8])
    assert "sources end with </s>, which has id 0, and outputs with eos_token_id=[7, 8]" in refusal(
        folder
    )


# ---- Marian


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shortlist: [lex.s2t, 100, 100]", "shortlist names lex.s2t, which is missing in"),
        ("shortlist: vocab.yml", "shortlist names vocab.yml, which is not a short list in binary"),
        ("skip-cost: true", "skip-cost=true has no counterpart here"),
        ("skip-cost: On", "skip-cost=true has no counterpart here"),
        ("skip-cost: [a]", "skip-cost=['a']: expected true or false"),
        ("output-sampling: [topk, 10]", "output-sampling=['topk', '10'] has no counterpart"),
        ("force-decode: true", "force-decode=true has no counterpart"),
        ("ignore-model-config: true", "ignore-model-config=true has no counterpart"),
        ("a-setting-of-2030: 3", "a-setting-of-2030=3 has no counterpart"),
        ("allow-unk: perhaps", "allow-unk='perhaps': expected true or false"),
        ("models: [model.npz, other.npz]", "names 2 models, whose mean Marian decodes with"),
        ("models: [model.npz, model.npz]", "names 2 models"),
        ("models: [[model.npz]]", "models has ['model.npz'], which is not a file's name"),
        ("vocabs: other.yml", "other.yml, the vocabulary of the source, is missing"),
        ("vocabs: [vocab.yml, vocab.yml, vocab.yml]", "vocabs names 3 vocabularies: expected"),
    ],
)
def test_a_key_of_decoder_yml_that_may_change_the_outputs(tmp_path, text: str, message: str):
    folder = marian_folder(tmp_path / "model")
    (folder / "decoder.yml").write_text(text)
    assert message in refusal(folder)


def test_a_compressed_model_is_to_be_unpacked(tmp_path):
    folder = marian_folder(tmp_path / "model")
    (folder / "model.npz").rename(folder / "model.deen.intgemm.alphas.bin.gz")
    assert marian.is_marian(folder)
    assert "alphas.bin.gz is compressed: unpack the files of" in refusal(folder)


def test_a_missing_short_list_is_not_replaced_by_another(tmp_path):
    folder = marian_folder(tmp_path / "model")
    (folder / "lex.other.bin").write_bytes(marian_shortlist.written([[1]], 0, 1))
    (folder / "decoder.yml").write_text("vocabs: [vocab.yml]\nshortlist: [lex.bin, false]\n")
    assert "decoder.yml: shortlist names lex.bin, which is missing in" in refusal(folder)


@pytest.mark.parametrize(
    ("key", "name"), [("models", "model.npz"), ("vocabs", "vocab.yml"), ("shortlist", "lex.bin")]
)
def test_a_name_that_leads_to_another_file_is_refused(tmp_path, key: str, name: str):
    folder = marian_folder(tmp_path / "model")
    (folder / "lex.bin").write_bytes(marian_shortlist.written([[1]], 0, 1))
    vocabs = "" if key == "vocabs" else "vocabs: [vocab.yml]\n"
    (folder / "decoder.yml").write_text(f"{vocabs}{key}: [../{name}]\n")
    (tmp_path / name).write_bytes(b"another")
    assert f"{key} names ../{name}, which differs from {folder / name}" in refusal(folder)


def test_folders_of_another_machine_say_nothing(tmp_path):
    folder = marian_folder(tmp_path / "model")
    names = "models: [/train/model.npz]\nvocabs: [data/vocab.yml, ../vocab.yml]\nbeam-size: 5\n"
    (folder / "decoder.yml").write_text(names)
    shutil.copy(folder / "vocab.yml", tmp_path)  # the same file
    assert marian.read(folder).decode_hparams.startswith("beam_size=5,")


def test_a_model_that_was_renamed_is_the_only_one(tmp_path, caplog):
    folder = marian_folder(tmp_path / "model")
    settings = "models: [best.npz]\nvocabs: [vocab.yml]\nbeam-size: 3\n"
    (folder / "decoder.yml").write_text(settings)
    assert marian.read(folder).decode_hparams.startswith("beam_size=3,")
    assert "names the model best.npz, which is missing: model.npz is read" in caplog.text
    shutil.copy(folder / "model.npz", folder / "other.npz")
    assert "(model.npz, other.npz), but not best.npz, which decoder.yml names" in refusal(folder)
    (folder / "decoder.yml").write_text(settings.replace("best", "other"))
    assert marian.read(folder).path == str(folder / "other.npz")


def test_settings_of_a_form_that_is_missing(tmp_path):
    """Bergamot's students have some for each form of a model; any other form has its own."""
    folder = marian_folder(tmp_path / "model")
    settings = "models: [{}]\nvocabs: [vocab.yml]\nbeam-size: {}\n"
    (folder / "config.a.yml").write_text(settings.format("model.bin", 2))
    assert "config.a.yml names the model model.bin, which is missing" in refusal(folder)
    (folder / "config.b.yml").write_text(settings.format("model.npz", 5))
    assert marian.read(folder).decode_hparams.startswith("beam_size=5,")


@pytest.mark.parametrize("name", ["source.bpe", "target.tcmodel"])
def test_what_splits_text_without_sentencepiece_is_refused(tmp_path, name: str):
    folder = marian_folder(tmp_path / "model")
    (folder / name).write_text("#version: 0.2\n")
    assert f"{name} splits words into subwords or changes their case" in refusal(folder)


def test_greedy_search_needs_no_cost(tmp_path):
    folder = marian_folder(tmp_path / "model")
    (folder / "decoder.yml").write_text("skip-cost: true\nbeam-size: 1\n")
    assert marian.read(folder).decode_hparams.startswith("beam_size=1,")


def test_what_bergamots_engine_checks_and_estimates_is_no_translation(tmp_path):
    folder = marian_folder(tmp_path / "model")
    settings = "check-bytearray: true\nquality: quality.bin\nssplit-mode: paragraph\nbeam-size: 3\n"
    (folder / "decoder.yml").write_text(settings)
    assert marian.read(folder).decode_hparams.startswith("beam_size=3,")


def test_what_decoder_yml_lacks_has_marians_defaults(tmp_path):
    """Without the file, OPUS-MT's."""
    folder = marian_folder(tmp_path / "model")
    opus = DecodeHParams().override(marian.read(folder).decode_hparams)
    assert (opus.beam_size, opus.alpha) == (6, 1)
    settings = "vocabs: [vocab.yml]\nmini-batch: 16\nquiet: true\nskip-cost: false\ntype: s2s\n"
    (folder / "decoder.yml").write_text(settings)
    found = DecodeHParams().override(marian.read(folder).decode_hparams)
    assert (found.beam_size, found.alpha) == (12, 0)
