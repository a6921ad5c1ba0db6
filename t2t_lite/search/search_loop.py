"""The base of all searches: compiled loops over decoding steps, in chunks.

Every sentence has its own limit and stops independently: its results do not depend on the other
sentences of the batch.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.layers.dense import EXCLUDED
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.constraints import Constraint, Suppressed, constrain, forced, is_any
from t2t_lite.search.parts import DEAD, Sentences, StepModel, ends_of, narrowed
from t2t_lite.search.penalties import NO_PENALTY, Penalty
from t2t_lite.search.plain_keras import as_step_model
from t2t_lite.search.tracing import one_at_a_time
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID

# Steps per compiled loop. Between loops, finished sentences leave the batch and the model's memory
# grows; this few steps waste little computation, and this many hide the cost of Python.
CHUNK = 8

# Of the size of a narrowed vocabulary: products have rows of a size that suits registers.
_MULTIPLE = 32

# A scalar, a vector and a matrix of any size.
_INTEGERS = tuple(tf.TensorSpec([None] * rank, tf.int32) for rank in range(3))


class Hypotheses(NamedTuple):
    """The results of a search: of beam search best first, of sampling in the order of drawing."""

    ids: Any  # [B, K, L] int32, EOS included, 0 after it
    scores: Any  # [B, K] float32; `DEAD` if fewer than K were found, NaN if the model output it


class Asked(NamedTuple):
    """What a search begins with."""

    inputs: Any  # [B, S] ids, 0 at padding
    limits: Any  # [B], the maximum length of each output, EOS included
    prefixes: Any  # [B, P], how each output begins; 0 after that
    numbers: Any  # [B], the number of each sentence, whatever the batch
    given: Any  # [B], tokens at the start whose log-probability is 0
    vocabulary: Any  # [U], the ids of a narrowed vocabulary; else [0]
    permitted: Any  # [B, U], which of them each sentence may have; else [B, 0]
    length: Any  # steps to allocate
    longest: Any  # steps that the search may take in all; no limit is greater
    extra: Sequence[Any] = ()  # what a search of this kind needs besides


class _Search(NamedTuple):
    """The whole state between chunks."""

    sentences: Sentences
    model: DecodeState
    hypotheses: Any


class SearchLoop(abc.ABC):
    """A search, traced once for batches of all shapes.

    XLA recompiles its steps for each shape. To limit their number, all sizes are then powers of
    two: rows of padding, or finished sentences, fill the batch.

    A subclass defines the state of its hypotheses: a NamedTuple of tensors with leading dimension
    B, one of which is `done` [B], whether a sentence's search has ended. The search is compiled on
    first use.

    Args:
        model: any `Seq2Seq` or `StepModel`, or a plain `keras.Model` (see `PlainKerasModel`). What
            its member `never_output` lists, if it has one, is suppressed; what `other_ends` lists
            ends an output as EOS does.
        beam_size: K, hypotheses per sentence.
        constraints: what outputs must or must not contain.
        penalty: what outputs are scored by.
        is_prompt: whether prefixes are prompts, whose log-probability and length do not count.
        xla_compile: whether XLA compiles the steps, which takes seconds for every shape.
        shortlist: the ids that outputs may consist of; None: all. The softmax is over these alone.
        start_id: the id with which the targets of a plain Keras model begin; None: it shifts them.
        eos_id: the id that ends an output.
        shifts: whether a plain Keras model shifts its targets right; None: as is found out.

    Raises:
        UsageError: `beam_size` is less than 1, the model cannot decode with a short list, or a
            plain Keras model does not fit (see `PlainKerasModel`); or Keras uses a backend other
            than TensorFlow.

    Attributes:
        penalty: as above.
    """

    def __init__(
        self,
        model: StepModel | keras.Model,
        beam_size: int,
        constraints: Sequence[Constraint] = (),
        penalty: Penalty = NO_PENALTY,
        is_prompt: bool = False,
        xla_compile: bool = False,
        shortlist: Shortlist | None = None,
        start_id: int | None = None,
        eos_id: int = EOS_ID,
        shifts: bool | None = None,
    ) -> None:
        if beam_size < 1:
            raise UsageError(f"beam_size={beam_size}: expected at least 1")
        self._model: StepModel = as_step_model(model, start_id, eos_id, shifts)
        self._require_lengths = getattr(self._model, "require_lengths", None)
        self._eos_id = eos_id
        self._shortlist = shortlist
        self._never_output: Sequence[int] = getattr(model, "never_output", ())
        self._ends = (eos_id, *ends_of(model)[1:])
        if shortlist and len(self._ends) > 1:
            raise UsageError(
                f"{type(model).__name__} ends outputs with several ids, which a short list cannot "
                "hold: leave it out"
            )
        if shortlist and not getattr(self._model, "can_narrow", False):
            raise UsageError(
                f"{type(model).__name__} cannot decode with a short list: leave it out"
            )
        if shortlist and eos_id != EOS_ID:
            raise UsageError(f"eos_id={eos_id}: with a short list, id {EOS_ID} ends outputs")
        if self._never_output and not shortlist:
            constraints = (Suppressed(tuple(self._never_output)), *constraints)
        for part in (*constraints, penalty):
            self._model = part.wrap(self._model)
        self._constraints = constraints
        self.penalty = penalty
        self._beam_size = beam_size
        self._is_prompt = is_prompt
        self._xla_compile = xla_compile

    # The specs of `extra`.
    _extra_signature: Sequence[tf.TensorSpec] = ()

    @property
    def _most_candidates(self) -> int:
        """The most ids that a step may choose among those of a hypothesis."""
        return 1

    @abc.abstractmethod
    def _begin(self, sentences: Sentences, asked: Asked) -> Any:
        """Returns the hypotheses before the first step.

        Args:
            sentences: what the caller says of each sentence.
            asked: what the search begins with.
        """

    @abc.abstractmethod
    def _lengthen(self, hypotheses: Any, length: tf.Tensor) -> Any:
        """Grows the hypotheses to `length` steps in all."""

    @abc.abstractmethod
    def _step(
        self, step: tf.Tensor, old: Any, state: DecodeState, sentences: Sentences
    ) -> tuple[Any, Any]:
        """Takes one step of all sentences, including finished ones.

        Returns:
            The hypotheses, and the model's state of them in the same order.
        """

    @abc.abstractmethod
    def _results(self, hypotheses: Any) -> Hypotheses:
        """Returns the results of the search."""

    def __call__(
        self,
        inputs: np.ndarray,
        max_lengths: np.ndarray | Sequence[int] | int,
        prefixes: np.ndarray | None = None,
        numbers: np.ndarray | None = None,
        given: np.ndarray | None = None,
        extra: Sequence[np.ndarray] = (),
    ) -> Hypotheses:
        """Searches for the outputs of a batch.

        Args:
            inputs: [B, S] ids, 0 at padding; B may be 0.
            max_lengths: [B], or one number for all: the maximum length of each output, EOS
                included; at least 1.
            prefixes: [B, P], ids with which each output must begin, without EOS; 0 after them.
                Their log-probabilities count in the scores. None: no prefixes.
            numbers: [B], the number of each sentence, which determines its random draws. None: 0,
                1, 2...
            given: [B], how many ids of each prefix, from its start, have log-probability 0: all of
                a prompt, whatever this says; else such as a target language. None: 0.
            extra: what a search of this kind needs besides.

        Raises:
            ValueError: a prefix does not fit into its output.
            UsageError: a plain Keras model does not take so many positions.
        """
        inputs = np.asarray(inputs)
        batch = len(inputs)
        limits = np.broadcast_to(np.asarray(max_lengths, np.int32), [batch])
        prefixes = np.zeros([batch, 0], np.int32) if prefixes is None else np.asarray(prefixes)
        if (np.count_nonzero(prefixes, axis=1) >= limits).any():
            raise ValueError("max_lengths must leave room for the prefix and EOS")
        numbers = np.arange(batch) if numbers is None else np.asarray(numbers)
        given = np.zeros([batch], np.int32) if given is None else np.asarray(given)
        longest = int(np.max(max_lengths, initial=0))
        if not batch:
            return self._room(0, longest)
        if self._require_lengths:
            self._require_lengths(inputs.shape[1], longest)
        vocabulary, permitted = self._candidates_of(inputs, prefixes)
        if self._shortlist:
            prefixes = np.searchsorted(vocabulary, prefixes)
            missing = max(-len(vocabulary) % _MULTIPLE, self._most_candidates - len(vocabulary))
            vocabulary = np.pad(vocabulary, [0, missing])
            permitted = np.pad(permitted, [(0, 0), (0, missing)])
        asked = Asked(
            inputs=self._padded(inputs, 0),
            limits=self._padded(limits, 1),  # rows of padding have one step
            prefixes=self._padded(prefixes, 0),
            numbers=self._padded(numbers, 0),
            given=self._padded(given, 0),
            vocabulary=self._padded(vocabulary, 0),
            permitted=self._padded(permitted, 0),
            length=self._size(min(CHUNK, longest)),
            longest=self._size(longest),
            extra=tuple(self._padded(x, 0) for x in extra),
        )
        searched = self._searched(asked, longest)
        ids = searched.ids[:batch, :, :longest]
        ids = vocabulary.astype(np.int32)[ids] if self._shortlist else ids
        return Hypotheses(ids, searched.scores[:batch])

    def _searched(self, asked: Asked, longest: int) -> Hypotheses:
        """Runs the compiled loops until all sentences, padding included, are done."""
        size, results = self._size, self._room(len(asked.limits), asked.longest)
        rows = np.arange(len(asked.limits))  # indices in `results` of the unfinished sentences
        length = min(CHUNK, longest)
        search = self._begun(tf.nest.map_structure(lambda x: tf.constant(x, tf.int32), asked))
        run, resize = self._compiled
        step = tf.constant(0)
        while True:
            search, step = run(search, step, tf.constant(length))
            done = search.hypotheses.done.numpy()
            ids, scores = (x.numpy() for x in self._results(search.hypotheses))
            results.ids[rows[done], :, : ids.shape[2]] = ids[done]
            results.scores[rows[done]] = scores[done]
            if done.all():
                return results
            # Unfinished sentences come first; finished ones fill the batch up to an allowed size.
            kept = np.sort(np.argsort(done, kind="stable")[: size(int((~done).sum()))])
            rows = rows[kept]
            length = min(length + CHUNK, longest)
            search = resize(search, tf.constant(kept, tf.int32), tf.constant(size(length)))

    def _room(self, batch: int, longest: int) -> Hypotheses:
        """Returns hypotheses of `batch` sentences, all 0."""
        shape = (batch, self._beam_size, longest)
        return Hypotheses(np.zeros(shape, np.int32), np.zeros(shape[:2], np.float32))

    def in_graph(
        self,
        inputs: tf.Tensor,
        max_lengths: tf.Tensor,
        prefixes: tf.Tensor | None = None,
        given: tf.Tensor | None = None,
    ) -> Hypotheses:
        """Searches within a graph, all steps in one loop: for export; with the whole vocabulary.

        Args:
            inputs: [B, S] ids, 0 at padding.
            max_lengths: [B], the maximum length of each output, EOS included.
            prefixes: [B, P] ids with which each output must begin; None: no prefixes.
            given: [B], see `__call__`; None: 0.

        Raises:
            UsageError: the search has a short list.
        """
        if self._shortlist:
            raise UsageError("a search within a graph has no short list: leave it out")
        batch = tf.shape(inputs)[0]
        length = tf.reduce_max(max_lengths)
        if prefixes is None:
            prefixes = tf.zeros([batch, 0], tf.int32)
        if given is None:
            given = tf.zeros([batch], tf.int32)
        search = self._start_search(
            Asked(
                inputs=inputs,
                limits=max_lengths,
                prefixes=prefixes,
                numbers=tf.range(batch),
                given=given,
                vocabulary=tf.zeros([0], tf.int32),
                permitted=tf.zeros([batch, 0], tf.int32),
                length=length,
                longest=length,
            )
        )
        search, _ = self._run_steps(search, tf.constant(0), length)
        return self._results(search.hypotheses)

    def _candidates_of(
        self, inputs: np.ndarray, prefixes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the narrowed vocabulary [U], and what of it each sentence may have [B, U]."""
        if not self._shortlist:
            return np.zeros([0], np.int32), np.zeros([len(inputs), 0], np.int32)
        return self._shortlist.candidates(inputs, prefixes, self._never_output)

    def _size(self, count: int) -> int:
        """Returns the size of a dimension that holds `count` entries."""
        if not self._xla_compile or not count:
            return count
        return 1 << (count - 1).bit_length()  # the next power of two

    def _padded(self, x: np.ndarray, value: int) -> np.ndarray:
        return np.pad(x, [(0, self._size(n) - n) for n in x.shape], constant_values=value)

    @functools.cached_property
    def _start(self) -> tf.types.experimental.ConcreteFunction:
        """The compiled start of a search, traced once for all B, S, P and L."""
        scalar, vector, matrix = _INTEGERS
        asked = Asked(
            inputs=matrix,
            limits=vector,
            prefixes=matrix,
            numbers=vector,
            given=vector,
            vocabulary=vector,
            permitted=matrix,
            length=scalar,
            longest=scalar,
            extra=tuple(self._extra_signature),
        )
        return _traced(self._start_search, asked)

    def _begun(self, asked: Asked) -> _Search:
        """Starts a search; the first time, TensorFlow prepares the start while steps are traced."""
        start = self._start
        if "_compiled" in vars(self):
            return start(asked)

        def begin() -> _Search:
            with tf.device(asked.inputs.device):  # devices are chosen per thread
                return start(asked)

        with ThreadPoolExecutor(1) as background:
            search = background.submit(begin)
            _ = self._compiled
        return search.result()

    @functools.cached_property
    def _compiled(self) -> tuple[Callable[..., Any], ...]:
        """The compiled steps, and the compiled change of the batch between them."""
        scalar, vector, _ = _INTEGERS
        # Only model and subclass know their shapes; sizes that vary with B, S, P or L are None.
        search = tf.nest.map_structure(
            lambda x: tf.TensorSpec(x.shape, x.dtype), self._start.structured_outputs
        )
        jit = self._xla_compile or None  # None: TensorFlow decides, as everywhere else
        run = _traced(self._run_steps, search, scalar, scalar, jit_compile=jit)
        resize = _traced(self._keep_and_grow, search, vector, scalar)
        return run, resize

    def _start_search(self, asked: Asked) -> _Search:
        """Encodes the sentences and allocates the first steps."""
        state = self._model.start_decoding(asked.inputs, self._beam_size, asked.length)
        if self._shortlist:
            state = narrowed(self._model, state, asked.vocabulary)
        uncounted, given = tf.zeros_like(asked.limits), asked.given
        if self._is_prompt:
            uncounted = given = tf.math.count_nonzero(asked.prefixes, axis=1, dtype=tf.int32)
        sentences = Sentences(
            asked.limits,
            asked.prefixes,
            tf.fill(tf.shape(asked.limits), self._eos_id),
            uncounted,
            given,
            asked.permitted,
            asked.extra,
        )
        return _Search(sentences, state, self._begin(sentences, asked))

    def _decode_step(
        self, ids: tf.Tensor, step: tf.Tensor, state: DecodeState, sentences: Sentences
    ) -> tuple[tf.Tensor, DecodeState]:
        """Takes one step of the model; a sentence's logits do not depend on the batch's list."""
        logits, state = self._model.decode_step(ids, step, state)
        if not self._shortlist:
            return logits, state
        permitted = sentences.permitted > 0  # [B, U]
        next_id = forced(step, sentences)[:, None]  # [B, 1]
        permitted |= (tf.range(tf.shape(permitted)[1]) == next_id) & (next_id != PAD_ID)
        logits = tf.cast(logits, tf.float32)
        return tf.where(permitted[:, None], logits, EXCLUDED), state

    def _ended(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns which tokens end an output."""
        return is_any(tokens, self._ends)

    def _constrained(
        self, logits: tf.Tensor, ids: tf.Tensor, step: tf.Tensor, sentences: Sentences
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Applies the constraints; see `constrain`."""
        return constrain(self._constraints, logits, ids, step, sentences)

    def _keep_and_grow(self, search: _Search, kept: tf.Tensor, length: tf.Tensor) -> _Search:
        """Keeps the sentences `kept` [B'] and grows the state to `length` steps in all."""
        sentences, (sentence, hypothesis, weights), hypotheses = search
        sentences, sentence, hypothesis, hypotheses = tf.nest.map_structure(
            lambda x: tf.gather(x, kept), (sentences, sentence, hypothesis, hypotheses)
        )
        state = self._model.grow(DecodeState(sentence, hypothesis, weights), length)
        return _Search(sentences, state, self._lengthen(hypotheses, length))

    def _run_steps(
        self, search: _Search, step: tf.Tensor, end: tf.Tensor
    ) -> tuple[_Search, tf.Tensor]:
        """Takes steps until `end`, or until all sentences are done."""
        sentences, state, hypotheses = search

        def is_unfinished(step: tf.Tensor, hypotheses: Any, model: Any) -> tf.Tensor:
            del model
            return (step < end) & ~tf.reduce_all(hypotheses.done)

        def body(step: tf.Tensor, old: Any, model: Any) -> tuple[tf.Tensor, Any, Any]:
            new, model = self._step(step, old, state._replace(hypothesis=model), sentences)
            return step + 1, _where_done(old, new), model

        step, hypotheses, model = tf.while_loop(
            is_unfinished, body, (step, hypotheses, state.hypothesis)
        )
        return _Search(sentences, state._replace(hypothesis=model), hypotheses), step


def _traced(
    function: Callable[..., Any], *signature: Any, jit_compile: bool | None = None
) -> tf.types.experimental.ConcreteFunction:
    """Traces for this one signature (nests of specs), so that nothing is retraced."""
    # All loops and conditions are TensorFlow's; searching for others would double the time.
    alone = one_at_a_time(function)
    traced = tf.function(alone, input_signature=signature, autograph=False, jit_compile=jit_compile)
    return traced.get_concrete_function()


def _where_done(old: Any, new: Any) -> Any:
    """Returns the `old` hypotheses of sentences that were already done, the `new` of the others."""

    def choose(before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
        done = tf.reshape(old.done, [-1] + [1] * (len(before.shape) - 1))  # [B, 1, ...]
        return tf.where(done, before, after)

    return tf.nest.map_structure(choose, old, new)


def hypotheses(ids: tf.Tensor, scores: tf.Tensor) -> Hypotheses:
    """Returns the hypotheses of `ids` [B, K, L]; no ids for those that do not exist."""
    ids = tf.where((scores > DEAD)[..., None], ids, PAD_ID)
    return Hypotheses(ids, tf.where(scores <= DEAD, DEAD, scores))


def reorder(x: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
    """Returns the entries `order` [B, M] of each sentence from `x` [B, N, ...]: [B, M, ...]."""
    return tf.gather(x, order, axis=1, batch_dims=1)
