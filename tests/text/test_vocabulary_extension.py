"""A vocabulary grows by pieces of other text, and splits its own text as before."""

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from support.lines import LINES, ODD_LINES, TEXT
from t2t_lite.errors import DataError, UserError
from t2t_lite.protocol_buffers import pack
from t2t_lite.text import sentencepiece_model, vocabulary_extension
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.sentencepiece_model import PieceKind, pieces_of
from t2t_lite.text.sentencepiece_training import trained_model

KINDS = ["bpe", "unigram"]
CYRILLIC = [
    "Малая лодка стоит в гавани, а мальчик сидит в лодке.",
    "Лодки стоят в гавани; гавань мала, и лодка мала.",
    "Мальчики сидят в малых лодках.",
] * 3
SYMBOLS = ["<2ru>", "<2en>"]


def old_of(kind):
    old = trained_model(kind, TEXT * 3, 340, "old")
    return sentencepiece_model.with_more_pieces(
        old, [sentencepiece_model.Piece("<2en>", 0.0, PieceKind.CONTROL)]
    )


@pytest.fixture(scope="module", params=KINDS)
def models(request):
    """A model, and what text in another script makes of it."""
    old = old_of(request.param)
    return old, vocabulary_extension.extended(old, CYRILLIC, 400, SYMBOLS)


@pytest.fixture(scope="module")
def processors(models):
    return [sentencepiece.SentencePieceProcessor(model_proto=model) for model in models]


def test_all_pieces_stay_and_new_ones_score_below_them(models):
    old, new = map(pieces_of, models)
    assert new[: len(old)] == old
    symbol, *added = new[len(old) :]
    assert symbol == ("<2ru>", 0.0, PieceKind.CONTROL)  # "<2en>" is there already
    assert len(added) > 20
    assert {piece.kind for piece in added} == {PieceKind.NORMAL}
    least = min(piece.score for piece in old if piece.kind == PieceKind.NORMAL)
    assert max(piece.score for piece in added) < least
    assert len({piece.text for piece in new}) == len(new)


@given(st.one_of(LINES, st.sampled_from([*TEXT, *ODD_LINES])))
def test_a_text_is_split_as_before_unless_a_new_piece_applies(processors, line):
    old, new = (processor.encode(line) for processor in processors)
    if all(id_ < len(processors[0]) for id_ in new):
        assert new == old
    assert processors[1].decode(new) == processors[0].decode(old)
    if line in TEXT:
        assert new == old


def test_the_new_script_has_pieces_all_of_which_are_of_use(processors):
    old, new = processors
    for line in CYRILLIC:
        ids = new.encode(line)
        assert not any(map(new.is_byte, ids))
        assert 3 * len(ids) < len(old.encode(line))
        assert new.decode(ids) == line
    for id_ in range(len(old) + 1, len(new)):
        assert new.encode(new.decode([id_])) == [id_]


def test_no_text_is_a_symbol(processors):
    for processor in processors:
        ids = processor.encode("<2en> a <2ru> b")
        assert not any(map(processor.is_control, ids))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_gives_the_same_bytes_and_its_own_text_adds_nothing(kind):
    old = old_of(kind)
    once, again = (vocabulary_extension.extended(old, CYRILLIC, 400) for _ in range(2))
    assert once == again
    same = vocabulary_extension.extended(old, TEXT * 3, 340)
    assert pieces_of(same) == pieces_of(old)


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_is_an_encoder_or_is_not_there(tmp_path, kind):
    source, path = tmp_path / "old.model", tmp_path / "new.model"
    source.write_bytes(old_of(kind))

    def broken():
        yield CYRILLIC[0]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        vocabulary_extension.extend(path, source, broken(), 400)
    assert not path.exists()
    vocabulary_extension.extend(path, source, CYRILLIC, 400)
    old, new = SentencePieceEncoder(source), SentencePieceEncoder(path)
    assert new.model_type == kind
    assert new.tokens[: old.vocab_size] == old.tokens
    lines = [*CYRILLIC, *TEXT]
    assert new.pack_lines(lines) == [pack(new.encode(line)) for line in lines]


def test_what_cannot_be_extended_is_named(tmp_path):
    with pytest.raises(DataError, match="the symbol '▁', which is one of"):
        vocabulary_extension.extended(old_of("bpe"), CYRILLIC, 400, ["▁"])
    with pytest.raises(DataError, match="cannot build the vocabulary: bytes and characters"):
        vocabulary_extension.extended(old_of("bpe"), CYRILLIC, 250)
    foreign = sentencepiece_model.merging_model(["▁a", "a"], {}, b"")
    with pytest.raises(DataError, match="the model to extend cannot be extended: it is none of"):
        vocabulary_extension.extended(foreign, CYRILLIC, 400)
    with pytest.raises(UserError, match="none: no such file"):
        vocabulary_extension.extend(tmp_path / "new", tmp_path / "none", CYRILLIC, 400)
    (tmp_path / "old").write_text("no model")
    with pytest.raises(DataError, match="old is not a SentencePiece model"):
        vocabulary_extension.extend(tmp_path / "new", tmp_path / "old", CYRILLIC, 400)
