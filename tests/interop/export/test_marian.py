"""Exports for Marian: the way back by t2t-import, and what Marian cannot compute."""

import dataclasses
import pathlib

import numpy as np
import pytest

from support.exported_runs import (
    BPE,
    Made,
    logits,
    made_run,
    random_hparams,
    random_pairs,
    read,
    sentences,
)
from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.export import marian as exporter
from t2t_lite.interop.export.counterparts import explicit_hparams
from t2t_lite.interop.export.marian import marian_arrays
from t2t_lite.interop.export.marian_vocabularies import MarianSide, allowed
from t2t_lite.interop.layouts.marian import SETTINGS, MarianNames
from t2t_lite.models.transformer import Transformer
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text import vocabularies
from t2t_lite.text.multilingual_encoder import MultilingualEncoder, language_symbol, tag_symbol
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder
from t2t_lite.text.text_encoder import TokenTextEncoder

FIXTURE = pathlib.Path(__file__).parents[2] / "fixtures" / "marian"
POST, PRE = (
    {"layer_preprocess_sequence": before, "layer_postprocess_sequence": after}
    for before, after in (("none", "dan"), ("n", "da"))
)


def there_and_back(run: Made, folder: pathlib.Path) -> Made:
    exporter.export(run, None, str(folder / "out"), DecodeHParams.of(run))
    return read(folder / "out" / "marian" / "1", folder / "back")


def arrays(folder: pathlib.Path) -> dict[str, np.ndarray]:
    with np.load(folder / "out" / "marian" / "1" / "model.npz") as file:
        return dict(file)


@pytest.mark.parametrize(
    "seed",
    [
        *(pytest.param(seed, marks=pytest.mark.integration) for seed in (2, 5)),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20) if seed not in (2, 5)),
    ],
)
def test_a_random_model_comes_back(tmp_path, seed):
    """To the bit; what the format adds, a row of padding and biases, is 0."""
    fixed = {"decoder_self": ("attention", "ssru")[seed // 2 % 2], **(PRE if seed % 2 else POST)}
    run = made_run(tmp_path, seed=seed, **random_hparams(seed, **fixed))
    back = there_and_back(run, tmp_path)
    # Marian knows no padding, so that its row is one more: ours by theirs.
    pieces = list(back.encoders["targets"].tokens)
    order = [pieces.index(piece, int(id_ == 0)) for id_, piece in enumerate(tokens(run))]
    pairs = random_pairs(run, 4)
    theirs = [[[order[id_] for id_ in ids] for ids in pair] for pair in pairs]
    for found, expected in zip(logits(back, theirs), logits(run, pairs), strict=True):
        np.testing.assert_allclose(found[:, order], expected, atol=1e-5)
    again = there_and_back(back, tmp_path / "again")
    for name, values in arrays(tmp_path).items():
        np.testing.assert_array_equal(arrays(tmp_path / "again")[name], values, err_msg=name)
    assert again.model.hparams == back.model.hparams


def test_a_matrix_of_one_row_comes_back(tmp_path):
    """In Marian's form, vectors have one row, too."""
    sizes = {"hidden_size": 8, "filter_size": 1, "num_heads": 1, "num_hidden_layers": 1}
    run = made_run(tmp_path, **sizes, **POST)
    found, wanted = (
        np.asarray(each.model.decoder.stack[0].feed_forward.contract.kernel)
        for each in (there_and_back(run, tmp_path), run)
    )
    np.testing.assert_array_equal(found, wanted)


def tokens(run: Made) -> list[str]:
    return list(run.encoders["targets"].tokens)


def test_a_model_of_marian_goes_back_to_its_own_file(tmp_path):
    """Weights and pieces are those of the folder that it came from, with its search."""
    run = read(FIXTURE, tmp_path / "run")
    back = there_and_back(run, tmp_path)
    with np.load(FIXTURE / "model.npz") as file:
        for name in set(file) - {SETTINGS}:
            np.testing.assert_array_equal(arrays(tmp_path)[name], file[name], err_msg=name)
    folder = tmp_path / "out" / "marian" / "1"
    for name in ("source.spm", "target.spm"):
        assert (folder / name).read_bytes() == (FIXTURE / name).read_bytes()
    assert back.model.hparams == run.model.hparams
    assert DecodeHParams.of(back) == DecodeHParams.of(run)


@pytest.mark.integration
def test_every_tensor_has_its_row_in_the_table(tmp_path):
    """Each variable of ours is in one tensor: changing it changes this one alone."""
    run = made_run(tmp_path, **random_hparams(1, **PRE, num_decoder_layers=1))
    model = run.model
    sides = [MarianSide.of(run.encoders[side], has_padding=True) for side in ("inputs", "targets")]
    before, seen = marian_arrays(model, sides), set()
    for variable in model.trainable_variables:
        variable.assign(variable + 1)
        after = marian_arrays(model, sides)
        changed = {name for name in before if not np.array_equal(before[name], after[name])}
        assert changed, variable.path
        assert not changed & seen, (variable.path, changed)
        seen |= changed
        before = after


def test_the_norm_before_a_recurrent_unit_has_its_own_name():
    """As Marian 1.12.42 asks for it; the one after the unit is called rnn_ffn."""
    names = MarianNames()
    places = [names.norm("decoder", 0, "ssru", place, "gamma") for place in ("before", "after")]
    assert places == ["decoder_l1_rnn_ln_scale_pre", "decoder_l1_rnn_ffn_ln_scale"]


def test_marian_is_told_what_it_never_outputs():
    side = MarianSide(["</s>", "<unk>", "<0x0A>", "a"], [1, 2, 3, 4], 1, b"", is_table=True)
    assert allowed(side, [2, 3]) == {"allow-unk": False, "allow-special": False}
    assert allowed(side, [0, 2]) == {"allow-unk": False, "allow-special": True}
    assert allowed(side, []) == {"allow-unk": True, "allow-special": True}
    with pytest.raises(UserError, match=r"suppressed_ids=4: Marian cannot exclude"):
        allowed(side, [4])


def test_words_and_our_own_subwords_have_a_table(tmp_path):
    (tmp_path / "words").write_text("<pad>\n<EOS>\n<UNK>\na\n\u2028b\n", encoding="utf-8")
    words = MarianSide.of(TokenTextEncoder(tmp_path / "words", "<UNK>"), has_padding=True)
    assert words.table().splitlines()[1:4] == ['"</s>": 1', '"<unk>": 2', '"a": 3']
    encoder = SubwordTextEncoder.build_from_token_counts({"ab": 9, "b": 9}, 1)
    subwords = MarianSide.of(encoder, has_padding=True)
    assert subwords.table().splitlines()[:3] == ['"<unk>": 0', '"</s>": 1', '"2": 2']
    assert not subwords.spm


def test_readme_names_the_pieces_of_languages_and_any_setting(tmp_path):
    path = tmp_path / "tagged.model"
    symbols = [language_symbol("de"), language_symbol("fr"), tag_symbol("bt")]
    vocabularies.build(BPE, path, sentences(), 400, reserved_tokens=symbols)
    run = made_run(tmp_path, **random_hparams(0, **POST))
    run.encoders = {"inputs": MultilingualEncoder(path), "targets": SentencePieceEncoder(path)}
    found = []
    for languages in ("", "target_language=fr+bt,shortlist={list}"):
        exporter.export(run, None, str(tmp_path / "out"), DecodeHParams.of(run, languages))
        readme = max((tmp_path / "out").glob("marian/*/README.md"))
        found.append(readme.read_text(encoding="utf-8"))
    assert "Begin each source with the piece of a language: `<2de>`, `<2fr>`.\n" in found[0]
    assert "Begin each source with the piece of a language: `<2fr> <bt>`.\n" in found[1]
    assert "Marian does not obey shortlist={list}.\n" in found[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pos": "emb"}, "pos=emb: Marian computes only timing"),
        ({"pos": "timing_paper"}, "pos=timing_paper"),
        ({"hidden_size": 21, "num_heads": 3}, "hparam hidden_size=21: with an odd number"),
        ({"position_offset": 2}, "position_offset=2"),
        ({"start_id": 1}, "start_id=1"),
        ({"ffn_activation": "gelu_tanh"}, "ffn_activation=gelu_tanh"),
        ({"multiply_embedding_mode": "none"}, "multiply_embedding_mode=none"),
        ({"norm_epsilon": 1e-3}, "norm_epsilon=0.001"),
        ({"end_ids": "3"}, "end_ids=3"),
        ({"attention_key_channels": 4}, "attention_key_channels=4"),
        ({"attention_neighborhood": 3}, "attention_neighborhood=3"),
        ({"use_target_space_embedding": True}, "use_target_space_embedding=True"),
        ({"layer_preprocess_sequence": "a"}, "layer_preprocess_sequence=a: Marian has only the"),
        ({"self_attention_type": "dot_product_relative", "max_relative_position": 2}, "relative"),
        ({"prepend_mode": "prepend_inputs_full_attention"}, "prepend_mode"),
    ],
)
def test_what_marian_cannot_compute_is_refused_by_name(changes, message):
    model = Transformer("transformer_test", 12, 12, num_hidden_layers=1, **changes)
    side = MarianSide([*"abcdefghijkl"], range(12), 2, b"", is_table=True)
    with pytest.raises(UserError, match=message):
        exporter._settings(explicit_hparams(model, "Marian"), [side, side])


def test_fields_that_no_transformer_reads_are_left_out():
    """Those of a set of a user's own, or of another model's."""
    own = dataclasses.make_dataclass("Own", [("usr_rate", float, 0.5)], bases=(TransformerHParams,))
    sizes = {"hidden_size": 8, "num_heads": 1, "num_hidden_layers": 1, **POST}
    side = MarianSide([*"abcdefghijkl"], range(12), 2, b"", is_table=True)
    found, plain = (
        exporter._settings(explicit_hparams(Transformer(h, 12, 12), "Marian"), [side, side])
        for h in (own(**sizes), TransformerHParams(**sizes))
    )
    assert found == plain


def test_other_models_are_refused():
    model = registry.model("lstm_seq2seq")("lstm_seq2seq", 12, 12, hidden_size=8)
    with pytest.raises(UserError, match=r"LSTM.*Marian runs only Transformers"):
        explicit_hparams(model, "Marian")


def test_nothing_is_written_of_a_model_that_is_refused(tmp_path):
    run = made_run(tmp_path, hidden_size=8, num_heads=1, num_hidden_layers=1, pos="none")
    with pytest.raises(UserError, match="pos=none"):
        exporter.export(run, None, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
