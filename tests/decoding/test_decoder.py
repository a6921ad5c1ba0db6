"""The decoder: lines, batches, limits, scores and details."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from support.codecs import codec_of
from support.copying import (
    BYTES,
    HOSTILE,
    Bytes,
    BytesAlone,
    CopyModel,
    bytes_decoder,
    copier,
    one_line,
    outputs,
)
from support.rounding import assert_close
from support.terms import log_prob_terms
from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.decoding.divergence import NoOutputError
from t2t_lite.decoding.hypotheses import Details, Hypothesis, Source, best_output
from t2t_lite.decoding.long_lines import join_details
from t2t_lite.decoding.output_formats import output_formatter
from t2t_lite.errors import DataError, UsageError
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import ByteTextEncoder


def test_every_line_gives_one_line_in_its_place():
    texts = [*HOSTILE, *(f"{'long ' * (n % 7)}{n}" for n in range(60))]
    found = outputs(copier(extra_length=5), texts)
    assert found == [one_line(text) for text in texts]


def test_a_text_of_several_lines_is_decoded_line_by_line():
    decoder = copier(extra_length=5, return_beams=True)
    text = "\n one line \nand another\n \t\n\u2028three\n"
    expected = "one line\nand another\n\nthree"
    assert outputs(decoder, [text, "one"]) == [expected, "one"]
    lines = [decoder.decode(decoder.text.encode([line]))[0] for line in expected.split("\n")]
    for rank, joined in enumerate(decoder.decode(decoder.text.encode([text]))[0]):
        assert joined.output.text.count("\n") == 3
        assert_close(joined.score, sum(beams[rank].score for beams in lines if beams), terms=3)


def test_the_pieces_of_all_lines_draw_other_random_numbers():
    decoder = copier(max_input_size=6)
    (source,) = decoder.text.encode(["abcd efgh ijkl\nabcd efgh ijkl"])
    pieces = list(itertools.chain(*decoder.cutter.pieces(source, "text")))
    assert [piece.text for piece in pieces] == ["abcd", "efgh", "ijkl"] * 2
    assert len({piece.draws for piece in pieces}) == 6


def test_a_text_that_may_not_be_split_keeps_its_line_breaks(monkeypatch):
    monkeypatch.setattr(Bytes, "can_split_sources", False)
    decoder = copier()
    (source,) = decoder.text.encode(["one\ntwo"])
    assert decoder.cutter.pieces(source, "text") == [[source]]


@pytest.mark.integration
@pytest.mark.parametrize("settings", [{"sampling_method": "random"}, {"beam_size": 1}, {}])
def test_a_line_for_which_nothing_is_permitted_is_named(settings):
    decoder = copier(no_repeat_ngram_size=1, min_length=400, extra_length=400, **settings)
    with pytest.raises(NoOutputError, match=r"^line 2: the search settings permit no output: loos"):
        outputs(decoder, ["", "a"])


@pytest.mark.integration
@pytest.mark.parametrize("temperature", [1e-38, 1e-45, 1e-300])
def test_the_lowest_temperatures_draw_the_likeliest(temperature):
    decoder = copier(sampling_method="random", sampling_temp=temperature, extra_length=3)
    assert outputs(decoder, ["so cold", "as this"]) == ["so cold", "as this"]


def test_a_prompt_that_is_longer_than_the_model_knows_is_named(caplog):
    text = codec_of(BytesAlone(), BYTES, max_input_size=4)
    text.encode(["abcd", "", "abcde"], first=7)
    (message,) = caplog.messages
    assert message.startswith("line 9: the prompt has 5 subwords, more than max_input_size=4")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "hparams_set", "changes", "sources", "targets"),
    [
        ("transformer", "transformer_test", {"pos": "emb"}, ["abcdef", "abcdefgh"], ["x", "x"]),
        (
            "conv_s2s",
            "conv_s2s_iwslt_de_en",
            {"hidden_size": 8, "num_hidden_layers": 1, "encoder_layers": "", "decoder_layers": ""},
            ["a", "b"],
            ["xy", "xyzxyzxyz"],
        ),
    ],
)
def test_lines_beyond_the_learned_positions_are_named(
    name, hparams_set, changes, sources, targets, caplog
):
    small = registry.hparams(hparams_set).copy(max_length=8, **changes)
    model = registry.model(name)(small, 258, 258)
    decoder = bytes_decoder(model, settings=DecodeHParams(max_input_size=0))
    encoded = decoder.text.encode(sources)
    decoder.score(encoded, decoder.text.encode_targets(targets, "line"), "line")
    (message,) = (record.message for record in caplog.records if "t2t_lite" in record.name)
    size = max(len(sources[1]), len(targets[1])) + 1
    assert message.startswith(f"line 2 or its output has {size} subwords, but the model has learne")


@pytest.mark.integration
@pytest.mark.parametrize(("limits", "known"), [([9, 8, 0], 8), ([8, 9], 8), ([0, 0], 0)])
def test_an_ensemble_has_learned_the_positions_that_each_model_has_learned(limits, known):
    small = registry.hparams("transformer_test").copy(hidden_size=8, num_hidden_layers=1)
    sets = [small.copy(max_length=n, pos="emb") if n else small for n in limits]
    models = [registry.model("transformer")(hparams, 258, 258) for hparams in sets]
    assert bytes_decoder(models).engine.learned_positions == known


@pytest.mark.integration
def test_positions_that_have_no_end_are_not_warned_of(caplog):
    outputs(copier(max_input_size=0, extra_length=0), ["a" * 60])
    assert not caplog.messages


def test_lines_without_text_do_not_reach_the_model():
    decoder = copier()
    assert outputs(decoder, ["", " ", "\u0085"]) == ["", "", ""]
    assert outputs(decoder, []) == []
    assert decoder.engine.models[0].batches == []


@pytest.mark.integration
def test_batches_hold_like_lengths_and_keep_their_budget():
    decoder = copier(beam_size=4, extra_length=0)
    random = np.random.default_rng(0)
    outputs(decoder, ["x" * length for length in random.integers(1, 39, 400)])
    shapes = [ids.shape for ids in decoder.engine.models[0].batches]
    assert sum(rows for rows, _ in shapes) == 400
    lengths = sorted(
        np.count_nonzero(ids, axis=1).tolist() for ids in decoder.engine.models[0].batches
    )
    assert all(max(one) <= min(other) for one, other in itertools.pairwise(lengths))
    assert max(rows * max(length, 32) * 4 for rows, length in shapes) <= 16384
    padding = sum((ids == 0).sum() for ids in decoder.engine.models[0].batches)
    assert padding < 0.35 * sum(ids.size for ids in decoder.engine.models[0].batches)


def test_batch_size_counts_sentences():
    decoder = copier(batch_size=3)
    outputs(decoder, ["abc"] * 7)
    assert sorted(len(ids) for ids in decoder.engine.models[0].batches) == [1, 3, 3]


@pytest.mark.integration
@pytest.mark.parametrize(("max_input_size", "limit"), [(-1, 40), (7, 7)])
def test_a_long_line_is_cut_with_a_warning(caplog, max_input_size, limit):
    decoder = copier("truncate", max_input_size=max_input_size)
    sources = decoder.text.encode(["fits", "y" * 50], name="in.txt, line")
    found = decoder.decode(sources, "in.txt, line")
    assert found[1][0].output.text == "y" * (limit - 1)
    assert caplog.messages == [f"in.txt, line 2 has 51 subwords: cut to {limit}"]


@pytest.mark.parametrize(("max_input_size", "size"), [(-1, 4096), (0, 5001), (9, 9)])
def test_a_model_without_a_limit_has_one_all_the_same(max_input_size, size):
    """Unless none is asked for: memory grows with the square."""
    model = CopyModel(registry.hparams("transformer_test").copy(max_length=0), 258, 258)
    decoder = bytes_decoder(model, settings=DecodeHParams(max_input_size=max_input_size))
    (source,) = decoder.text.encode(["y" * 5000])
    assert len(decoder.cutter.truncated(source, "line").ids) == size
    limited = CopyModel(registry.hparams("transformer_test").copy(max_length=40), 258, 258)
    both = bytes_decoder([model, limited])
    assert both.engine.max_input_size == 40


@pytest.mark.parametrize("size", [3, 1025])
def test_joined_attention_is_block_diagonal_unless_it_is_huge(size):
    pieces = [
        Details(["s"] * size, ["t"] * size, np.zeros(size), np.full((size, size), value))
        for value in (1.0, 2.0)
    ]
    joined = join_details(pieces)
    assert (joined.tokens, joined.source_tokens) == (["t"] * 2 * size, ["s"] * 2 * size)
    if size == 3:
        np.testing.assert_array_equal(joined.attention, np.kron(np.diag([1, 2]), np.ones((3, 3))))
    else:
        assert joined.attention is None
    line = Hypothesis(Output("text"), [], 0.0, joined)
    written = output_formatter("json", DecodeHParams())(Source("text", [], 1), [line])
    assert (json.loads(written)["hypotheses"][0]["attention"] is None) == (size > 3)


def test_joined_attention_is_known_if_that_of_every_piece_is():
    """A piece of markup alone has no tokens, and misses none."""

    def details(size, attention):
        return Details(["s"] * size, ["t"] * size, np.zeros(size), attention)

    known, unknown, unread = details(2, np.ones([2, 2])), details(3, None), details(0, None)
    for pieces in itertools.product([known, unknown, unread], repeat=3):
        joined = join_details(pieces)
        sizes = (len(joined.tokens), len(joined.source_tokens))
        if known in pieces and unknown not in pieces:
            assert joined.attention.shape == sizes
        else:
            assert joined.attention is None


@pytest.mark.parametrize("is_aligned", [True, False])
def test_joined_attention_is_of_the_kind_of_the_pieces_that_were_read(is_aligned):
    read = Details(["s"], ["t"], np.zeros(1), np.ones([1, 1]), is_aligned)
    unread = Details([], [], np.zeros(0), None)
    for pieces in ([read, unread], [unread, read], [unread, read, unread, read]):
        assert join_details(pieces).is_aligned == is_aligned


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly", "eager_searches")
def test_details_of_a_model_without_attention():
    """A line of one piece, and one of several."""
    hparams = registry.hparams("lstm_seq2seq").copy(hidden_size=8, num_hidden_layers=1)
    model = registry.model("lstm_seq2seq")(hparams, 258, 258)
    settings = DecodeHParams(beam_size=2, extra_length=1, max_input_size=9)
    decoder = bytes_decoder(model, settings=settings, with_details=True)
    for hypotheses in decoder.decode(decoder.text.encode(["short", "one. two. three. four."])):
        details = hypotheses[0].details
        assert details.attention is None
        assert len(details.log_probs) == len(details.tokens) > 0
        assert details.source_tokens[-1] == "<EOS>"
    with pytest.raises(UsageError, match="LSTMSeq2Seq has no attention to the source"):
        outputs(bytes_decoder(model, settings=settings.copy(coverage_penalty=0.2)), ["short"])


@pytest.mark.integration
def test_a_language_models_details_are_those_of_what_follows_the_prompt():
    hparams = registry.hparams("transformer_test").copy(num_hidden_layers=1)
    model = registry.model("transformer")(hparams, 0, 258)
    problem = registry.problem("decoder_test_language_model")
    decoder = bytes_decoder(model, problem, DecodeHParams(extra_length=3), with_details=True)
    (source,) = decoder.text.encode(["prompt"])
    ((best, *_),) = decoder.decode([source])
    details = best.details
    assert details.attention is None
    size = len(best.ids)
    assert len(details.tokens) == len(details.log_probs) in (size, size + 1), "EOS may be last"
    ((whole,),) = decoder.score([Source("", [])], [[*source.prefix, *best.ids]])
    expected = whole.details.log_probs[len(source.prefix) :][: len(details.tokens)]
    length = len(source.prefix) + 1 + size
    assert_close(details.log_probs, expected, log_prob_terms(model, length))


@pytest.mark.integration
def test_the_pieces_of_a_line_are_sampled_independently():
    """Equal pieces have unequal outputs; a line that is not split keeps its own."""
    hparams = registry.hparams("transformer_test").copy(num_hidden_layers=1)
    model = registry.model("transformer")(hparams, 258, 258)
    settings = DecodeHParams(sampling_method="random", beam_size=1, max_input_size=16)
    decoder = bytes_decoder(model, settings=settings)
    piece = "abcdefghi jk."
    (whole,) = decoder.decode(decoder.text.encode([f"{piece} {piece} {piece}"]))
    (alone,) = decoder.decode(decoder.text.encode([piece]))
    first = alone[0].ids
    assert whole[0].ids[: len(first)] == first
    assert whole[0].ids[len(first) : 2 * len(first)] != first


def test_an_over_long_line_counts_once():
    decoder = copier(max_input_size=9)
    counts = []
    sources = decoder.text.encode(["one. two. three. four.", "", "five"])
    found = [best_output(beams).text for beams in decoder.decode(sources, advance=counts.append)]
    assert found == ["one. two. three. four.", "", "five"]
    assert sum(counts) == 2


def test_targets_are_not_scored_among_trees():
    with pytest.raises(UsageError, match=r"well_formed=true: .* set it to false"):
        copier(well_formed=True).score([], [])


def test_no_output_is_longer_than_its_own_source_and_extra_length():
    decoder = copier(extra_length=0, beam_size=1)
    decoder.engine.models[0].decode_step = lambda ids, step, state: (  # never ends
        tf.one_hot(tf.fill(tf.shape(ids), 70), 258) * 9.0,
        state,
    )
    found = decoder.decode(decoder.text.encode(["ab", "abcdefgh"]))
    assert [len(beams[0].ids) for beams in found] == [3, 9]


def test_an_output_has_room_for_its_whole_prefix():
    decoder = copier(extra_length=0)
    (source,) = decoder.text.encode(["ab"])
    (prefix,) = decoder.text.encode_targets(["uvwxyz"], "prefix")
    ((best, *_),) = decoder.decode([source._replace(prefix=prefix)])
    assert best.output.text == "uvwxyz"


@pytest.mark.integration
def test_beam_search_and_greedy_give_scores_of_their_kind():
    text, step = "abc", -np.log1p(np.exp(10 - 20) + 256 * np.exp(-20))
    end = -np.log1p(257 * np.exp(-30))
    total = 3 * step + end
    (greedy,) = copier(beam_size=1).decode(copier().text.encode([text]))[0]
    terms = 258 + 4  # of a softmax, and of the log-probabilities; of logits up to 20 + 10
    assert_close(greedy.score, total, terms, scale=30.0)
    best = copier(beam_size=4, alpha=1.0).decode(copier().text.encode([text]))[0][0]
    assert_close(best.score, total / ((5 + 4) / 6), terms, scale=30.0)


def test_a_target_too_long_to_be_scored_is_named():
    with pytest.raises(DataError, match=r"file, line 4: 5000 subwords, more than 4096"):
        copier().text.encode_targets(["ab", "a" * 5000], "file, line", first=3)


def test_an_unknown_token_is_named_with_its_line():
    class Picky(ByteTextEncoder):
        def encode(self, text):
            if "?" in text:
                raise DataError("token '?' is not in the vocabulary")
            return super().encode(text)

    decoder = bytes_decoder(copier().engine.models, encoders={**BYTES, "inputs": Picky()})
    with pytest.raises(DataError, match=r"in.txt, line 2: token '\?' is not"):
        decoder.text.encode(["fine", "what?"], name="in.txt, line")
