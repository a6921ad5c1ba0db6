"""Sources that look equal are read as one, whatever is asked of them; and targets as they are."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from support.codecs import codec_of
from support.copying import Bytes
from support.lines import TEXT
from t2t_lite.data.problem import Output
from t2t_lite.decoding.encoding import StagedCodec
from t2t_lite.decoding.hypotheses import Details, Hypothesis
from t2t_lite.decoding.long_lines import Cutter
from t2t_lite.decoding.output_formats import output_formatter
from t2t_lite.decoding.request import TextOptions
from t2t_lite.decoding.stages.markup import Markup
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.terms.term_list import TermList
from t2t_lite.text import sentencepiece_model, sentencepiece_training
from t2t_lite.text.multilingual_encoder import MultilingualEncoder
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import ByteTextEncoder, TabEncoder

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures"
CLEAN = "Ein Café in Zürich: 6 km"
FORMS = [
    CLEAN,
    "Ein Cafe\u0301 in Zu\u0308rich: 6 km",
    "Ein\u00a0Café\u3000in\u2009Zürich: 6\u202fkm",
    "Ein Café in Zürich:\u200b 6 km",
    "\u200fEin Café\u200e in Zürich: 6 km\ufeff",
    "\ufeffEin Ca\u00adfé in \u2067Zürich\u2069: 6 km\x01",
    " \u200b Ein Café in Zürich: 6 km\u2028",
]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def encoder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "vocab.model"
    sentencepiece_training.train(request.param, path, [*TEXT, CLEAN], 340)
    return SentencePieceEncoder(path)


def codec(encoder, **settings) -> StagedCodec:
    return codec_of(Bytes(), {"inputs": encoder, "targets": encoder}, **settings)


class TestSources:
    def test_texts_that_look_equal_have_the_same_ids(self, encoder):
        found = codec(encoder).encode(FORMS)
        assert {(source.text, *source.ids) for source in found} == {
            (CLEAN, *encoder.encode(CLEAN), 1)
        }

    def test_users_are_shown_their_own_text(self, encoder):
        found = codec(encoder).encode(FORMS)
        assert [source.shown for source in found] == [form.strip() for form in FORMS]
        line = output_formatter("json", DecodeHParams())(found[1], [])
        assert json.loads(line)["source"] == FORMS[1]

    def test_lines_stay_lines(self, encoder):
        (source,) = codec(encoder).encode(["Zu\u0308rich\u2028a\u0085b\nCafe\u0301"])
        assert source.text == "Zürich a b\nCafé"
        pieces = Cutter(codec(encoder), "split").pieces(source, "line")
        assert [piece.text for (piece,) in pieces] == ["Zürich a b", "Café"]

    def test_targets_are_read_as_they_are(self, encoder):
        for form, ids in zip(FORMS, codec(encoder).encode_targets(FORMS, "line"), strict=True):
            assert encoder.decode(ids) == form.strip()

    def test_texts_with_tabs(self, encoder):
        tabs = TabEncoder(encoder, "$")
        texts = tabs.as_source("Cafe\u0301\u00a0\tZu\u0308rich\t\u200b")
        assert texts == "Café\tZürich\t"
        assert tabs.encode("\t\u200b") == []

    def test_the_language_that_a_text_names(self, tmp_path):
        path = tmp_path / "model"
        sentencepiece_training.train("bpe", path, [*TEXT, CLEAN], 340, ["<2de>", "<2fr>"])
        languages = MultilingualEncoder(path)
        named = [f">>fr<< {form.strip()}" for form in FORMS[:-1]]
        text = codec_of(Bytes(), {"inputs": languages, "targets": ByteTextEncoder()})
        found = {(*source.ids,) for source in text.encode(named)}
        assert found == {(*languages.encode(f">>fr<< {CLEAN}"), 1)}


class TestVocabulariesWithoutTheRecord:
    """They read sources as ever."""

    @pytest.mark.parametrize("kind", ["of before", "bytes"])
    def test_texts_keep_their_form(self, kind, tmp_path):
        if kind == "bytes":
            encoder = ByteTextEncoder()
        else:
            shutil.copy(FIXTURES / "vocabulary_without_source_form.model", tmp_path / "model")
            encoder = SentencePieceEncoder(tmp_path / "model")
        for form, source in zip(FORMS, codec(encoder).encode(FORMS), strict=True):
            assert source.text == form.strip()
            assert list(source.ids) == [*encoder.encode(form.strip()), 1]

    def test_pieces_added_to_a_vocabulary_do_not_change_it(self):
        model = (FIXTURES / "vocabulary_without_source_form.model").read_bytes()
        assert sentencepiece_model.with_more_pieces(model, []) == model


@pytest.mark.parametrize("unseen", ["\u200b", "\ufeff", "\u00ad", "\u2060", "\x01", "\u200e\u200f"])
def test_a_line_that_nobody_sees_has_nothing_to_decode(encoder, unseen):
    for own in (encoder, ByteTextEncoder()):
        text = codec(own)
        sources = text.encode([unseen, f" {unseen}\n{unseen}", f"a\n{unseen}\nb"])
        assert [source.text for source in sources[:2]] == ["", ""]
        assert not any(source.ids for source in sources[:2])
        lines = Cutter(text, "split").pieces(sources[2], "line")
        assert [bool(piece.ids) for (piece,) in lines] == [True, False, True]


class TestLongLines:
    def test_zero_width_spaces_are_borders_of_words_that_no_model_reads(self, encoder):
        line = "\u200b".join(["bootboot", "hafen", "kleines", "liegt"] * 4)
        text = codec(encoder, max_input_size=10)
        (source,) = text.encode([line])
        (pieces,) = Cutter(text, "split").pieces(source, "line")
        words = line.split("\u200b")
        assert len(pieces) > 1
        assert "".join(piece.text for piece in pieces) == "".join(words)
        ends = np.cumsum([len(word) for word in words]).tolist()
        assert set(np.cumsum([len(piece.text) for piece in pieces]).tolist()) <= {*ends}
        for piece in pieces:
            assert list(piece.ids) == [*encoder.encode(piece.text), 1]


class TestMarkup:
    """Tags stay at the characters that they were at."""

    @pytest.mark.parametrize(
        ("line", "text", "inside"),
        [
            ("Zu\u0308rich <b>Cafe\u0301</b> x", "Zürich Café x", "Café"),
            ("\u200b\u200bZurich\u200b <b>\ufeffboat\u200b</b> x", "Zurich boat x", "boat"),
            ("Cafe<b>\u0301 boat</b>", "Café boat", " boat"),
            ("<b>e</b>\u0301t\u00e9", "été", "é"),
            ("6\u00a0<b title='\u00a0e\u0301'>km</b>", "6 km", "km"),
            ("ab <b>c&nbsp;d</b>", "ab c d", "c d"),
        ],
    )
    def test_elements(self, encoder, line, text, inside):
        (source,) = codec(encoder).encode([line], TextOptions(markup="html"))
        segment = source.notes[Markup]
        (node,) = (node for node in segment.nodes if not node.is_atom)
        assert source.text == segment.text == text
        assert text[node.start : node.end] == inside
        assert segment.source == line

    def test_outputs_have_the_tags_as_they_were(self, encoder):
        line = "Zu\u0308rich <b title='e\u0301\u00a0'>Cafe\u0301</b>\u200b"
        text = codec(encoder)
        (source,) = text.encode([line], TextOptions(markup="html"))
        tokens = [encoder.decode([i]) for i in source.ids[:-1]]
        attention = np.eye(len(tokens))
        details = Details(tokens, tokens, np.zeros(len(tokens)), attention)
        found = Hypothesis(Output("Zürich Café"), [], 0.0, details)
        (marked,) = text.stages_of(source).after(source, [found])
        assert marked.output.text == "Zürich <b title='e\u0301\u00a0'>Café</b>"

    def test_a_line_that_nobody_sees_is_its_own_output(self, encoder):
        text = codec(encoder)
        (source,) = text.encode(["\u200b<br>\ufeff"], TextOptions(markup="html"))
        assert not source.ids
        (found,) = text.stages_of(source).after(source, [])
        assert found.output.text == "\u200b<br>\ufeff"

    def test_marks_are_read_and_control_characters_are_not(self, encoder):
        text = codec(encoder, trained_with=["markup_augmentation"])
        line = "Zu\u0308\x11rich <code>x</code> Cafe\u0301"
        (source,) = text.encode([line], TextOptions(markup="html"))
        (mark,) = source.kept
        assert source.text == source.notes[Markup].text == f"Zürich {mark} Café"
        (plain,) = text.encode(["Zu\u0308\x11rich"])
        assert plain.text == "Zürich"


class TestTerms:
    @pytest.mark.parametrize("term", ["Café", "Cafe\u0301", "Ca\u00adfé"])
    def test_terms_are_found_in_every_form(self, encoder, term):
        options = TextOptions(terms={term: ["coffee", "cafe\u0301"]})
        for source in codec(encoder).encode(FORMS, options):
            (wanted,) = source.terms.wanted(source.text)
            assert wanted.forms == ("coffee", "cafe\u0301")

    def test_equal_terms_share_their_forms(self):
        terms = TermList.of({"Café": "a", "Cafe\u0301": ["b", "a"], "x": "y"}, ["e\u0301"])
        found = terms.of_source_form
        assert found.forms == {"Café": ("a", "b"), "x": ("y",)}
        assert found.forbidden == ("e\u0301",)
        assert found.of_source_form is found


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("a \u200b b", ["a", "b", "<EOS>"]),
        ("a\u00a0\u3164 b", ["a", " \u3164", " b", "<EOS>"]),
        ("a\u00a0\u2800 b", ["a", " \u2800", " b", "<EOS>"]),
    ],
)
def test_alignments_count_the_words_of_the_line_as_it_is(encoder, line, tokens):
    text = codec(encoder)
    (source,) = text.encode([line])
    attention = np.eye(len(tokens))[[0, -2]]
    details = Details(tokens, ["x", "y"], np.zeros(2), attention)
    hypotheses = [Hypothesis(Output("x y"), [], 0.0, details)]
    found = text.stages_of(source).after(source, hypotheses)
    written = output_formatter("alignments", DecodeHParams())(source, found)
    assert written == "0-0 2-1"
