"""Subword sampling: texts stay, and the frequencies of segmentations are the papers'."""

import collections
import functools
import io
import itertools
import math
import types

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st

from support.lines import LINES, ODD_LINES, TEXT
from support.rounding import assert_close
from t2t_lite.errors import UsageError
from t2t_lite.text import philox, sentencepiece_training
from t2t_lite.text.bpe_dropout import BpeDropout
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.sentencepiece_model import PieceKind
from t2t_lite.text.subword_sampling import make_samplers
from t2t_lite.text.text_encoder import ByteTextEncoder, TabEncoder
from t2t_lite.text.unigram_sampling import UnigramSampling

# Foreign models: SentencePiece's own normalisation, unknown characters, pieces across words.
FOREIGN = {"bpe": False, "unigram": True}  # whether pieces stay within words


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for kind in ("bpe", "unigram"):
        sentencepiece_training.train(kind, folder / kind, TEXT, 330)
    return {kind: SentencePieceEncoder(folder / kind) for kind in ("bpe", "unigram")}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    made = {}
    for kind, within_words in FOREIGN.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT * 20),
            model_writer=model,
            model_type=kind,
            vocab_size=90,
            hard_vocab_limit=False,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            split_by_whitespace=within_words,
            minloglevel=3,
        )
        (folder / kind).write_bytes(model.getvalue())
        made[kind] = SentencePieceEncoder(folder / kind)
    return made


def sample(sampler, rows, seed=0, epoch=0, first=0):
    """The rows of ids, segmented anew; their numbers count from `first`."""
    ids = np.array(list(itertools.chain(*rows)), np.int64)
    splits = np.cumsum([0, *map(len, rows)])
    examples = np.arange(first, first + len(rows))
    draw = functools.partial(philox.draw, (seed, epoch), 0, examples)
    new, splits = sampler(ids, splits, draw)
    return [new[a:b].tolist() for a, b in itertools.pairwise(splits)]


def unit(ids):
    return np.array(ids, np.int64).tobytes()


class TestText:
    @pytest.mark.integration
    @given(st.lists(LINES, max_size=4))
    @example(ODD_LINES)
    def test_every_segmentation_is_the_same_text(self, encoders, lines):
        for kind, sampler in (
            ("bpe", BpeDropout(encoders["bpe"], 0.5)),
            ("unigram", UnigramSampling(encoders["unigram"], 0.1)),
        ):
            rows = [[*ids, 1] for ids in encoders[kind].encode_lines(lines)]
            drawn = sample(sampler, rows)
            assert [row[-1] for row in drawn] == [1] * len(rows)
            assert [encoders[kind].decode(row) for row in drawn] == lines

    @pytest.mark.parametrize("kind", FOREIGN)
    def test_foreign_models_too(self, foreign, kind):
        encoder = foreign[kind]
        rows = encoder.encode_lines([*TEXT, *ODD_LINES])
        (sampler,) = make_samplers({"": encoder}, **{KINDS[kind].hparam: 0.3}).values()
        drawn = sample(sampler, rows)
        assert drawn != rows
        assert list(map(encoder.decode, drawn)) == list(map(encoder.decode, rows))

    def test_bytes_that_are_no_text_stay(self, encoders):
        byte = encoders["bpe"].tokens.index("<0xE2>")
        (row,) = sample(BpeDropout(encoders["bpe"], 1.0), [[byte, byte, 1, 1]])
        assert row == [byte, byte, 1, 1]


class TestWithoutDropout:
    @pytest.mark.integration
    @given(LINES)
    @example("".join(ODD_LINES))
    def test_bpe_is_sentencepieces(self, encoders, line):
        sampler = BpeDropout(encoders["bpe"], 0.0)
        ids = encoders["bpe"].encode(line)
        symbols = sampler.symbols_of(unit(ids))
        assert sampler.ids_of(sampler.segment(symbols, [0] * len(symbols))) == ids
        assert sample(sampler, [ids]) == [ids]

    def test_so_it_is_with_pieces_across_words(self, foreign):
        sampler = BpeDropout(foreign["bpe"], 0.0)
        assert any("▁" in piece.text[1:] for piece in foreign["bpe"].pieces())
        for ids in foreign["bpe"].encode_lines([*TEXT, *ODD_LINES]):
            symbols = sampler.symbols_of(unit(ids))
            assert sampler.ids_of(sampler.segment(symbols, [0] * len(symbols))) == ids

    def test_a_great_power_gives_unigrams_best(self, encoders):
        rows = encoders["unigram"].encode_lines(TEXT)
        assert sample(UnigramSampling(encoders["unigram"], 1e6), rows) == rows


def algorithm_1(pieces, scores, rate):
    """Provilkov et al., algorithm 1: the probability of each segmentation, by all its draws."""
    merges = [
        (-scores["".join(pair)], i)
        for i, pair in enumerate(itertools.pairwise(pieces))
        if "".join(pair) in scores
    ]
    found = collections.Counter()
    for kept in itertools.product([False, True], repeat=len(merges)):
        chance = math.prod(1 - rate if keep else rate for keep in kept)
        if not any(kept):
            found[pieces] += chance
            continue
        _, i = min(itertools.compress(merges, kept))
        merged = (*pieces[:i], pieces[i] + pieces[i + 1], *pieces[i + 2 :])
        for segmentation, share in algorithm_1(merged, scores, rate).items():
            found[segmentation] += chance * share
    return found


def weighed(text, scores, alpha):
    """Kudo: the probability of each segmentation, by adding up all."""
    if not text:
        return {(): 1.0}
    return {
        (text[:end], *rest): math.exp(alpha * scores[text[:end]]) * weight
        for end in range(1, len(text) + 1)
        if text[:end] in scores
        for rest, weight in weighed(text[end:], scores, alpha).items()
    }


def assert_drawn_from(expected, observed):
    """Chi-square: within five standard deviations of its mean."""
    count = sum(observed.values())
    assert observed.keys() <= expected.keys()
    common = {name: share for name, share in expected.items() if share * count >= 5}
    bins = [(share * count, observed[name]) for name, share in common.items()]
    rest = count - sum(mean for mean, _ in bins), count - sum(seen for _, seen in bins)
    bins += [rest] if rest[0] >= 5 else []
    assert len(bins) > 3
    statistic = sum((seen - mean) ** 2 / mean for mean, seen in bins)
    freedom = len(bins) - 1
    assert statistic < freedom + 5 * math.sqrt(2 * freedom)


class TestFrequencies:
    DRAWS = 20_000

    def drawn(self, encoder, sampler, text):
        ids = encoder.encode(text)
        rows = sample(sampler, [ids] * self.DRAWS)
        return collections.Counter(tuple(encoder.tokens[i] for i in row) for row in rows)

    @pytest.mark.parametrize("rate", [0.1, 0.6])
    def test_of_bpe_are_those_of_algorithm_1(self, encoders, rate):
        encoder, sampler = encoders["bpe"], BpeDropout(encoders["bpe"], rate)
        expected = algorithm_1(tuple("▁small"), sampler.scores, rate)
        assert_close(sum(expected.values()), 1.0, len(expected) + 20, dtype="float64")
        assert_drawn_from(expected, self.drawn(encoder, sampler, " small"))

    @pytest.mark.parametrize("alpha", [0.1, 0.2])
    def test_of_unigram_are_the_probabilities_to_a_power(self, encoders, alpha):
        encoder, sampler = encoders["unigram"], UnigramSampling(encoders["unigram"], alpha)
        weights = weighed("▁kleiner", sampler.scores, alpha)
        expected = {name: weight / sum(weights.values()) for name, weight in weights.items()}
        assert_drawn_from(expected, self.drawn(encoder, sampler, " kleiner"))

    @pytest.mark.parametrize("word", ["▁harbour", "▁kleiner", "▁ab你c", "▁"])
    def test_unigrams_lattice_has_the_exact_probabilities(self, encoders, word):
        sampler = UnigramSampling(encoders["unigram"], 0.3)
        unknown = min(sampler.scores.values()) - 10
        scores = collections.ChainMap(sampler.scores, dict.fromkeys(word, unknown))
        weights = weighed(word, scores, 0.3)
        lattice = sampler.lattice(word)

        def probability(segmentation):
            chance, end = 1.0, len(word)
            for piece in reversed(segmentation):
                choices = slice(*lattice.bounds[end - 1 : end + 1])
                limits = [0, *lattice.limits[choices]]
                end -= len(piece)
                at = lattice.starts[choices].index(end)
                assert limits[-1] == 2**32
                chance *= (limits[at + 1] - limits[at]) / 2**32
            return chance

        total = sum(weights.values())
        error = len(word) * 2.0**-32  # a step of the limits for each piece
        for segmentation, weight in weights.items():
            assert probability(segmentation) == pytest.approx(weight / total, abs=error)

    def test_rate_1_gives_characters(self, encoders):
        encoder = encoders["bpe"]
        (row,) = sample(BpeDropout(encoder, 1.0), [encoder.encode("A small 你 boat")])
        assert [encoder.tokens[i] for i in row] == [
            *("A", "▁", "s", "m", "a", "l", "l", "▁", "<0xE4>", "<0xBD>", "<0xA0>"),
            *("▁", "b", "o", "a", "t"),
        ]


KINDS = {"bpe": BpeDropout, "unigram": UnigramSampling}


@pytest.mark.parametrize("kind", KINDS)
class TestDeterminism:
    def test_seed_epoch_and_example_decide(self, encoders, kind):
        rows = encoders[kind].encode_lines(TEXT * 3)
        drawn = sample(KINDS[kind](encoders[kind], 0.4), rows, seed=3, epoch=2)
        fresh = KINDS[kind](encoders[kind], 0.4)
        assert drawn[5:7] == sample(fresh, rows[5:7], seed=3, epoch=2, first=5)
        assert drawn[:4] != drawn[4:8]
        for change in ({"seed": 4}, {"epoch": 3}):
            assert sample(fresh, rows, **({"seed": 3, "epoch": 2} | change)) != drawn

    def test_a_full_cache_changes_nothing(self, encoders, kind, monkeypatch):
        rows = encoders[kind].encode_lines(TEXT * 3)
        expected = sample(KINDS[kind](encoders[kind], 0.4), rows)
        monkeypatch.setattr(f"t2t_lite.text.{MODULES[kind]}.CACHED", 3)
        small = KINDS[kind](encoders[kind], 0.4)
        assert sample(small, rows) == sample(small, rows) == expected


MODULES = {"bpe": "bpe_dropout", "unigram": "unigram_sampling"}


class TestErrors:
    @pytest.mark.parametrize(
        ("asked", "kinds", "message"),
        [
            ({"bpe_dropout": 0.1}, ("bpe", "unigram"), "targets is of the type SentencePiece uni"),
            ({"bpe_dropout": 0.1}, ("unigram", "bpe"), r"\(unigram_alpha instead\)"),
            ({"unigram_alpha": 0.2}, ("bpe", "bpe"), r"hparam unigram_alpha=0.2 .*bpe_dropout ins"),
            ({"bpe_dropout": 0.1}, ("bpe", "bytes"), "is of the type ByteTextEncoder: set bpe_dro"),
            ({"bpe_dropout": 0.1}, ("tabs", "bpe"), "the inputs have several texts on a line"),
        ],
    )
    def test_another_vocabulary(self, encoders, asked, kinds, message):
        tabs = TabEncoder(encoders["bpe"], "$")
        known = {**encoders, "bytes": ByteTextEncoder(), "tabs": tabs}
        sides = dict(zip(("inputs", "targets"), map(known.get, kinds), strict=True))
        with pytest.raises(UsageError, match=message):
            make_samplers(sides, **asked)

    def test_nothing_asked_for(self, encoders):
        assert make_samplers({"inputs": ByteTextEncoder(), "targets": encoders["bpe"]}) == {}

    def test_one_vocabulary_has_one_sampler(self, encoders):
        sides = make_samplers(dict.fromkeys(("inputs", "targets"), encoders["bpe"]), bpe_dropout=1)
        assert sides["inputs"] is sides["targets"]

    def test_pieces_with_special_rules_are_refused(self, encoders):
        pieces = [piece._replace(kind=PieceKind.USER_DEFINED) for piece in encoders["bpe"].pieces()]
        with pytest.raises(UsageError, match="user-defined or unused pieces"):
            BpeDropout(types.SimpleNamespace(pieces=lambda: pieces), 0.1)
