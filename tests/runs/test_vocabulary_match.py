"""Where the rows of a vocabulary come from in a warm start, encoder by encoder."""

from types import SimpleNamespace

import numpy as np
import pytest

from support import small_runs
from support.lines import TEXT
from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.models.seq2seq import VocabularyRows
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.vocabulary_match import Vocabularies, gathered
from t2t_lite.runs.warm_start import warm_start
from t2t_lite.text import sentencepiece_model, sentencepiece_training
from t2t_lite.text.imported_encoder import TRANSLATION, ImportedEncoder, write_encoder
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder
from t2t_lite.text.text_encoder import ByteTextEncoder, NoText, TabEncoder, TokenTextEncoder

OTHER_TEXT = ["Малая лодка стоит в гавани, а мальчик сидит.", "The harbour and the small boys."]


def trained(folder, kind="bpe", lines=TEXT, size=330):
    path = folder / f"{len(list(folder.iterdir()))}.model"
    sentencepiece_training.train(kind, path, lines, size)
    return SentencePieceEncoder(path)


def origins(ours, theirs, *more, side="inputs"):
    """The origins of rows, one for each id; `more`: the targets' encoders, of the same weight."""
    runs = [
        SimpleNamespace(encoders={"inputs": one, "targets": other})
        for one, other in zip((ours, theirs), more or (ours, theirs), strict=True)
    ]
    rows = [np.zeros((encoder.vocab_size, 1)) for encoder in (ours, theirs)]
    sides = ("inputs", "targets") if more else (side,)
    pairs = [tuple(VocabularyRows("role", row, side) for row in rows) for side in sides]
    return Vocabularies(*runs).origins(pairs)


def by_symbol(ours, theirs):
    """The symbols of the rows there, by the symbol of the row here."""
    return {
        ours.symbol(id_): [theirs.symbol(other) for other in others]
        for id_, others in enumerate(origins(ours, theirs))
        if id_ > 1
    }


@pytest.mark.parametrize("kinds", [("bpe", "bpe"), ("unigram", "bpe"), ("bpe", "unigram")])
def test_a_new_piece_takes_those_that_spell_it(tmp_path, kinds):
    theirs = trained(tmp_path, kinds[0])
    ours = trained(tmp_path, kinds[1], OTHER_TEXT)
    found = by_symbol(ours, theirs)
    known = set(map(theirs.symbol, range(2, theirs.vocab_size)))
    for symbol, others in found.items():
        if symbol in known:
            assert others == [symbol]
        else:
            text = symbol.replace("▁", " ")
            assert others == [theirs.symbol(id_) for id_ in theirs.encode(text)]
            assert len(others) > 1
    assert any(symbol not in known for symbol in found)
    assert found["М"] == ["<0xD0>", "<0x9C>"]


def test_equal_vocabularies_are_copied_row_by_row(tmp_path):
    encoder = trained(tmp_path)
    assert origins(encoder, encoder) == [(id_,) for id_ in range(encoder.vocab_size)]


def test_subtokens_keep_the_ends_of_words_apart():
    letters = list("\\_u;0123456789ab<pdEOS>")
    theirs = SubwordTextEncoder(["<pad>_", "<EOS>_", *letters, "a_", "b_"])
    ours = SubwordTextEncoder(["<pad>_", "<EOS>_", *letters, "ab_", "ab", "b_", "é", "\\2"])
    found = by_symbol(ours, theirs)
    assert found["ab_"] == ["a", "b_"]
    assert found["ab"] == ["a", "b"]
    assert found["b_"] == ["b_"]
    assert found["é"] == ["\\", "2", "3", "3", ";"]
    assert found["\\2"] == []  # half of a code


def imported(folder, pieces, model=b"", **settings):
    path = folder / f"{len(list(folder.iterdir()))}.json"
    write_encoder(path, ["<pad>", "</s>", "<unk>", *pieces], 2, model=model, **settings)
    return ImportedEncoder(path)


def test_imported_pieces_keep_the_starts_of_words_apart(tmp_path):
    own = ["▁", "▁a", "a", "b"]  # the model puts a space before each text
    model = sentencepiece_model.merging_model(own, {"▁a": 0}, b"")
    theirs = imported(tmp_path, own, model)
    ours = imported(tmp_path, ["▁ab", "ab", "ba", "▁ba", "b", "ac", "<0x41>"], model)
    found = by_symbol(ours, theirs)
    assert found["▁ab"] == ["▁a", "b"]
    assert found["ab"] == ["a", "b"]
    assert found["ba"] == ["b", "a"]
    assert found["▁ba"] == ["▁", "b", "a"]
    assert found["b"] == ["b"]
    assert found["<unk>"] == ["<unk>"]
    assert found["ac"] == found["<0x41>"] == []  # an unknown letter; a byte


def test_vocabularies_of_other_kinds_spell_the_text_of_pieces(tmp_path):
    pieces = trained(tmp_path)
    found = by_symbol(pieces, ByteTextEncoder())
    assert found["▁boat"] == list(" boat")
    path = tmp_path / "words"
    path.write_text("boat\nboxes\n", encoding="utf-8")
    words = TokenTextEncoder(path)
    assert by_symbol(words, pieces)["boat"] == ["▁boat"]
    boxes = [pieces.symbol(id_) for id_ in pieces.encode(" boxes")]
    assert by_symbol(words, pieces)["boxes"] == boxes
    assert by_symbol(words, TabEncoder(pieces, "$"))["boxes"] == boxes
    letters = list("\\_u;0123456789abotxes<pdEOS>")
    subtokens = SubwordTextEncoder(["<pad>_", "<EOS>_", *letters, "boat", "boat_"])
    inside = [pieces.symbol(id_) for id_ in pieces.encode("boat")]
    assert by_symbol(subtokens, pieces)["boat_"] == inside
    assert by_symbol(pieces, subtokens)["▁boat"] == ["boat"]
    assert origins(NoText(), pieces) == []


def test_a_language_starts_from_itself_or_from_the_mean_of_those_there(tmp_path):
    def of(languages, first=4):
        ids = {code: id_ for id_, code in enumerate(languages, first)}
        names = [f"{first}{code}" for code in languages]
        special = list(ids.values())
        settings = {"languages": ids, "language_of": TRANSLATION} if ids else {}
        return imported(tmp_path, ["w"] * (first > 3) + names, special=special, **settings)

    theirs, ours = of(("de", "en")), of(("en", "cs"), 3)
    assert origins(ours, theirs)[3:] == [(5,), (4, 5)]
    assert origins(ours, imported(tmp_path, ["w"]))[3:] == [(), ()]
    # Targets without such tokens leave the rows to the sources.
    assert origins(ours, theirs, TokenTextEncoder(_words(tmp_path)), theirs)[4] == (4, 5)


def _words(folder):
    path = folder / "five"
    path.write_text("x\ny\nz\n", encoding="utf-8")
    return path


def test_the_mean_is_that_of_the_rows_along_the_axis_of_the_ids():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    rows = [
        VocabularyRows("role", SimpleNamespace(numpy=lambda value=value: value), "inputs", 1)
        for value in (np.full((2, 3), 9, np.float32), values)
    ]
    found = gathered(tuple(rows), [(2,), (), (0, 1, 1)])
    assert found.tolist() == [[2, 9, np.float32(2 / 3)], [5, 9, np.float32(11 / 3)]]


SMALL = "num_hidden_layers=1,hidden_size=8,softmax_bias=true"


@pytest.mark.integration
@pytest.mark.parametrize("is_shared", [True, False])
def test_embeddings_softmax_and_bias_start_from_means(tmp_path, monkeypatch, is_shared):
    theirs = trained(tmp_path)
    ours = trained(tmp_path, lines=[*TEXT, *OTHER_TEXT], size=390)
    run, model = _run(tmp_path, monkeypatch, theirs, is_shared)
    new = registry.model("transformer")(run.hparams, ours.vocab_size, ours.vocab_size)
    before = {row.role: row.weight.numpy() for row in new.vocabulary_rows()}
    assert len(before) == 4
    warm_start(new, str(run.folder), SimpleNamespace(encoders=dict.fromkeys(run.encoders, ours)))
    there = {row.role: row.weight.numpy() for row in model.vocabulary_rows()}
    found = origins(ours, theirs)
    assert sum(len(rows) > 1 for rows in found) > 20
    for row in new.vocabulary_rows():
        for value, old, others in zip(row.weight.numpy(), before[row.role], found, strict=True):
            expected = there[row.role][list(others)].mean(axis=0) if others else old
            np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-7)


def _run(folder, monkeypatch, encoder, is_shared=True):
    """A run with this vocabulary, and its model, of random weights."""
    monkeypatch.setattr(
        RunFolder, "encoders", property(lambda _: {"inputs": encoder, "targets": encoder})
    )
    shared = f"shared_embedding_and_softmax_weights={str(is_shared).lower()}"
    run = small_runs.make_run(folder / "other", overrides=f"{SMALL},{shared}")
    model = run.build_model()
    random = np.random.default_rng(3)
    for weight in model.trainable_variables:
        weight.assign(random.normal(size=weight.shape))
    small_runs.save_weights(folder / "other", model)
    return run, model


@pytest.mark.integration
def test_a_model_is_trained_further_with_more_pieces_but_not_with_fewer(tmp_path, monkeypatch):
    path = tmp_path / "words"
    encoders = []
    for words in ("a b", "b c a d", "a d e f"):
        path.write_text("".join(f"{word}\n" for word in words.split()), encoding="utf-8")
        encoders.append(TokenTextEncoder(path))
    theirs, more, other = encoders
    run, _ = _run(tmp_path, monkeypatch, theirs)
    hparams = run.hparams.copy(warm_start_model=True)

    def start(encoder):
        model = registry.model("transformer")(hparams, encoder.vocab_size, encoder.vocab_size)
        runs = SimpleNamespace(encoders=dict.fromkeys(run.encoders, encoder))
        warm_start(model, str(run.folder), runs)

    start(more)
    with pytest.raises(UserError, match=r"do not fit: .* \(3 of 6 rows copied"):
        start(other)
