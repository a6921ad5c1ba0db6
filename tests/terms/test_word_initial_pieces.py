"""Terms and forbidden words in vocabularies whose pieces have the space before a word.

They are trained as t2t-datagen trains them: no space is added before the first word of a line.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.penalties import NO_PENALTY
from t2t_lite.search.stopping import T2TStopping
from t2t_lite.search.term_search import TermSearch
from t2t_lite.terms.spelling import Speller
from t2t_lite.terms.term_automaton import batched, kinds, term_tables
from t2t_lite.terms.term_list import Wanted, occurs
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.sentencepiece_training import train
from t2t_lite.text.text_encoder import EOS_ID, SPACE, ByteTextEncoder, VocabType

LINES = [
    "Sie haben neue Nachrichten erhalten.",
    "Nachrichten sind neue Mails.",
    "Mails sind (neue) Nachrichten.",
    'Die Mails und "Nachrichten" haben Sie.',
    "Sie haben die E-Mails und neue Mails.",
    "Öffnen Sie die Datei im Ordner.",
    "Der Ordner ist neu, die Datei ist alt.",
]
WORDS = ["Nachrichten", "Mails", "neue", "Datei", "Ordner", "Sie haben", "neue Mails", "(neue)"]


@pytest.fixture(
    scope="module", params=[VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM]
)
def encoder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "model"
    train(request.param, path, LINES * 20, 400)
    return SentencePieceEncoder(path)


def test_a_word_is_spelled_with_and_without_the_space_before_it(encoder):
    speller = Speller(encoder)
    for word in WORDS:
        space, *rest = encoder.encode(f"a {word}")[len(encoder.encode("a")) :]
        assert encoder.symbol(space).startswith(SPACE)
        after_word = rest if encoder.symbol(space) == SPACE else [space, *rest]
        assert {tuple(after_word), tuple(encoder.encode(word))} <= {*speller.spellings(word)}


@pytest.mark.parametrize("word", ["x", "日本", "?", "-"])
def test_a_space_with_an_id_of_its_own_is_not_a_part_of_a_word(word):
    encoder = ByteTextEncoder()
    assert Speller(encoder).spellings(word) == [tuple(encoder.encode(word))]


class Bigrams:
    """Predicts an id by the previous one, as the lines have them."""

    def __init__(self, encoder):
        counts = np.full([encoder.vocab_size] * 2, 1e-4)
        counts[:, 0] = 1e-30  # padding
        for line in LINES:
            ids = [*encoder.encode(line), EOS_ID]
            np.add.at(counts, ([0, *ids[:-1]], ids), 1)
        self._logits = tf.constant(np.log(counts), tf.float32)

    def start_decoding(self, inputs, beams, length):
        return DecodeState(inputs[:, 0], tf.zeros([tf.shape(inputs)[0], beams]))

    def grow(self, state, length):
        return state

    def decode_step(self, ids, step, state):
        return tf.gather(self._logits, tf.where(step == 0, 0, ids)), state


@pytest.fixture(scope="module")
def outputs(encoder):
    """Returns what outputs a search finds with a term and forbidden words."""
    speller = Speller(encoder)
    search = TermSearch(
        Bigrams(encoder), kinds(speller.borders), 8, NO_PENALTY, T2TStopping(early=False)
    )

    def found(forms, forbidden=(), prefix=""):
        wanted = [Wanted("x", tuple(forms), 1)] if forms else []
        tables = batched([term_tables(wanted, forbidden, speller)])
        prefixes = np.array([encoder.encode(prefix)], int)
        (paths,) = search(np.array([[0]]), 30, prefixes, extra=tables).ids
        return [encoder.decode(path) for path in paths if EOS_ID in path]

    return found


@pytest.mark.integration
@pytest.mark.parametrize("word", WORDS)
def test_forbidden_words_never_occur(outputs, word):
    found = outputs([], [word])
    assert found
    assert not any(occurs(word, text) for text in found)


@pytest.mark.integration
@pytest.mark.parametrize("word", [word for word in WORDS if word != "Sie haben"])
def test_terms_have_the_space_before_them(outputs, word):
    best = outputs([word], prefix="Sie haben")[0]
    assert best.startswith("Sie haben ")
    assert any(f"{mark}{word}" in best for mark in ' ("-')
