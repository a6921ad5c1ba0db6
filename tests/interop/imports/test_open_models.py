"""t2t-import of Marian's and Hugging Face's models: flags, settings of the run, --verify."""

import json
import pathlib

import numpy as np
import pytest
import sentencepiece

from support.open_model_files import (
    FIXTURE,
    change_json,
    change_marian,
    hugging_face_folder,
    hugging_face_tensors,
    marian_folder,
    refusal,
)
from t2t_lite import api
from t2t_lite.bin import t2t_import
from t2t_lite.errors import DataError, UserError
from t2t_lite.interop.imports import hugging_face, hugging_face_settings, marian, open_models
from t2t_lite.interop.imports.safe_files import read_safetensors
from t2t_lite.interop.imports.verification import Verification, read_pairs, verify
from t2t_lite.json_files import Fields
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import LONGEST, DecodeHParams
from t2t_lite.text.imported_encoder import ImportedEncoder


def run_command(capsys, code: int = 0, **flags: object) -> str:
    """Runs t2t-import; returns what it prints, or the line of its error."""
    with pytest.raises(SystemExit) as end:
        t2t_import.main([f"--{name.rstrip('_')}={value}" for name, value in flags.items()])
    printed = capsys.readouterr()
    assert end.value.code == code, printed.err
    return printed.err.strip().splitlines()[-1] if code else printed.out


# ---- what it is


@pytest.mark.parametrize("source", ["model", "model/model.npz"])
def test_a_model_of_marian_is_recognised(tmp_path, source: str):
    marian_folder(tmp_path / "model")
    assert open_models.kind_of(str(tmp_path / source)) == "marian"
    assert marian.read(tmp_path / source).hparams == marian.read(FIXTURE).hparams


def test_a_model_of_hugging_face_is_recognised(tmp_path):
    folder = hugging_face_folder(tmp_path / "model")
    (folder / "arrays.npz").touch()
    assert open_models.kind_of(str(folder)) == "huggingface"


def test_the_others_are_of_t2t(tmp_path):
    assert open_models.kind_of(str(tmp_path)) == "t2t"


@pytest.mark.parametrize(
    ("code", "flags", "message"),
    [
        (1, {"model_dir": "nowhere"}, "nowhere does not exist: correct --model_dir"),
        (2, {"model_dir": FIXTURE, "problem": "a"}, "--problem is not for a model of marian"),
        (1, {"model_dir": FIXTURE, "from_": "huggingface"}, "config.json is missing"),
        (2, {"model_dir": FIXTURE, "from_": "t2t"}, "--data_dir is missing"),
        (
            2,
            {"model_dir": FIXTURE, "from_": "t2t", "source_language": "de"},
            "--source_language is not for a model of t2t",
        ),
        (2, {"model_dir": FIXTURE, "target_language": "deu"}, "only one target language"),
        (1, {"model_dir": FIXTURE, "checkpoint_path": "other.npz"}, "other.npz: no such file"),
        (2, {}, "--model_dir is missing"),
        (
            2,
            {"model_dir": ".", "from_": "huggingface", "checkpoint_path": "a"},
            "--checkpoint_path is",
        ),
        (2, {"verify": "a", "target_language": "deu"}, "--target_language is only for an import"),
        (2, {"verify": "a", "from_": "marian"}, "--from is only for an import: add --model_dir"),
        (2, {"verify": "a", "problem": "a"}, "--problem is only for an import: add --model_dir"),
        (
            2,
            {"model_dir": "."},
            "(config.json): correct --model_dir, or add --data_dir for a model",
        ),
        (1, {"model_dir": FIXTURE, "verify": "nowhere.tsv"}, "nowhere.tsv"),
    ],
)
def test_wrong_flags(tmp_path, capsys, code: int, flags: dict[str, object], message: str):
    assert message in run_command(capsys, code, **flags, output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ---- settings


def decode_hparams(folder: pathlib.Path) -> DecodeHParams:
    return DecodeHParams.of(RunFolder.open(str(folder)))


_DECODER = """
vocabs: [vocab.yml]
beam-size: 3
normalize: 0.6
max-length-factor: 1.5
allow-unk: true
"""


@pytest.mark.integration
def test_the_search_of_a_model_is_the_default_of_its_run(tmp_path):
    folder = marian_folder(tmp_path / "model")
    (folder / "decoder.yml").write_text(_DECODER)
    run = str(tmp_path / "run")
    open_models.import_run(str(folder), run)
    found = decode_hparams(tmp_path / "run")
    assert (found.beam_size, found.alpha, found.length_penalty) == (3, 0.6, "average")
    assert found.output_limit(10) == 20
    assert not RunFolder.open(run).hparams.never_output
    assert DecodeHParams.of(api.open_run(run), "beam_size=1").beam_size == 1
    change_json(tmp_path / "run" / "flags.json", published_decode_hparams=7)
    with pytest.raises(Exception, match="expected text as 'published_decode_hparams'"):
        api.open_run(run)


def test_the_search_of_a_generation_config(tmp_path):
    folder = hugging_face_folder(tmp_path / "model")
    assert "beam_size=1,alpha=1.0" in hugging_face.read(folder).decode_hparams
    settings = {
        "num_beams": 6,
        "max_length": 20,
        "length_penalty": 0.5,
        "early_stopping": True,
        "bad_words_ids": [[39], [1]],
        "decoder_start_token_id": 39,
        "no_repeat_ngram_size": 3,
    }
    (folder / "generation_config.json").write_text(json.dumps(settings))
    model = hugging_face.read(folder)
    found = DecodeHParams().override(model.decode_hparams)
    assert (found.beam_size, found.alpha, found.stopping) == (6, 0.5, "true")
    assert (found.output_limit(1000), found.no_repeat_ngram_size) == (19, 3)
    assert model.hparams.never_output == (0, 2)  # padding and <unk>
    assert model.hparams.softmax_padding


def test_a_generation_config_replaces_the_settings_in_the_config(tmp_path):
    """But for the ids without which there is no generation."""
    folder = hugging_face_folder(tmp_path / "model")
    old = {"num_beams": 6, "early_stopping": True, "max_length": 20, "bad_words_ids": [[39]]}
    change_json(folder / "config.json", **old)  # as in folders without a generation_config.json
    model = hugging_face.read(folder)
    found = DecodeHParams().override(model.decode_hparams)
    assert (found.beam_size, found.stopping, found.output_limit(9)) == (6, "true", 19)
    assert model.hparams.never_output == (0,)
    (folder / "generation_config.json").write_text(json.dumps({"max_length": 30}))
    model = hugging_face.read(folder)
    found = DecodeHParams().override(model.decode_hparams)
    assert (found.beam_size, found.stopping, found.output_limit(9)) == (1, "false", 29)
    assert model.hparams.never_output == ()
    assert model.hparams.start_id == 0


@pytest.mark.parametrize(("kind", "scale"), [("marian", "none"), ("m2m_100", "sqrt_depth")])
def test_the_default_scale_of_embeddings(tmp_path, kind: str, scale: str):
    config = json.loads((hugging_face_folder(tmp_path / "model") / "config.json").read_bytes())
    del config["scale_embedding"]
    path = tmp_path / "config.json"
    fields = Fields(path, config | {"model_type": kind})
    assert hugging_face_settings.find_hparams(tmp_path, fields).multiply_embedding_mode == scale


@pytest.mark.parametrize(
    ("kind", "offset"), [("marian", {0: 0, 3: 0}), ("m2m_100", {0: 1, 1: 2, 3: 4})]
)
def test_positions_of_m2m100_follow_the_id_of_padding(tmp_path, kind: str, offset):
    """`padding_idx + 1` is the first in transformers' M2M100SinusoidalPositionalEmbedding."""
    config = json.loads((hugging_face_folder(tmp_path / "model") / "config.json").read_bytes())
    for padding, expected in offset.items():
        changes = {"model_type": kind, "pad_token_id": padding}
        fields = Fields(tmp_path / "config.json", config | changes)
        found = hugging_face_settings.find_hparams(tmp_path, fields)
        assert found.position_offset == expected


def test_labels_in_a_sentencepiece_vocabulary_are_split_as_it_splits_them(tmp_path):
    """As Marian does, which has no labels of its own."""
    path, text = tmp_path / "vocab.spm", tmp_path / "text"
    text.write_text("the cat sleeps and the dog runs\n" * 9, encoding="utf-8")
    sentencepiece.SentencePieceTrainer.Train(
        input=str(text),
        model_prefix=str(tmp_path / "vocab"),
        vocab_size=40,
        hard_vocab_limit=False,
        user_defined_symbols=">>de<<,>>fr<<",
        **{"eos_id": 0, "unk_id": 1, "bos_id": -1},
        minloglevel=2,
    )
    (tmp_path / "vocab.model").rename(path)
    marian._side(path, "source", 0).vocabulary.write(tmp_path / "vocab.json")
    encoder = ImportedEncoder(tmp_path / "vocab.json")
    pieces = sentencepiece.SentencePieceProcessor(str(path))
    for line in (">>de<< the cat", "the cat >>fr<<sleeps", "the dog"):
        found = [encoder.tokens[id_] for id_ in encoder.encode(line)]
        assert found == pieces.encode(line, out_type=str)


@pytest.mark.parametrize("name", ["lm_head", "model.decoder.embed_tokens", "model.shared"])
def test_embeddings_that_are_the_same_may_have_any_name(tmp_path, name: str):
    from safetensors.numpy import save_file

    folder = hugging_face_folder(tmp_path / "model")
    tensors = hugging_face_tensors(40)
    embeddings = tensors.pop("model.shared.weight")
    save_file({f"{name}.weight": embeddings, **tensors}, folder / "model.safetensors")
    assert hugging_face.read(folder).hparams.shared_embedding_and_softmax_weights
    change_json(folder / "config.json", tie_word_embeddings=False)
    assert "is missing" in refusal(folder)


def test_the_longest_output_of_a_generation_config_is_limited(tmp_path):
    folder = hugging_face_folder(tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps({"max_length": 10**9}))
    found = DecodeHParams().override(hugging_face.read(folder).decode_hparams)
    assert found.output_limit(10) == LONGEST


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"begin_suppress_tokens": [3]}, "begin_suppress_tokens=[3]"),
        ({"forced_eos_token_id": 3}, "forced_eos_token_id=3"),
        ({"forced_eos_token_id": [0, 3]}, "forced_eos_token_id=[0, 3]"),
        ({"forced_bos_token_id": 3}, "forced_bos_token_id=3"),
        ({"do_sample": True}, "do_sample=True"),
        ({"repetition_penalty": 1.2}, "repetition_penalty=1.2"),
        ({"stop_strings": ["."]}, "stop_strings=['.']"),
        ({"a_setting_of_2030": 1}, "a_setting_of_2030=1"),
        ({"renormalize_logits": True, "suppress_tokens": [3, 39]}, "renormalize_logits=True"),
        ({"renormalize_logits": True, "min_length": 3}, "renormalize_logits=True"),
        ({"early_stopping": "always"}, "early_stopping='always'"),
    ],
)
def test_what_generations_lack_here_is_refused(tmp_path, changes, message: str):
    folder = hugging_face_folder(tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps(changes))
    assert message in refusal(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"forced_eos_token_id": 0, "min_new_tokens": 0, "begin_suppress_tokens": []},
        {"renormalize_logits": True, "forced_eos_token_id": None, "forced_bos_token_id": None},
        {"do_sample": False, "temperature": 0.7, "top_k": 50, "num_return_sequences": 3},
        {"a_setting_of_2030": False, "transformers_version": "5.99"},
        {"pad_token_id": 39, "bos_token_id": 0, "eos_token_id": [0], "use_cache": True},
    ],
)
def test_settings_of_generations_without_effect(tmp_path, changes, caplog):
    folder = hugging_face_folder(tmp_path / "model")
    expected = DecodeHParams().override(hugging_face.read(folder).decode_hparams)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 0} | changes))
    found = DecodeHParams().override(hugging_face.read(folder).decode_hparams)
    assert found.copy(end_at_limit=False) == expected
    assert found.end_at_limit == (changes.get("forced_eos_token_id") == 0)
    assert not caplog.records


@pytest.mark.parametrize("settings", [{}, {"eos_token_id": None}, {"decoder_start_token_id": 39}])
def test_generations_that_do_not_say_with_what_they_end(tmp_path, settings, caplog):
    folder = hugging_face_folder(tmp_path / "model")
    expected = hugging_face.read(folder)
    (folder / "generation_config.json").write_text(json.dumps(settings))
    found = hugging_face.read(folder)
    assert (found.hparams, found.decode_hparams) == (expected.hparams, expected.decode_hparams)
    assert (
        "generation_config.json has no eos_token_id: outputs end with that of config.json, 0; in "
        "transformers they would go on until max_length"
    ) in caplog.text


@pytest.mark.parametrize(
    ("family", "activation"), [({}, "gelu"), ({"model_type": "m2m_100"}, "relu")]
)
def test_what_a_config_lacks_is_as_in_transformers(tmp_path, family, activation: str):
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"model_type": "marian", "vocab_size": 40, **family}
    (folder / "config.json").write_text(json.dumps(config))
    read, _ = hugging_face_settings.read_settings(folder)
    found = hugging_face_settings.find_hparams(folder, read)
    assert found.ffn_activation == activation
    assert (found.hidden_size, found.filter_size, found.num_heads) == (1024, 4096, 16)
    assert (found.num_encoder_layers, found.num_decoder_layers) == (12, 12)
    assert found.max_length == 1024


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({"min_length": 1}, 0),
        ({"min_length": 5}, 4),
        ({"min_new_tokens": 5}, 5),
        ({"min_length": 9, "min_new_tokens": 5}, 5),  # the latter replaces the former
    ],
)
def test_least_lengths_count_the_start_or_not(tmp_path, changes, least: int):
    folder = hugging_face_folder(tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps(changes))
    assert DecodeHParams().override(hugging_face.read(folder).decode_hparams).min_length == least


def test_padding_without_probability(tmp_path):
    folder = hugging_face_folder(tmp_path / "model")
    settings = {
        "bad_words_ids": [[39]],
        "renormalize_logits": True,
        "decoder_start_token_id": 39,
    }
    (folder / "generation_config.json").write_text(json.dumps(settings))
    found = hugging_face.read(folder).hparams
    assert not found.softmax_padding
    assert not found.never_output


@pytest.mark.integration
def test_a_padding_that_training_has_moved_starts_the_decoder(tmp_path):
    """It gets an id of its own, which is never output."""
    from safetensors.numpy import save_file

    folder = hugging_face_folder(tmp_path / "model")
    tensors = hugging_face_tensors(40)
    tensors["model.shared.weight"][-1] = 1
    save_file(tensors, folder / "model.safetensors")
    open_models.import_run(str(folder), str(tmp_path / "run"))
    run = RunFolder.open(str(tmp_path / "run"))
    assert run.hparams.start_id == 40
    model = run.load_model().model
    assert np.all(model.inputs_embedding.matrix[40] == np.ones(8))
    logits = np.asarray(model({"inputs": np.array([[3, 1]]), "targets": np.array([[3, 1]])}))
    assert logits.shape[-1] == 41
    assert np.all(logits[..., 40] < -9000)


@pytest.mark.parametrize(
    ("version", "activation"),
    [("v1.9.0 ba94c5b9", "gelu_sigmoid"), ("v1.12.2 a", "gelu_sigmoid"), ("v1.12.3 a", "gelu")],
)
def test_old_releases_of_marian_approximate_gelu(tmp_path, version: str, activation: str):
    folder = marian_folder(tmp_path / "model")
    change_marian(folder, settings={"transformer-ffn-activation": "gelu", "version": version})
    assert marian.read(folder).hparams.ffn_activation == activation


@pytest.mark.integration
def test_languages_of_opus_mt(tmp_path, capsys):
    folder = marian_folder(tmp_path / "model")
    text = (folder / "vocab.yml").read_text(encoding="utf-8")
    changed = text.replace('"Q": 1159', '">>deu<<": 1159').replace('"q": 1160', '">>fra<<": 1160')
    (folder / "vocab.yml").write_text(changed, encoding="utf-8")
    flags = {"model_dir": folder, "output_dir": tmp_path / "run"}
    message = run_command(capsys, 2, **flags, target_language="deo")
    assert "target_language: unknown language 'deo'" in message
    assert "did you mean 'deu'?" in message
    assert not (tmp_path / "run").exists()
    run_command(capsys, **flags, target_language="deu")
    encoder = RunFolder.open(str(tmp_path / "run")).encoders["inputs"]
    assert encoder.encode("it")[0] == 1160  # ours of Marian's 1159
    assert encoder.encode(">>fra<< it")[0] == 1161


def test_languages_of_m2m100(tmp_path):
    folder = hugging_face_folder(tmp_path / "model")
    pieces = (folder / "source.spm").read_bytes()
    (folder / "sentencepiece.bpe.model").write_bytes(pieces)
    names = ["<s>", "<pad>", "</s>", "<unk>", *(f"piece{i}" for i in range(20))]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    tokens = ["__de__", "__en__"]
    (folder / "special_tokens_map.json").write_text(
        json.dumps({"additional_special_tokens": tokens})
    )
    change_json(
        folder / "config.json",
        model_type="m2m_100",
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_bos_token_id=24,
    )
    from safetensors.numpy import save_file

    tensors = hugging_face_tensors(40)
    del tensors["final_logits_bias"]
    for side in ("encoder", "decoder"):
        for kind in ("weight", "bias"):
            tensors[f"model.{side}.layer_norm.{kind}"] = np.ones(8, np.float32)
    save_file(tensors, folder / "model.safetensors")
    model = hugging_face.read(folder)
    # <pad> </s> <s> <unk>, then the others as they were.
    assert model.source.pieces[:5] == ["<pad>", "</s>", "<s>", "<unk>", "piece0"]
    assert model.source.languages == {"de": 24, "en": 25}
    assert (model.source.language, model.target.language) == ("", "de")
    assert (model.hparams.start_id, model.hparams.position_offset) == (1, 2)
    assert model.source.unknown == 3
    change_json(folder / "config.json", forced_bos_token_id=3)
    assert "forced_bos_token_id=3 has no counterpart here, since it is not" in refusal(folder)


def test_bfloat16(tmp_path):
    """NumPy lacks it: the upper half of float32."""
    values = np.array([1.5, -2.0, 3e38, 1e-30], np.float32)
    header = {"a": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}
    text = json.dumps(header).encode()
    contents = (values.view("<u4") >> 16).astype("<u2").tobytes()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + contents)
    tensor = read_safetensors(path)["a"]
    assert (tensor.dtype, tensor.shape) == ("bfloat16", (2, 2))
    np.testing.assert_allclose(tensor.read().ravel(), values, rtol=1 / 128)


# ---- --verify


OPUS = "A cat.\nEine Katze\n{0}\n\nIt rains.\nEs regnet heute.\n{1}\n\n"


@pytest.mark.parametrize("form", ["A cat.\t{0}\nIt rains.\t{1}\n", OPUS, OPUS.rstrip()])
def test_pairs(tmp_path, form: str):
    path = tmp_path / "pairs"
    path.write_text(form.format("Die Katze.", "Es regnet."), encoding="utf-8")
    assert read_pairs(path) == [("A cat.", "Die Katze."), ("It rains.", "Es regnet.")]


def test_blocks_with_tabs_and_an_empty_output(tmp_path):
    path = tmp_path / "pairs"
    path.write_text("A\tcat.\nEine Katze\nDie\tKatze.\n\nIt rains.\nEs regnet.\n\n\n")
    assert read_pairs(path) == [("A\tcat.", "Die\tKatze."), ("It rains.", "")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a\tb\nc\n", "line 2: expected a source, a tab and an output, got 'c'"),
        ("a\tb\tc\n", "line 1: expected a source"),
        ("a\nb\n", "line 1: expected a source, a tab"),
        ("a\nb\nc\nd\n", "line 1: expected a source, a tab"),
    ],
)
def test_files_of_another_form(tmp_path, text: str, message: str):
    (tmp_path / "pairs").write_text(text)
    with pytest.raises(DataError, match=message):
        read_pairs(tmp_path / "pairs")


@pytest.mark.integration
def test_outputs_are_verified_with_an_import_and_later(tmp_path, capsys):
    sources = (FIXTURE / "test.en").read_text(encoding="utf-8").splitlines()[:3]
    pieces = sentencepiece.SentencePieceProcessor(str(FIXTURE / "target.spm"))
    lines = (FIXTURE / "beam6_norm1.txt").read_text(encoding="utf-8").splitlines()[:3]
    expected = [pieces.decode(line.split()) for line in lines]
    expected[1] = "Etwas anderes."
    path = tmp_path / "pairs.tsv"
    pairs = zip(sources, expected, strict=True)
    path.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    flags = {"output_dir": tmp_path / "run", "verify": path}
    error = run_command(capsys, 1, model_dir=FIXTURE, **flags)
    assert "only 2 of 3 outputs are as expected, fewer than 98 %" in error
    assert run_command(capsys, 1, **flags) == error
    report = verify(str(tmp_path / "run"), read_pairs(path)).report
    assert report.startswith("2 of 3 outputs are as expected (66.7 %)\nBLEU against the expected")
    assert "\n2 expected: Etwas anderes." in report
    path.write_text(f"{sources[0]}\t{expected[0]}\n", encoding="utf-8")
    assert run_command(capsys, **flags).startswith("1 of 1 outputs are as expected (100.0 %)\n")


@pytest.mark.parametrize(
    ("equal", "count", "passes"),
    [(98, 100, True), (97, 100, False), (49, 50, True), (48, 50, False), (979, 1000, False)],
)
def test_98_percent_of_the_outputs_must_be_as_expected(equal: int, count: int, passes: bool):
    found = Verification(equal, count, "")
    if passes:
        found.require_equal()
        return
    with pytest.raises(UserError, match=rf"^only {equal} of {count} outputs .* fewer than 98 %"):
        found.require_equal()


def test_an_8_bit_model_whose_outputs_differ_is_compared_by_bleu():
    Verification(5, 5, "", bleu=0.0, is_8_bits=True).require_equal()
    Verification(1, 10, "", bleu=80.0, is_8_bits=True).require_equal()
    with pytest.raises(UserError, match=r"BLEU .* is 79.90, below 80"):
        Verification(9, 10, "", bleu=79.9, is_8_bits=True).require_equal()
