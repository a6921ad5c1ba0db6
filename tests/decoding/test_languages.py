"""Decoding with a model of several languages: their tokens, scores, pieces, records, requests."""

import json

import numpy as np
import pytest

from support.imported_runs import LANGUAGES, WORDS, imported_run, write_vocabulary
from support.rounding import assert_close
from support.servers import answers_of
from support.terms import log_prob_terms
from support.texts import write_lines
from t2t_lite.data import records
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.dataset_decoding import decode_examples, read_examples
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.request import TextOptions
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problems.imported import TranslateImported
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.serving.requests import TranslationRequest
from t2t_lite.text.language_tokens import TRANSLATION
from t2t_lite.text.languages import Languages

TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w1", "w1 w1"]
INTO_ENGLISH = "source_language=de,target_language=en,extra_length=6"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return imported_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module", params=["", "en"])
def naming(request, tmp_path_factory):
    """A run whose sources name the targets' language; with a default, and without."""
    folder = tmp_path_factory.mktemp("naming") / "run"
    return imported_run(folder, request.param, TRANSLATION)


def make_decoder(run, changes=INTO_ENGLISH, **settings):
    return Decoder.from_run(run, hparams=DecodeHParams.of(run.problem, changes), **settings)


@pytest.fixture(scope="module")
def decoder(run):
    return make_decoder(run, f"{INTO_ENGLISH},return_beams=true", with_details=True)


@pytest.fixture(scope="module")
def silent(run):
    """A decoder to which no language is given."""
    return make_decoder(run, "extra_length=6")


def asking(languages):
    return TextOptions(source_language=languages.source, target_language=languages.target)


def texts_of(beams):
    return [[hypothesis.output.text for hypothesis in found] for found in beams]


def ids_of(words):
    return [3 + WORDS.index(word) for word in words.split()]


@pytest.mark.integration
def test_terms_are_spelled_without_a_language(silent):
    options = TextOptions(source_language="de", target_language="en", terms={"w1": "w9 w8"})
    sources = silent.text.encode(TEXTS, options)
    for source, hypotheses in zip(sources, silent.decode(sources), strict=True):
        (use,) = hypotheses[0].fields.get("terms", [None])
        assert (use is None) == ("w1" not in source.text.split())
        assert use is None or use["met"] == use["times"]


@pytest.mark.integration
def test_sources_begin_with_their_language_and_outputs_with_theirs_unseen(decoder):
    (source,) = decoder.text.encode(["w1 w2"])
    assert list(source.ids) == [LANGUAGES["de"], *ids_of("w1 w2"), 1]
    assert list(source.start) == [LANGUAGES["en"]]
    assert decoder.text.source_tokens(source.ids) == ["__de__", "w1", "w2", "<EOS>"]
    for hypothesis in decoder.decode([source])[0]:
        assert decoder.text.target_text(hypothesis.ids) == hypothesis.output.text
        assert len(hypothesis.details.tokens) == len(hypothesis.details.log_probs)
        assert len(hypothesis.details.tokens) == len(hypothesis.ids) + 1


@pytest.mark.integration
def test_the_given_token_adds_nothing_to_the_score_but_to_the_length(decoder):
    (model,) = decoder.engine.models
    for source, beams in zip(
        decoder.text.encode(TEXTS), decoder.decode(decoder.text.encode(TEXTS)), strict=True
    ):
        for hypothesis in beams:
            targets = np.array([[LANGUAGES["en"], *hypothesis.ids, 1]])
            logits = np.array(model({"inputs": np.array([source.ids]), "targets": targets}))[0]
            peak = logits.max(axis=-1, keepdims=True)
            log_probs = logits - peak - np.log(np.exp(logits - peak).sum(axis=-1, keepdims=True))
            chosen = log_probs[np.arange(len(targets[0])), targets[0]][1:]
            length = len(hypothesis.ids) + 2
            terms = log_prob_terms(model, length) + length
            assert_close(hypothesis.score, chosen.sum() / ((5 + length) / 6) ** 0.6, terms=terms)
            assert_close(hypothesis.details.log_probs, chosen, terms=terms)


@pytest.mark.integration
def test_given_outputs_are_scored_as_the_search_scores_them(decoder):
    sources = decoder.text.encode(TEXTS)
    best = [beams[0] for beams in decoder.decode(sources)]
    scored = decoder.score(sources, [hypothesis.ids for hypothesis in best])
    for found, expected in zip(scored, best, strict=True):
        terms = log_prob_terms(decoder.engine.models[0], 20) + 20
        assert_close(found[0].score, expected.score, terms=terms)
        assert found[0].output == expected.output


def test_targets_are_encoded_without_their_language(decoder):
    assert decoder.text.encode_targets(TEXTS, "target") == [ids_of(text) for text in TEXTS]


@pytest.mark.integration
def test_languages_of_sources_do_not_depend_on_the_batch(silent):
    pairs = [Languages(s, t) for s in LANGUAGES for t in LANGUAGES]
    sources = [silent.text.encode([text], asking(pair))[0] for text in TEXTS for pair in pairs]
    together = silent.decode(sources)
    terms = log_prob_terms(silent.engine.models[0], 20) + 20
    for source, beams in zip(sources, together, strict=True):
        (alone, *_), *_ = silent.decode([source])
        assert beams[0].ids == alone.ids
        assert_close(beams[0].score, alone.score, terms=terms)
    assert len({beams[0].output.text for beams in together[: len(pairs)]}) > 1


@pytest.mark.integration
def test_of_a_source_win_over_those_of_the_decoder(run, silent):
    chosen = make_decoder(run)
    of_source = chosen.text.encode(TEXTS, TextOptions(source_language="fr", target_language="de"))
    expected = silent.decode(
        silent.text.encode(TEXTS, TextOptions(source_language="fr", target_language="de"))
    )
    assert texts_of(chosen.decode(of_source)) == texts_of(expected)


@pytest.mark.integration
def test_every_piece_of_a_long_text_has_them(run):
    decoder = make_decoder(run, f"{INTO_ENGLISH},max_input_size=4")
    for text in ("w1 w2 w3 w4 w5", "w1 w2\nw3 w4\nw5"):
        (source,) = decoder.text.encode([text], TextOptions(source_language="fr"))
        pieces = [piece for line in decoder.cutter.pieces(source, "line") for piece in line]
        assert len(pieces) == 3
        assert {piece.ids[0] for piece in pieces} == {LANGUAGES["fr"]}
        assert {tuple(piece.start) for piece in pieces} == {(LANGUAGES["en"],)}
        assert len({piece.draws for piece in pieces}) == 3
        alone = [decoder.decode([piece])[0][0].output.text for piece in pieces]
        joined = decoder.decode([source])[0][0].output.text
        assert joined.replace("\n", " ").split() == " ".join(alone).split()


def test_every_piece_of_a_long_text_has_the_language_that_the_text_names(naming):
    decoder = make_decoder(naming, "extra_length=6,max_input_size=4")
    texts = [">>fr<< w1 w2 w3 w4 w5", ">>fr<< w1 w2\nw3 w4\nw5", ">>fr<<\nw1 w2 w3 w4\nw5"]
    for text, source in zip(texts, decoder.text.encode(texts), strict=True):
        pieces = [piece for line in decoder.cutter.pieces(source, "line") for piece in line]
        assert {piece.ids[0] for piece in pieces if piece.ids} == {LANGUAGES["fr"]}
        words = [id_ for piece in pieces for id_ in piece.ids[1:-1]]
        assert words == ids_of("w1 w2 w3 w4 w5"), text
    (source,) = decoder.text.encode([">>fr<< w1\n>>de<< w2\nw3"], TextOptions(target_language="en"))
    ((one,), (other,), (third,)) = decoder.cutter.pieces(source, "line")
    assert [piece.ids[0] for piece in (one, other, third)] == [
        LANGUAGES[c] for c in ("fr", "de", "fr")
    ]


def test_so_has_every_line_of_a_text_with_markup(naming):
    """Of HTML, every block."""
    decoder = make_decoder(naming, "extra_length=6")
    texts = [
        (">>fr<< w1 {x}\nw2\n\nw3", "placeholders", "fr fr fr"),
        ("{x}\n>>fr<< w1\n>>de<< w2\nw3", "placeholders", "fr de fr"),
        ("<p>&gt;&gt;fr&lt;&lt; w1</p><p>w2</p>", "html", "fr fr"),
    ]
    for text, kind, languages in texts:
        (source,) = decoder.text.encode([text], TextOptions(markup=kind, target_language="en"))
        assert [part.ids[0] for part in source.parts] == [LANGUAGES[c] for c in languages.split()]


@pytest.mark.integration
def test_a_second_line_in_an_unknown_language_fails_its_request_alone(naming):
    decoder = make_decoder(naming, "extra_length=6")
    translator = RequestTranslator(decoder, ServerMetrics(), ServerConfig())
    texts = [">>fr<< w1\nw2", ">>fr<< w1\n>>frr<< w2"]
    requests = [TranslationRequest([text], 1, False, True) for text in texts]
    answered, refused = answers_of(translator, requests)
    assert b"hypotheses" in answered
    assert refused.status_code == 422
    assert ">>frr<< at the start of the text names an unknown language" in refused.detail


@pytest.mark.integration
def test_a_prefix_follows_the_language(decoder):
    (source,) = decoder.text.encode(["w1 w2"])
    prefix = ids_of("w7 w7")
    for hypothesis in decoder.decode([source._replace(prefix=prefix)])[0]:
        assert hypothesis.ids[:2] == prefix
        assert hypothesis.output.text.startswith("w7 w7")


@pytest.mark.integration
@pytest.mark.parametrize("changes", ["beam_size=1", "sampling_method=random,beam_size=3"])
def test_other_searches_begin_with_the_language_too(run, changes):
    decoder = make_decoder(run, f"{INTO_ENGLISH},{changes},return_beams=true", with_details=True)
    terms = log_prob_terms(decoder.engine.models[0], 20) + 20
    for beams in decoder.decode(decoder.text.encode(TEXTS)):
        for hypothesis in beams:
            assert_close(hypothesis.score, hypothesis.details.log_probs.sum(), terms=terms)


@pytest.mark.integration
def test_the_shortest_output_is_counted_without_the_language(run):
    decoder = make_decoder(run, f"{INTO_ENGLISH},min_length=5,beam_size=8,return_beams=true")
    (beams,) = decoder.decode(decoder.text.encode(["w1 w2"]))
    assert min(len(hypothesis.ids) for hypothesis in beams) >= 5


def test_languages_that_are_not_given_are_asked_for(silent):
    with pytest.raises(DataError, match=r"no default: set source_language and target_language"):
        silent.text.encode(TEXTS)
    with pytest.raises(
        DataError, match=r"\(--source_language and --target_language; [^>]*it knows de, en, fr$"
    ):
        silent.text.encode(TEXTS, TextOptions(target_language="en"))


def test_unknown_languages_are_refused(run):
    with pytest.raises(UsageError, match="target_language: unknown language 'ger'"):
        make_decoder(run, "target_language=ger")


@pytest.mark.integration
def test_flags_are_short_for_the_decode_hparams(run, silent, tmp_path):
    write_lines(tmp_path / "in", TEXTS)
    given = {
        "output_dir": str(run.folder),
        "decode_hparams": "extra_length=6",
        "decode_from_file": str(tmp_path / "in"),
        "decode_to_file": str(tmp_path / "out"),
        "source_language": "fr",
        "target_language": "de",
    }
    jobs.run(DecoderConfig(**given))
    expected = silent.decode(
        silent.text.encode(TEXTS, TextOptions(source_language="fr", target_language="de"))
    )
    found = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert found == [beams[0].output.text for beams in expected]
    with pytest.raises(UsageError, match=r"target_language: unknown .* did you mean 'de'"):
        jobs.run(DecoderConfig(**{**given, "target_language": "German"}))


@pytest.mark.integration
def test_a_model_of_one_language_refuses_any(tmp_path):
    from support.small_runs import noisy_run

    run = noisy_run(tmp_path / "run", hidden_size=16, num_hidden_layers=1)
    with pytest.raises(UsageError, match="source_language=de: the model has only one source"):
        make_decoder(run, "source_language=de")


@pytest.mark.integration
def test_records_keep_their_own(run, silent, tmp_path):
    class French(TranslateImported):
        base_name = "translate_imported"
        source_language, target_language = "fr", "de"

    write_vocabulary(tmp_path)
    for side, lines in (("inputs", TEXTS), ("targets", TEXTS[::-1])):
        for split in ("train", "eval"):
            write_lines(tmp_path / f"{side}.{split}.txt", lines)
    generate_data(French(), str(tmp_path), str(tmp_path))
    paths = French().existing_filepaths(str(tmp_path), DatasetSplit.EVAL)
    (first, *_) = records.read_examples(paths)
    assert first["targets"] == [LANGUAGES["de"], *ids_of(TEXTS[-1]), 1]
    sources, references = read_examples(silent, paths)
    assert references == TEXTS[::-1]
    assert [source.text for source in sources] == TEXTS
    expected = silent.decode(
        silent.text.encode(TEXTS, TextOptions(source_language="fr", target_language="de"))
    )
    found = decode_examples(silent, paths)
    assert [out.text for out in found.outputs] == [beams[0].output.text for beams in expected]


@pytest.mark.integration
def test_a_run_may_have_defaults(tmp_path, silent):
    run = imported_run(tmp_path / "run", default="de")
    translate = Translator(make_decoder(run, "extra_length=6,target_language=en"))
    expected = silent.decode(
        silent.text.encode(TEXTS, TextOptions(source_language="de", target_language="en"))
    )
    assert translate(TEXTS) == [beams[0].output.text for beams in expected]


@pytest.mark.integration
def test_a_translator_translates_between_all_pairs_with_one_compiled_search(
    run, silent, monkeypatch, own_searches
):
    decoder = make_decoder(run)
    (model,) = decoder.engine.models
    traced = []
    step = model.decode_step
    monkeypatch.setattr(model, "decode_step", lambda *args: traced.append(args) or step(*args))
    translate = Translator(decoder)
    by_default = translate(TEXTS)
    steps = len(traced)
    assert steps
    for pair in (Languages(s, t) for s in LANGUAGES for t in LANGUAGES):
        given = {f"{side}_language": code for side, code in pair._asdict().items()}
        expected = silent.decode(silent.text.encode(TEXTS, asking(pair)))
        outputs = translate(TEXTS, **given)
        assert outputs == [beams[0].output.text for beams in expected]
        assert list(translate.stream(TEXTS, **given)) == outputs
        assert translate(TEXTS[0], **given) == outputs[0]
    assert translate(TEXTS, source_language="de") == translate(TEXTS) == by_default
    assert len(traced) == steps


@pytest.mark.integration
def test_n_best_lists_and_scores_have_the_languages_of_their_call(silent, decoder):
    translate = Translator(decoder)
    given = {"source_language": "fr", "target_language": "de"}
    sources = silent.text.encode(TEXTS, TextOptions(source_language="fr", target_language="de"))
    found = translate(TEXTS, 1, **given)
    assert [[one.text for one in beams] for beams in found] == [
        [beams[0].output.text] for beams in silent.decode(sources)
    ]
    assert {one.source_tokens[0] for (one,) in found} == {"__fr__"}
    expected = decoder.score(sources, [ids_of(text) for text in TEXTS])
    scores = [one.score for one in translate.score(TEXTS, TEXTS, **given)]
    terms = log_prob_terms(decoder.engine.models[0], 20) + 20
    assert_close(scores, [one.score for (one,) in expected], terms=terms)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"target_language": "German"}, UsageError, "target_language: .*; did you mean 'de'"),
        ({"source_language": 5}, UsageError, "source_language=5: expected a text"),
        ({"target_language": "de"}, DataError, "set source_language and target_language"),
    ],
)
def test_the_languages_of_a_call_are_checked_as_the_decode_hparams_are(
    silent, given, error, message
):
    translate = Translator(silent)
    with pytest.raises(error, match=message):
        translate(["w1"], **given)
    with pytest.raises(error, match=message):
        translate.score("w1", "w1", **given)
    with pytest.raises(error, match=message):
        next(translate.stream(["w1"], **given))
    if error is UsageError:  # before the first text is read
        with pytest.raises(error, match=message):
            translate.stream(["w1"], **given)


@pytest.mark.integration
def test_requests_in_several_languages_share_a_batch(silent):
    translator = RequestTranslator(silent, ServerMetrics(), ServerConfig())
    pairs = [Languages(s, t) for s in LANGUAGES for t in LANGUAGES]
    requests = [TranslationRequest(TEXTS, 1, False, False, asking(pair)) for pair in pairs]
    batches = []
    decode = silent.decode_batches
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            silent, "decode_batches", lambda s, *args: batches.append(s) or decode(s, *args)
        )
        together = answers_of(translator, requests)
    assert [len(batch) for batch in batches] == [len(requests) * len(TEXTS)]
    for answer, request in zip(together, requests, strict=True):
        (alone,) = answers_of(translator, [request])
        assert _outputs(answer) == _outputs(alone)
    assert len(set(map(str, map(_outputs, together)))) == len(requests)


def _outputs(answer):
    return [line["hypotheses"][0]["text"] for line in json.loads(answer)["translations"]]
