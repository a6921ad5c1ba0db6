import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from t2t_lite.errors import UsageError
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.penalties import Penalty
from t2t_lite.search.stopping import T2TStopping
from t2t_lite.search.tree_grammar import TreeGrammar
from t2t_lite.text.lexicon import TreeSymbolEncoder
from t2t_lite.text.linear_trees import delinearize
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder
from t2t_lite.text.text_encoder import TokenTextEncoder, VocabType

SYMBOLS = ["<pad>", "<EOS>", "/NP", "/S", "DT", "NN", "NP", "S", "UH"]
EOS = 1
SPACE = 2  # the source's id for a space; all others stand for a piece of a word
PIECES = range(3, 43)
TEXTS = ["", "", " ", *(chr(ord("a") + i - 3) for i in PIECES)]
LEXICON = {"": ["DT", "NN", "UH"]}
EXTRA = 9


class Moody:
    """Logits that depend on the sentence, the step, the last id and all that came before."""

    def __init__(self):
        draw = np.random.default_rng(0)
        self.table = tf.constant(draw.normal(size=(64, len(SYMBOLS)), scale=4), tf.float32)

    def start_decoding(self, inputs, beams, length):
        del length
        return DecodeState(inputs[:, 0], tf.zeros([tf.shape(inputs)[0], beams], tf.int32))

    def grow(self, state, length):
        del length
        return state

    def decode_step(self, ids, step, state):
        past = state.hypothesis * 7 + ids + step + state.sentence[:, None]
        return tf.gather(self.table, past % 64), DecodeState(state.sentence, past % 64)


def sources(words, moods=PIECES):
    """Sentences of this many words, two pieces each, one for each mood: the first piece."""
    return np.array([[mood, *([4, SPACE, 5] * words)[:-2], EOS] for mood in moods], np.int32)


def limits(inputs):
    return (inputs != 0).sum(axis=1) + EXTRA


def searching(beams, lexicon=LEXICON):
    model = TreeGrammar(Moody(), SYMBOLS, lexicon, TEXTS, EXTRA)
    return greedy_search(model) if beams == 1 else BeamSearch(model, beams, Penalty(0.0))


def symbols(ids):
    return [SYMBOLS[i] for i in ids[: list(ids).index(EOS)]]


@pytest.mark.integration
@pytest.mark.parametrize("beams", [1, 4])
def test_every_output_is_a_tree_over_the_words(beams):
    search = searching(beams)
    for count in (1, 2, 7, 12):
        words = [f"w{i}" for i in range(count)]
        inputs = sources(count)
        for hypotheses in search(inputs, limits(inputs)).ids:
            tree, repairs = delinearize(words, symbols(hypotheses[0]))
            assert repairs == 0
            assert tree.words() == words


@pytest.mark.integration
@pytest.mark.parametrize("beams", [1, 4])
def test_words_have_tags_that_they_can_have(beams):
    # The words are "ab", "bb", "cb", ..., one for each mood, then three times "cb".
    lexicon = {"": ["NN", "UH"], "cb": ["DT"], "db": ["UH", "JJ", "S"], "eb": ["JJ"]}
    search = searching(beams, lexicon)
    inputs = sources(4)
    tags = [
        delinearize(["w"] * 4, symbols(hypotheses[0]))[0].tags()
        for hypotheses in search(inputs, limits(inputs)).ids
    ]
    assert all(of_sentence[1:] == ["DT"] * 3 for of_sentence in tags)
    first = [of_sentence[0] for of_sentence in tags]
    assert first[2:4] == ["DT", "UH"]
    assert set(first[5:]) == {"NN", "UH"}


@pytest.mark.integration
def test_without_the_grammar_they_are_not():
    inputs = sources(3)
    trees = 0
    for (row,) in greedy_search(Moody())(inputs, limits(inputs)).ids:
        trees += EOS in row and delinearize(["a", "b", "c"], symbols(row))[1] == 0
    assert trees < len(inputs) / 4


def all_outputs(words, length):
    """Every sequence of at most `length` symbols, EOS counted, that is a tree over the words."""
    found, unfinished = [], [()]
    for _ in range(length - 1):
        unfinished = [(*row, i) for row in unfinished for i in range(2, len(SYMBOLS))]
        for row in unfinished:
            names = [SYMBOLS[i] for i in row]
            if sum(name in ("DT", "NN", "UH") for name in names) != words:
                continue
            if delinearize(["w"] * words, names)[1] == 0:
                found.append([*row, EOS])
    return found


def score(model, inputs, row):
    """Log-probability of an output among what the grammar allows at each step."""
    state = model.start_decoding(tf.constant(inputs), 1, len(row))
    total, last = 0.0, 0
    for step, i in enumerate(row):
        logits, state = model.decode_step(tf.constant([[last]]), tf.constant(step), state)
        total += float(tf.nn.log_softmax(logits)[0, 0, i])
        last = i
    return total


@pytest.mark.integration
def test_finds_the_best_of_all_trees():
    length = 6
    outputs = all_outputs(1, length)
    assert len(outputs) > 20
    inputs = sources(1, moods=[7, 8])
    model = TreeGrammar(Moody(), SYMBOLS, LEXICON, TEXTS, extra_length=length - inputs.shape[1])
    found = BeamSearch(model, 64, Penalty(0.0), stopping=T2TStopping(early=False))(
        inputs, [length] * 2
    )
    for sentence in range(2):
        scores = [score(model, inputs[sentence : sentence + 1], row) for row in outputs]
        # What the grammar allows is all trees and nothing else.
        terms = length * len(SYMBOLS)
        assert_close(np.exp(scores).sum(), 1.0, terms + len(outputs))
        best = outputs[int(np.argmax(scores))]
        assert found.ids[sentence, 0, : len(best)].tolist() == best
        assert_close(found.scores[sentence, 0], max(scores), terms)


@pytest.mark.parametrize("vocab_type", [VocabType.SUBWORD, VocabType.TOKEN])
def test_a_vocabulary_that_implies_spaces_is_refused(tmp_path, vocab_type):
    (tmp_path / "symbols").write_text("".join(f"{symbol}\n" for symbol in SYMBOLS[2:]))
    (tmp_path / "lexicon").write_text("\tDT NN UH\n")
    targets = TreeSymbolEncoder(tmp_path / "symbols", tmp_path / "lexicon")
    if vocab_type == VocabType.TOKEN:
        inputs = TokenTextEncoder(tmp_path / "symbols")
    else:
        inputs = SubwordTextEncoder.build_from_token_counts({"a": 2, ", ": 2}, 1)
    with pytest.raises(UsageError, match="has no spaces, so that words cannot be counted"):
        TreeGrammar.of(Moody(), inputs, targets, EXTRA)


@pytest.mark.integration
def test_one_alone_is_as_among_others():
    inputs = sources(4)
    search = searching(3)
    together = search(inputs, limits(inputs))
    for row in range(0, len(inputs), 10):
        alone = search(inputs[row : row + 1], limits(inputs)[:1])
        assert symbols(alone.ids[0, 0]) == symbols(together.ids[row, 0])
        terms = limits(inputs)[row] * len(SYMBOLS)
        assert_close(alone.scores[0, 0], together.scores[row, 0], terms)
