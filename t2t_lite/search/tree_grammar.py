"""Restricts a search to well-formed trees.

`TreeGrammar` wraps a model and excludes all other continuations. It tracks the open phrases and the
untagged words of every hypothesis, so that each output is the linearisation
(`text/linear_trees`) of a tree over exactly the words of the source, each under a tag that it can
have (`text/lexicon`), within the length that the search allows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.parts import StepModel, WrappedModel, inner_state, outer_state
from t2t_lite.text.lexicon import UNKNOWN, TreeSymbolEncoder
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, TextEncoder, TokenTextEncoder

# Most phrases open at a time: 28 in the deepest tree of NLTK's sample, 27 in CRAFT's.
_MAX_DEPTH = 64
# Lower than any real logit, yet far above the score of a hypothesis that does not exist.
_IMPOSSIBLE = -1e5


class _Sentence(NamedTuple):
    limit: tf.Tensor  # [B], maximum symbols of the output, EOS included
    tag_sets: tf.Tensor  # [B, words], the row of `TreeGrammar._tag_sets` for each word
    words: tf.Tensor  # [B], their number
    model: Any


class _Hypothesis(NamedTuple):
    open_phrases: tf.Tensor  # [B, K, _MAX_DEPTH] ids of their labels, outermost first
    depth: tf.Tensor  # [B, K], the number of open phrases
    is_empty: tf.Tensor  # [B, K], whether the innermost phrase is still empty
    untagged: tf.Tensor  # [B, K], words without a tag
    model: Any


class TreeGrammar(WrappedModel):
    """A model whose outputs are trees.

    Args:
        model: the model to wrap.
        symbols: the vocabulary of the targets by id, pad and EOS first: `X` is a phrase's label if
            there is also a `/X`, else a tag.
        lexicon: the tags of each word; under `UNKNOWN` those of all other words.
        pieces: the text of each id of the sources.
        extra_length: symbols by which an output may exceed the ids of its source.
    """

    def __init__(
        self,
        model: StepModel,
        symbols: Sequence[str],
        lexicon: Mapping[str, Sequence[str]],
        pieces: Sequence[str],
        extra_length: int,
    ) -> None:
        super().__init__(model)
        ids = {symbol: i for i, symbol in enumerate(symbols)}
        closes = [ids.get(symbol[1:], PAD_ID) if symbol[0] == "/" else PAD_ID for symbol in symbols]
        labels = set(closes) - {PAD_ID}
        self._pieces = tf.constant(pieces)
        self._extra_length = extra_length
        # [V]: the label that a closing symbol closes, 0 for other symbols; the kind of each id.
        self._closes = tf.constant(closes, tf.int32)
        self._opens = tf.constant([i in labels for i in range(len(symbols))])
        special = tf.range(len(symbols)) <= EOS_ID
        self._is_tag = ~(self._opens | (self._closes != PAD_ID) | special)
        self._ends = tf.range(len(symbols)) == EOS_ID
        self._tag_sets, self._rows = _tag_sets(symbols, self._is_tag.numpy(), lexicon)

    @classmethod
    def of(
        cls, model: StepModel, inputs: TextEncoder, targets: TextEncoder, extra_length: int
    ) -> Self:
        """Takes symbols, tags and pieces from the encoders.

        Raises:
            UsageError: the targets are not encoded as whole symbols, or the sources' ids do not
                show where words end.
        """
        if not isinstance(targets, TreeSymbolEncoder):
            raise UsageError(
                "decode hparam well_formed=true: this problem's targets are not the symbols of "
                "trees, one id each; set it to false"
            )
        pieces = [inputs.decode([i]) for i in range(inputs.vocab_size)]
        # T2T's subwords and whole tokens imply the spaces between them.
        if (
            isinstance(inputs, TokenTextEncoder)
            or "".join(pieces[i] for i in inputs.encode("a b")) != "a b"
        ):
            raise UsageError(
                "decode hparam well_formed=true: this problem's source vocabulary has no spaces, "
                "so that words cannot be counted; set it to false, or use "
                "VocabType.SENTENCEPIECE_BPE for the problem"
            )
        return cls(model, targets.tokens, targets.lexicon, pieces, extra_length)

    def start_decoding(self, inputs: tf.Tensor, beams: int, length: tf.Tensor) -> DecodeState:
        """Encodes `inputs` [B, S]; all words are untagged and no phrase is open."""
        state = self._model.start_decoding(inputs, beams, length)
        sources = tf.reduce_sum(tf.cast(inputs != PAD_ID, tf.int32), axis=1)  # [B]
        text = tf.strings.reduce_join(tf.gather(self._pieces, inputs), axis=1)  # [B]
        words = tf.strings.split(text, " ")  # [B, (words)]
        counts = tf.cast(words.row_lengths(), tf.int32)
        tag_sets = tf.ragged.map_flat_values(self._rows.lookup, words).to_tensor()
        shape = [tf.shape(inputs)[0], beams]
        hypothesis = _Hypothesis(
            open_phrases=tf.zeros([*shape, _MAX_DEPTH], tf.int32),
            depth=tf.zeros(shape, tf.int32),
            is_empty=tf.fill(shape, False),
            untagged=tf.broadcast_to(counts[:, None], shape),
            model=state.hypothesis,
        )
        limit = sources + self._extra_length
        sentence = _Sentence(limit, tag_sets, counts, state.sentence)
        return DecodeState(sentence, hypothesis, state.weights)

    def decode_step(
        self, ids: tf.Tensor, step: tf.Tensor, state: DecodeState
    ) -> tuple[tf.Tensor, DecodeState]:
        """Takes one step; logits [B, K, V] of symbols that fit no tree are `_IMPOSSIBLE`."""
        sentence, before = state.sentence, state.hypothesis
        logits, inner = self._model.decode_step(ids, step, inner_state(state))
        # There is no symbol before step 0; pad changes nothing.
        here = self._after(tf.where(step == 0, PAD_ID, ids), before)
        # The next word to tag; any word if none is left.
        last = sentence.words[:, None] - 1
        word = tf.minimum(sentence.words[:, None] - here.untagged, last)  # [B, K]
        tags = tf.gather(self._tag_sets, tf.gather(sentence.tag_sets, word, batch_dims=1))
        allowed = self._allowed(here, tags, sentence.limit[:, None] - step)
        allowed |= tf.math.is_nan(logits)  # must stay visible: searches check for it
        return tf.where(allowed, logits, _IMPOSSIBLE), outer_state(inner, sentence, here)

    def _after(self, ids: tf.Tensor, before: _Hypothesis) -> _Hypothesis:
        """Returns the state after the symbols [B, K] chosen in the previous step."""
        opens, closes = tf.gather(self._opens, ids), tf.gather(self._closes, ids) != PAD_ID
        tags = tf.gather(self._is_tag, ids)
        place = tf.one_hot(before.depth, _MAX_DEPTH, on_value=True, off_value=False)
        pushed = opens[..., None] & place  # [B, K, _MAX_DEPTH]
        return before._replace(
            open_phrases=tf.where(pushed, ids[..., None], before.open_phrases),
            depth=before.depth + tf.cast(opens, tf.int32) - tf.cast(closes, tf.int32),
            is_empty=opens | (before.is_empty & ~closes & ~tags),
            untagged=before.untagged - tf.cast(tags, tf.int32),
        )

    def _allowed(self, here: _Hypothesis, tags: tf.Tensor, room: tf.Tensor) -> tf.Tensor:
        """Returns which symbols may come next, [B, K, V].

        Args:
            here: the state so far.
            tags: [B, K, V], which tags the next word can have.
            room: [B, 1], the number of symbols that still fit.
        """
        words_left = here.untagged > 0
        # An opening symbol, closing ones for it and all open phrases, a tag per word, EOS.
        needed = here.untagged + here.depth + 3
        may_open = words_left & (here.depth < _MAX_DEPTH) & (needed <= room)
        innermost = tf.gather(
            here.open_phrases, tf.maximum(here.depth - 1, 0), axis=2, batch_dims=2
        )  # [B, K]
        may_close = (here.depth > 0) & ~here.is_empty
        may_end = (here.depth == 0) & ~words_left
        closable = tf.where(may_close, innermost, -1)
        return (
            (self._opens & may_open[..., None])
            | (self._closes == closable[..., None])
            | (tags & words_left[..., None])
            | (self._ends & may_end[..., None])
        )


def _tag_sets(
    symbols: Sequence[str], is_tag: np.ndarray, lexicon: Mapping[str, Sequence[str]]
) -> tuple[tf.Tensor, tf.lookup.StaticHashTable]:
    """Returns the sets of tags [U, V] that words have, and each word's row."""
    tags = {symbol: i for i, symbol in enumerate(symbols) if is_tag[i]}
    sets: dict[frozenset[int], int] = {}
    rows = {}
    for word in (UNKNOWN, *lexicon):  # unknown words have row 0
        known = frozenset(tags[tag] for tag in lexicon[word] if tag in tags)
        # A tag that is also a phrase's label counts as a label, so a word may be left without tags.
        rows[word] = sets.setdefault(known or frozenset(tags.values()), len(sets))
    table = np.zeros([len(sets), len(symbols)], bool)
    for members, row in sets.items():
        table[row, list(members)] = True
    initializer = tf.lookup.KeyValueTensorInitializer(
        list(rows), list(rows.values()), tf.string, tf.int32
    )
    return tf.constant(table), tf.lookup.StaticHashTable(initializer, default_value=0)
