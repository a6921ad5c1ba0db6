"""Translating and scoring from Python."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import t2t_lite as t2t
from support.copying import BytesAlone, bytes_decoder
from support.rounding import assert_close
from support.small_runs import noisy_run
from support.terms import forward_terms
from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.hypotheses import Details, Hypothesis
from t2t_lite.decoding.translator import Translation, Translator
from t2t_lite.errors import DataError, UsageError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder of random weights, opened by the front door."""
    return t2t.open_run(
        noisy_run(tmp_path_factory.mktemp("run"), hidden_size=16, num_hidden_layers=1).folder
    )


@pytest.mark.integration
def test_a_text_gives_a_text_and_a_list_a_list(run):
    translate = run.translator(beam_size=2, extra_length=3)
    text = translate("A cat.")
    assert isinstance(text, str)
    assert translate(["A cat.", "", "So."]) == [text, "", translate("So.")]


@pytest.mark.integration
def test_a_text_of_several_lines_gives_as_many(run):
    translate = run.translator(beam_size=2, extra_length=3)
    lines = ["A cat.", "", "It sleeps."]
    outputs = translate(lines)
    assert translate(["\n".join(lines), "\r\n".join(lines)]) == ["\n".join(outputs)] * 2
    (one,) = translate("\r".join(lines), n_best=1)
    assert one.text == "\n".join(outputs)
    assert one.source_tokens.count("<EOS>") == 2


@pytest.mark.integration
def test_n_best_explains_each_output(run):
    translate = run.translator("newest", beam_size=3, alpha=0.0, extra_length=3)
    found = translate("A cat.", n_best=3)
    assert len(found) == 3
    assert found == sorted(found, key=lambda one: -one.score)
    assert translate(["A cat.", ""], n_best=1)[1] == []
    for one in found:
        assert one.attention.shape == (len(one.tokens), len(one.source_tokens))
        assert one.source_tokens[-1] == "<EOS>"
        terms = 2 * len(one.source_tokens) + run.hparams.num_heads  # softmax, sum; mean over heads
        assert_close(one.attention.sum(axis=1), np.ones(len(one.tokens)), terms)
        assert one.log_probs.shape == (len(one.tokens),)
        if one.tokens[-1] == "<EOS>":  # without a length penalty the score is their sum
            terms = len(one.tokens) + forward_terms(run.hparams, len(one.source_tokens), 258)
            assert_close(one.score, one.log_probs.sum(), terms)


def test_a_text_of_different_pieces_counts_once(run, monkeypatch):
    """Wherever it stands; samples are draws, and stay."""
    details = Details([], [], np.zeros(0), None)
    found = [Hypothesis(Output(text), [], -n, details) for n, text in enumerate("abacb")]
    monkeypatch.setattr(Decoder, "decode", lambda self, sources, *_: [found, found[1:]])
    texts = ["x", "y"]
    translate = run.translator(beam_size=5)
    for n, expected in [(5, ["abc", "bac"]), (2, ["ab", "ba"]), (1, ["a", "b"])]:
        beams = translate(texts, n_best=n)
        assert ["".join(one.text for one in beam) for beam in beams] == expected
        assert [beam[0].score for beam in beams] == [0, -1]
    draws = run.translator(beam_size=5, sampling_method="random")(texts, n_best=4)
    assert ["".join(one.text for one in beam) for beam in draws] == ["abac", "bacb"]


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_a_part_of_the_users_own_holds_for_n_best_and_streams_too(run):
    class Silence(t2t.Constraint):
        def allowed(self, ids, step, sentences, vocab_size):
            return tf.range(vocab_size) == 1  # EOS

    translate = run.translator(search=[Silence()], beam_size=2, extra_length=1)
    assert translate("a") == ""
    assert [one.tokens for one in translate("a", n_best=2)] == [["<EOS>"]]
    assert [one.tokens for (one,) in translate.stream(["a"], n_best=2)] == [["<EOS>"]]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([None], "text 1 is None: expected a str"),
        (["A cat.", 7.5], "text 2 is 7.5: expected a str"),
        (b"A cat.", r"text 1 is b'A cat.': expected a str; use its \.decode\(\)"),
        (["A", bytearray(b"A")], "text 2 is bytearray"),
        (None, "got None: expected a text, or a list of texts"),
        ("A \ud83d cat", r"text 1 holds the lone surrogate U\+D83D, which"),
    ],
)
@pytest.mark.parametrize("n_best", [None, 1])
def test_what_is_not_text_is_refused(run, texts, message, n_best):
    with pytest.raises(UsageError, match=message):
        run.translator(beam_size=3)(texts, n_best)


@pytest.mark.parametrize("count", [0, 4])
def test_n_best_is_bounded_by_the_beam(run, count):
    with pytest.raises(UsageError, match=rf"n_best={count}: expected 1 to beam_size=3"):
        run.translator(beam_size=3)("A cat.", n_best=count)


@pytest.mark.integration
@pytest.mark.parametrize("settings", [{}, {"sampling_method": "random"}])
def test_a_stream_gives_the_outputs_of_a_list(run, settings):
    """In order, in windows, whatever the batch; random draws, too, go by the text's number."""
    translate = run.translator(beam_size=1, extra_length=1, **settings)
    texts = [f"{number % 7} cats"[: 1 + number % 5] for number in range(60)]
    texts[3] = ""
    read = []
    stream = translate.stream(read.append(text) or text for text in texts)
    assert read == []
    first = list(itertools.islice(stream, 16))
    assert read == texts[:16]
    assert [*first, *stream] == translate(texts)


@pytest.mark.integration
def test_a_stream_of_n_best(run):
    translate = run.translator(beam_size=2, extra_length=1)
    found = list(translate.stream(iter(["ab", ""]), n_best=2))
    assert [[one.text for one in beams] for beams in found] == [
        [one.text for one in beams] for beams in translate(["ab", ""], n_best=2)
    ]
    with pytest.raises(UsageError, match="n_best=3: expected 1 to beam_size=2"):
        translate.stream(["ab"], n_best=3)


@pytest.mark.parametrize("texts", ["ab", b"ab", None, 5])
def test_a_stream_takes_several_texts(run, texts):
    with pytest.raises(UsageError, match=r"stream: got .*: expected several texts"):
        run.translator(beam_size=1).stream(texts)


@pytest.mark.integration
def test_an_error_in_a_stream_comes_after_what_was_read_before(run):
    stream = run.translator(beam_size=1, extra_length=1).stream([*["a"] * 17, 5])
    assert len(list(itertools.islice(stream, 16))) == 16
    with pytest.raises(UsageError, match="text 18 is 5: expected a str"):
        next(stream)


@pytest.mark.integration
def test_given_outputs_are_scored_with_the_penalty(run):
    translate = run.translator(beam_size=2, extra_length=2, alpha=0.6)
    outputs = ["Eine Katze.", "So"]
    first, second = translate.score(["A cat.", "So."], outputs)
    assert [first.text, second.text] == outputs
    assert first.tokens == [*"Eine Katze.", "<EOS>"]
    assert first.source_tokens == [*"A cat.", "<EOS>"]
    assert first.attention.shape == (12, 7)
    terms = 12 + forward_terms(run.hparams, 7, 258)
    assert_close(first.score, first.log_probs.sum() / ((5 + 12) / 6) ** 0.6, terms)
    alone = translate.score("So.", "So")
    assert_close(alone.score, second.score, terms)
    assert_close(alone.log_probs, second.log_probs, terms)
    assert translate.score(["", "a"], ["b", ""])[0] is None
    assert translate.score("a", "").tokens == ["<EOS>"]


@pytest.mark.parametrize(
    ("sources", "targets", "error", "message"),
    [
        (["a"], ["b", "c"], UsageError, "got 1 sources and 2 targets: expected a text and a text"),
        ("a", ["b"], UsageError, "got 1 sources and 1 targets"),
        (["a"], [None], UsageError, "text 1 is None: expected a str"),
        ("a", "b" * 5000, DataError, "target 1: 5000 subwords, more than 4096"),
    ],
)
def test_what_cannot_be_scored(run, sources, targets, error, message):
    with pytest.raises(error, match=message):
        run.translator().score(sources, targets)


@pytest.mark.integration
def test_a_language_model_scores_texts_alone():
    hparams = registry.hparams("transformer_test").copy(num_hidden_layers=1)
    model = registry.model("transformer")(hparams, 0, 258)
    translate = Translator(bytes_decoder(model, BytesAlone()))
    scored = translate.score("", "text")
    assert len(scored.log_probs) == 5
    assert_close(scored.score, scored.log_probs.sum(), 5)
    assert scored.attention is None
    with pytest.raises(UsageError, match='a language model has no source: give "" for it'):
        translate.score("prompt", "text")
    with pytest.raises(UsageError, match="a language model has no source"):
        translate.score(["", "prompt"], ["text", "text"])


@pytest.mark.parametrize("call", [Translator.__call__, Translator.stream])
@pytest.mark.parametrize(
    ("keyword", "message"),
    [
        ({"beam_size": 3}, r"beam_size is a search setting.*: run\.translator\(beam_size=3\)"),
        ({"alpha": 0.5}, r"run\.translator\(alpha=0\.5\)"),
        ({"target_lang": "de"}, "unknown keyword 'target_lang'; did you mean 'target_language'?"),
        ({"colour": 1}, "unknown keyword 'colour'$"),
    ],
)
def test_an_unknown_keyword_is_refused_with_its_place(call, keyword, message):
    with pytest.raises(UsageError, match=message):
        call(Translator(None), "A cat.", **keyword)


def test_scores_take_no_search_settings_either():
    with pytest.raises(UsageError, match=r"run\.translator\(beam_size=3\)"):
        Translator(None).score("A cat.", "Eine Katze.", beam_size=3)


def test_a_translation_and_a_run_print_one_short_line(run):
    numbers = np.zeros([40, 30])
    details = ["x"] * 40, numbers[:, 0], ["y"] * 30, numbers
    shown = repr(Translation("Eine Katze.", -0.5, *details, {"alignment": "0-0"}))
    assert shown == "Translation(text='Eine Katze.', score=-0.5)"
    name = run.problem.name
    assert repr(run) == f"<Run '{run.folder}': transformer with {run.hparams_set} for {name}>"
