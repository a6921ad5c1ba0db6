"""Students for Bergamot's engine: what is written, what comes back, and what is refused by name."""

import importlib.util
import json
import pathlib
import re
import textwrap

import numpy as np
import pytest
from keras import ops

from support import small_runs
from support.model_kinds import make_model, model_of, with_noise
from t2t_lite import registry
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.errors import UsageError, UserError
from t2t_lite.interop.export import firefox
from t2t_lite.interop.export.firefox import _model_info
from t2t_lite.interop.export.firefox_model import (
    Side,
    engine_list,
    parts_of,
    require_runnable,
    side_of,
)
from t2t_lite.interop.export.input_multipliers import input_multipliers
from t2t_lite.interop.imports import open_models
from t2t_lite.interop.imports.marian_binary import read_binary
from t2t_lite.interop.layouts.marian import SETTINGS
from t2t_lite.models.transformer import Transformer
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text import vocabularies
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.multilingual_encoder import MultilingualEncoder, language_symbol
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.sentencepiece_model import Piece, PieceKind, pieces_of, with_more_pieces
from t2t_lite.text.text_encoder import SPACE, VocabType

TEXT = ["plain words and spaces around", "no break, carriage return; many words"] * 20
LINES = ["plain words", "many words and no break", "a", "spaces return, plain and around; no"]
SIZES = {
    "hidden_size": 64,
    "filter_size": 64,
    "num_heads": 2,
    "num_encoder_layers": 1,
    "num_decoder_layers": 2,
}


def vocabulary(folder: pathlib.Path, vocab_type: str, size: int = 301) -> SentencePieceEncoder:
    path = folder / "vocab.model"
    vocabularies.build(vocab_type, path, TEXT, size)
    return SentencePieceEncoder(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFolder:
    folder = tmp_path_factory.mktemp("student")
    problem = registry.problem("text2text_tmpdir_unigram")
    (folder / "data").mkdir()
    vocabularies.build(problem.vocab_type, folder / "data" / problem.vocab_filename, TEXT, 301)
    run = small_runs.make_run(
        folder / "run",
        problem.name,
        hparams_set="transformer_student_tiny_ssru",
        data_dir=folder / "data",
        max_length=40,
        **SIZES,
    )
    small_runs.save_weights(run.folder, with_noise(run.build_model(), 1.0))
    return run


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("export")
    (folder / "dev.txt").write_text("\n".join(LINES), encoding="utf-8")
    size = run.encoders["targets"].vocab_size
    table = np.random.RandomState(0).randint(0, size, (size, 5))
    Shortlist([5, 9], table, size).write(str(folder / "list.txt"), run.encoders)
    hparams = DecodeHParams.of(run, f"shortlist={folder / 'list.txt'}")
    codes = ("de", "en")
    firefox.export(run, None, str(folder), hparams, codes, str(folder / "dev.txt"))
    return folder / "firefox" / "1"


@pytest.mark.integration
def test_an_export_comes_back_as_it_was(run, exported, tmp_path):
    """Float32: every weight, with biases of 0, and so the logits; 8 bits: nearly."""
    names = {path.name for path in exported.iterdir()}
    assert names == {
        *("model.deen.intgemm.alphas.bin", "model.deen.float32.bin", "vocab.deen.spm"),
        *("lex.50.50.deen.s2t.bin", "config.intgemm8bitalpha.yml", "model_info.json"),
        "README.md",
    }
    features = {"inputs": np.array([[9, 20, 1]]), "targets": np.array([[7, 30, 12, 1]])}
    before = ops.convert_to_numpy(run.load_model(None)[0](features))
    # Ours has no padding in an imported vocabulary: the ids after it are one higher.
    shifted = {side: np.where(ids > 1, ids + 1, ids) for side, ids in features.items()}
    for name, largest in (("model.deen.float32.bin", 1e-5), ("model.deen.intgemm.alphas.bin", 0.5)):
        folder = tmp_path / name
        open_models.import_run(str(exported), str(folder), checkpoint_path=str(exported / name))
        again = ops.convert_to_numpy(RunFolder.open(str(folder)).load_model(None)[0](shifted))
        same = np.delete(again, [0, 2], axis=-1)[..., : before.shape[-1] - 1]
        assert np.abs(same - np.delete(before, 0, axis=-1)).max() < largest
    tensors, _ = read_binary(exported / "model.deen.float32.bin")
    biases = [t.read() for name, t in tensors.items() if name.endswith(("_bq", "_bo"))]
    assert biases
    assert not any(bias.any() for bias in biases)
    assert tensors["Wemb"].shape[0] % 8 == 0
    assert (RunFolder.open(str(folder)).folder / "shortlist.txt").is_file()


@pytest.mark.integration
def test_the_folder_says_what_it_is(exported):
    card = (exported / "README.md").read_text(encoding="utf-8")
    assert card.startswith('---\nlanguage:\n  - "de"\n  - "en"\n')
    assert "from German to English" in card
    info = json.loads((exported / "model_info.json").read_text(encoding="utf-8"))
    assert (info["src"], info["trg"], info["type"]) == ("de", "en", "tiny")
    assert json.loads(_model_info(("de", "en"), "base"))["modelName"] == "de-en base"


@pytest.mark.integration
@pytest.mark.skipif(not importlib.util.find_spec("fxtranslate"), reason="needs fxtranslate")
def test_the_engine_writes_what_the_decoder_writes(run, exported, monkeypatch, capsys):
    import fxtranslate

    hparams = DecodeHParams.of(run, "beam_size=1,length_factor=2,extra_length=4")
    decoder = Decoder.from_run(run, hparams=hparams)
    found = [beams[0].ids for beams in decoder.decode(decoder.text.encode(LINES))]
    # As pieces: the engine does not join bytes to characters.
    pieces = ["".join(run.encoders["targets"].symbol(id_) for id_ in ids) for ids in found]
    wanted = [text.replace(SPACE, " ").strip() for text in pieces]
    assert all(wanted)
    model, spm = (exported / n for n in ("model.deen.float32.bin", "vocab.deen.spm"))
    engine = fxtranslate.Translator(*(path.read_bytes() for path in (model, spm, spm)))
    assert [engine.translate(line).strip() for line in LINES] == wanted
    names = ("model.deen.intgemm.alphas.bin", *["vocab.deen.spm"] * 2, "lex.50.50.deen.s2t.bin")
    narrow = fxtranslate.Translator(*((exported / name).read_bytes() for name in names))
    assert all(isinstance(narrow.translate(line), str) for line in LINES)
    monkeypatch.chdir(exported)
    readme = (exported / "README.md").read_text(encoding="utf-8")
    exec(textwrap.dedent(re.search(r"^    import fxtranslate\n(?:    .*\n)+", readme, re.M)[0]))
    assert capsys.readouterr().out.strip() == narrow.translate("A sentence.").strip()


# ---- what is refused


@pytest.mark.integration
def test_the_search_is_the_engines(run, tmp_path):
    with pytest.raises(UsageError, match="set only shortlist"):
        firefox.export(run, None, str(tmp_path), DecodeHParams.of(run, "beam_size=3"))
    with pytest.raises(UserError, match="or name sources, one per line, with --dev_file"):
        firefox.export(run, None, str(tmp_path), DecodeHParams.of(run))
    with pytest.raises(UsageError, match="--to_code=a/b: expected the code of a language"):
        firefox.export(run, None, str(tmp_path), DecodeHParams.of(run), ("de", "a/b"))
    assert not (tmp_path / "firefox").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_self": "attention"}, "hparam decoder_self=attention: .* only decoder_self=ssru"),
        ({"ffn_activation": "gelu"}, "hparam ffn_activation=gelu"),
        ({"pos": "emb"}, "hparam pos=emb"),
        (
            {"layer_preprocess_sequence": "n", "layer_postprocess_sequence": "da"},
            "hparam layer_preprocess_sequence=n: .* only layer_preprocess_sequence=none",
        ),
        ({"layer_final_sequence": "n"}, "hparam layer_final_sequence=n"),
        ({"ffn_layer": "parameter_attention"}, "hparam ffn_layer=parameter_attention"),
        (
            {"shared_embedding_and_softmax_weights": False, "shared_embedding": True},
            "softmax of this model .*shared_target_and_softmax_weights=true",
        ),
        ({"multiply_embedding_mode": "none"}, "hparam multiply_embedding_mode=none"),
        ({"attention_key_channels": 8}, "hparam attention_key_channels=8"),
        ({"end_ids": "2"}, "hparam end_ids=2"),
        ({"start_id": 1}, "hparam start_id=1"),
        ({}, "hparam hidden_size=16: .* multiple of 64"),
    ],
)
def test_what_the_engine_does_not_run_is_named(changes, message):
    with pytest.raises(UserError, match=message):
        require_runnable(make_model("ssru", **changes))


def test_a_softmax_that_unequal_vocabularies_leave_untied_is_refused():
    sizes = {"hidden_size": 64, "filter_size": 64, "num_heads": 2, "num_encoder_layers": 1}
    model = Transformer("transformer_student_tiny_ssru", 24, 16, **sizes)
    with pytest.raises(UserError, match="the softmax of this model has a matrix of its own"):
        require_runnable(model)
    tied = Transformer(model.hparams, 24, 16, shared_target_and_softmax_weights=True)
    assert require_runnable(tied) == tied.hparams


def test_another_model_is_named():
    with pytest.raises(UserError, match=r"model \w+: Bergamot"):
        require_runnable(model_of("luong"))


@pytest.mark.parametrize("vocab_type", [VocabType.SENTENCEPIECE_BPE])
def test_another_vocabulary_is_refused(tmp_path, vocab_type):
    with pytest.raises(UserError, match=r"VocabType\.SENTENCEPIECE_UNIGRAM"):
        side_of(vocabulary(tmp_path, vocab_type))


def test_a_model_of_several_languages_is_refused(tmp_path):
    path = tmp_path / "vocab.model"
    symbols = [language_symbol(code) for code in ("de", "fr")]
    vocabularies.build(VocabType.SENTENCEPIECE_UNIGRAM, path, TEXT, 301, reserved_tokens=symbols)
    assert len(side_of(SentencePieceEncoder(path)).ids) % 8 == 0  # of targets
    with pytest.raises(UserError, match="begin with the token of a language"):
        side_of(MultilingualEncoder(path))


# ---- parts


def test_a_vocabulary_is_filled_up_with_pieces_that_no_text_has(tmp_path):
    encoder = vocabulary(tmp_path, VocabType.SENTENCEPIECE_UNIGRAM)
    size, side = encoder.vocab_size, side_of(encoder)
    assert len(side.ids) % 8 == 0
    assert [*side.ids] == [*range(size), *[-1] * (len(side.ids) - size)]
    (tmp_path / "longer.model").write_bytes(side.spm)
    longer = SentencePieceEncoder(tmp_path / "longer.model")
    assert longer.vocab_size == len(side.ids)
    assert [longer.encode(line) for line in LINES] == [encoder.encode(line) for line in LINES]


def test_what_fills_a_vocabulary_up_has_no_name_of_its_pieces(tmp_path):
    """SentencePiece does not load a model that has a piece twice."""
    own = vocabulary(tmp_path, VocabType.SENTENCEPIECE_UNIGRAM).model
    more = [Piece(f"<unused{number}>", 0.0, PieceKind.UNUSED) for number in (0, 2)]
    (tmp_path / "vocab.model").write_bytes(with_more_pieces(own, more))
    side = side_of(SentencePieceEncoder(tmp_path / "vocab.model"))
    assert side.ids[-1] == -1
    names = [piece.text for piece in pieces_of(side.spm)]
    assert len({*names}) == len(names)


def short_list(always: list[int]) -> Shortlist:
    return Shortlist(always, np.array([[0, 0], [0, 0], [3, 2], [0, 0]]), 5)


def test_candidates_of_every_source_are_those_of_eos():
    side = Side(b"", [0, 1, 2, 3, -1])
    found = engine_list(short_list([4]), side, Side(b"", range(5)))
    # EOS is always a candidate; the last id needs one.
    assert found == ([[], [1, 4], [2, 3], [], [1]], 0)


def test_the_first_ids_are_those_of_every_source_if_they_are_alone():
    ids = [1, 2, 3, 4]  # the engine's vocabulary has no padding
    found = engine_list(short_list([1, 2]), Side(b"", [1, 2, 3]), Side(b"", ids))
    assert found == ([[], [1, 2], [0]], 2)


def test_multipliers_are_of_the_largest_inputs_of_each_call():
    """The softmax's, which is called at each position, and the encoder's, for each sentence."""
    model = model_of("ssru")
    parts = parts_of(model, model.hparams)
    pairs = [([5, 6, 1], [7, 1]), ([4, 1], [8, 9, 3, 1])]
    found = input_multipliers(model, parts, pairs)
    tops, sources = [], []
    for source, target in pairs:
        features = {"inputs": np.array([source]), "targets": np.array([target])}
        tops += [*np.abs(ops.convert_to_numpy(model.hidden(features))[0]).max(axis=-1)]
        sources.append(np.abs(ops.convert_to_numpy(model.encoder(features["inputs"]))).max())
    for name, values in (("none", tops), ("decoder_l1_context_Wk", sources)):
        assert found[name] == pytest.approx(127 / (np.mean(values) + 1.1 * np.std(values)), 1e-4)
    assert found["none"] == found["Wemb"]
    kernels = {name for part in parts if part.variable.endswith(".kernel") for name in part.names}
    assert {*found} == {*kernels, "none", "Wemb"}
    assert SETTINGS not in found
