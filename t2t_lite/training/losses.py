"""The loss of a batch: cross entropy with label smoothing, summed over its target tokens.

`summed_loss` is what the plain objective differentiates (training/objectives/).
"""

import math
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.layers.dense import EXCLUDED, OutputProjection, OutputRows
from t2t_lite.models.seq2seq import Seq2Seq

# 12 MB in float32, which stay in a processor's cache from one operation to the next.
_CACHED_LOGITS = 3_000_000

# Maps the logits of each pass [C, V] and the targets [C] to losses [count], summed over tokens.
LogitLosses = Callable[[Sequence[tf.Tensor], tf.Tensor], tf.Tensor]


def summed_loss(
    model: Seq2Seq, hidden: tf.Tensor, targets: tf.Tensor, scale: tf.Tensor | float = 1.0
) -> tf.Tensor:
    """Returns `scale` times the summed losses of `targets` [B, T], given `hidden` [B, T, D]."""
    h = model.hparams
    hidden, targets = real_tokens(h, hidden, targets)
    rows = h.loss_chunk_tokens or rows_at_a_time(model)
    return summed_cross_entropy(
        model.output_projection,
        hidden,
        targets,
        h.label_smoothing,
        rows if rows < h.batch_size else 0,
        scale,
    )


def rows_at_a_time(model: Seq2Seq) -> int:
    """Returns how many rows of logits to compute at a time.

    On a CPU, they are as many as fit its cache, if these are at least 2 D: each chunk adds D rows
    to the gradient of the weights. Otherwise they are a whole batch, as on a GPU, where XLA
    compiles the step, and with a projection of a user's own.
    """
    projection, batch_size = model.output_projection, model.hparams.batch_size
    if model.hparams.xla_compile or tf.config.list_logical_devices("GPU"):
        return batch_size
    if type(projection).call is not OutputProjection.call:
        return batch_size
    rows = _CACHED_LOGITS // model.targets_vocab_size
    return rows if rows >= 2 * projection.embedding.channels else batch_size


def real_tokens(
    hparams: BasicHParams, hidden: tf.Tensor, targets: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Selects the tokens whose logits are needed: `hidden` [N, D] and `targets` [N].

    Logits are the largest array of a step: except with XLA, they are not computed for padding.

    Args:
        hparams: say whether to use XLA, and define the padding.
        hidden: [B, T, D].
        targets: [B, T].
    """
    if hparams.xla_compile:  # sizes must not depend on values
        return tf.reshape(hidden, [-1, hidden.shape[-1]]), tf.reshape(targets, [-1])
    present = tf.not_equal(targets, 0)
    hidden = tf.boolean_mask(hidden, present)  # [N, D]
    targets = tf.boolean_mask(targets, present)  # [N]
    missing = -tf.shape(targets)[0] % _token_multiple(hparams)
    return tf.pad(hidden, [[0, missing], [0, 0]]), tf.pad(targets, [[0, missing]])


def _token_multiple(hparams: BasicHParams) -> int:
    """Returns what the number of target tokens in the softmax is padded to a multiple of.

    Their number is a size of products, and nearly every batch has another. Multiples of 1/64 of a
    full batch leave at most 64 sizes.
    """
    return max(1, hparams.batch_size // 64) if hparams.length_multiple > 1 else 1


def smoothed_cross_entropy(
    logits: tf.Tensor, targets: tf.Tensor, label_smoothing: float
) -> tf.Tensor:
    """Cross entropy against smoothed labels, as in T2T.

    The correct subword has probability 1 - ε, the other V - 1 share ε evenly (paper, section 5.4).
    The entropy of that distribution is subtracted, so that a perfect model has loss 0.

    Args:
        logits: [N, V], float32.
        targets: [N], ids of the correct subwords.
        label_smoothing: ε; 0 is the plain cross entropy.

    Returns:
        [N] losses in nats.
    """
    vocab_size = logits.shape[-1]
    high, low, entropy = smoothed_labels(label_smoothing, vocab_size)

    @tf.custom_gradient
    def loss(z: tf.Tensor) -> tuple[tf.Tensor, object]:
        # oneDNN's softmax: TensorFlow's kernel for the loss and its gradient takes 9 times as long.
        softmax = tf.nn.softmax(z)
        largest = tf.reduce_max(z, axis=1)
        # Relative to the largest logit: log Σ exp(z - largest), of which the softmax's maximum is
        # the inverse.
        logsumexp = -tf.math.log(tf.reduce_max(softmax, axis=1))
        rows = tf.range(tf.shape(z)[0], dtype=targets.dtype)
        at_target = tf.stack([rows, targets], axis=1)  # [N, 2]
        # -Σ p log softmax(z) = logsumexp(z) - Σ p z
        mean = (high - low) * (tf.gather_nd(z, at_target) - largest)
        if label_smoothing:
            mean += low * (tf.reduce_sum(z, axis=1) - vocab_size * largest)

        def backward(upstream: tf.Tensor) -> tf.Tensor:
            scaled = (softmax - low if label_smoothing else softmax) * upstream[:, None]
            return tf.tensor_scatter_nd_add(scaled, at_target, (low - high) * upstream)

        return logsumexp - mean - entropy, backward

    return loss(logits)


def smoothed_labels(label_smoothing: float, vocab_size: int) -> tuple[float, float, float]:
    """Returns the probability of the correct subword, of each other one, and their entropy."""
    low = label_smoothing / (vocab_size - 1)
    high = 1.0 - label_smoothing
    return high, low, -(high * math.log(high) + label_smoothing * math.log(low + 1e-20))


def smoothed_among_possible(
    logits: tf.Tensor, targets: tf.Tensor, label_smoothing: float
) -> tf.Tensor:
    """As `smoothed_cross_entropy`, where ids with logits of `EXCLUDED` get no share of ε.

    Neither does any other id if only one is possible.
    """
    possible = tf.cast(logits > EXCLUDED, tf.float32)  # [N, V]
    others = tf.maximum(tf.reduce_sum(possible, axis=1, keepdims=True) - 1.0, 0.0)
    taken = tf.minimum(others, 1.0) * label_smoothing  # [N, 1]
    right = tf.one_hot(targets, logits.shape[-1])
    labels = tf.where(right > 0, 1.0 - taken, possible * taken / tf.maximum(others, 1.0))
    entropy = -tf.reduce_sum(tf.math.xlogy(labels, labels), axis=1)
    return tf.nn.softmax_cross_entropy_with_logits(labels, logits) - entropy


def smoothed_without_padding(
    logits: tf.Tensor, targets: tf.Tensor, label_smoothing: float
) -> tf.Tensor:
    """As `smoothed_cross_entropy`, where padding, the first id, gets no share of ε.

    The losses of targets that are padding mean nothing.
    """
    return smoothed_cross_entropy(logits[:, 1:], tf.maximum(targets - 1, 0), label_smoothing)


def cross_entropy_of(
    projection: OutputProjection,
) -> Callable[[tf.Tensor, tf.Tensor, float], tf.Tensor]:
    """Returns the smoothed cross entropy that suits the logits of `projection`."""
    if projection.excludes:
        return smoothed_among_possible
    return smoothed_cross_entropy if projection.has_padding else smoothed_without_padding


def summed_cross_entropy(
    projection: OutputProjection,
    hidden: tf.Tensor,
    targets: tf.Tensor,
    label_smoothing: float,
    chunk_tokens: int = 0,
    scale: tf.Tensor | float = 1.0,
) -> tf.Tensor:
    """Sums the smoothed cross entropy of projected features over tokens.

    Args:
        projection: maps hidden features [C, D] to logits [C, V].
        hidden: [N, D].
        targets: [N], ids of the correct subwords; 0 is padding, with loss 0.
        label_smoothing: ε.
        chunk_tokens: number of tokens whose logits are in memory at a time; 0: all.
        scale: factor of the loss, applied early so that small gradients do not underflow in
            float16.

    Returns:
        The sum in nats times `scale`, a float32 scalar.
    """
    cross_entropy = cross_entropy_of(projection)

    def summed(logits: Sequence[tf.Tensor], targets: tf.Tensor) -> tf.Tensor:
        losses = cross_entropy(tf.cast(logits[0], tf.float32), targets, label_smoothing)
        return scale * tf.reduce_sum(tf.where(tf.not_equal(targets, 0), losses, 0.0))

    if not chunk_tokens:
        return summed([projection(hidden)], targets)
    loss, _ = sum_over_chunks(
        projection,
        lambda logits, targets: summed(logits, targets)[None],
        hidden[None],
        targets,
        chunk_tokens,
    )
    return loss


def sum_over_chunks(
    projection: OutputProjection,
    losses_of: LogitLosses,
    hidden: tf.Tensor,
    targets: tf.Tensor,
    chunk_tokens: int | tf.Tensor,
    count: int = 1,
    fused: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Sums losses in a loop over chunks of tokens.

    Each chunk's gradients are computed with its loss. So its logits, by far the largest array of a
    training step, are freed before the next chunk, and the backward pass needs none.

    Args:
        projection: maps hidden features [P C, D], and what its `rows` returns, to logits [P C, V].
        losses_of: the losses of a chunk.
        hidden: [P, N, D], of P passes over the same tokens.
        targets: [N], ids of the correct subwords; 0 is padding.
        chunk_tokens: C, at most.
        count: number of the losses.
        fused: whether XLA computes losses and their gradients by logits, in one program for each
            length of a chunk, which reads and writes the logits fewer times.

    Returns:
        The sum of all losses, a scalar; and of each [count], for reports, without gradients.
    """
    passes = hidden.shape[0]
    hidden, targets = _chunks(hidden, targets, chunk_tokens)
    rows = projection.rows()  # cast and transposed once, not for each chunk
    weights = rows.kernel, rows.bias
    trained = tf.nest.flatten(weights) if projection.trainable_variables else []

    def with_gradients(logits: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = losses_of(tf.split(logits, passes), targets)
        return losses, tape.gradient(losses, logits)

    if fused:
        with_gradients = tf.function(with_gradients, jit_compile=True)

    @tf.custom_gradient
    def total(
        hidden: tf.Tensor, *values: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[..., list[tf.Tensor]]]:
        def body(
            i: tf.Tensor, losses: tf.Tensor, by_hidden: tf.TensorArray, *by_weights: tf.Tensor
        ) -> tuple[tf.Tensor | tf.TensorArray, ...]:
            chunk = hidden[i]
            with tf.GradientTape() as tape:
                tape.watch([chunk, *values])
                given = tf.nest.pack_sequence_as(weights, values) if values else weights
                logits = projection(chunk, OutputRows(rows.ids, *given))
            more, by_logits = with_gradients(logits, targets[i])
            first, *rest = tape.gradient(logits, [chunk, *values], by_logits)
            sums = (a + tf.cast(b, a.dtype) for a, b in zip(by_weights, rest, strict=True))
            return i + 1, losses + more, by_hidden.write(i, first), *sums

        chunks = tf.shape(hidden)[0]
        by_hidden = tf.TensorArray(hidden.dtype, chunks, element_shape=hidden.shape[1:])
        zeros = [tf.zeros_like(value, tf.float32) for value in values]
        _, losses, by_hidden, *by_weights = tf.while_loop(
            lambda i, *_: i < chunks,
            body,
            (tf.constant(0), tf.zeros([count]), by_hidden, *zeros),
            parallel_iterations=1,  # or the logits of several chunks would exist at a time
        )
        gradients = (by_hidden.stack(), *by_weights)

        def backward(upstream: tf.Tensor, _: tf.Tensor) -> list[tf.Tensor]:
            products = (tf.cast(upstream, g.dtype) * g for g in gradients)
            return [tf.cast(g, x.dtype) for g, x in zip(products, (hidden, *values), strict=True)]

        return (tf.reduce_sum(losses), losses), backward

    return total(hidden, *trained)


def _chunks(
    hidden: tf.Tensor, targets: tf.Tensor, chunk_tokens: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Divides `hidden` [P, N, D] and `targets` [N] into [N/C, P C, D] and [N/C, C], padded."""
    passes, tokens, channels = keras.ops.shape(hidden)  # integers where static
    chunks = keras.ops.maximum((tokens + chunk_tokens - 1) // chunk_tokens, 1)
    length = (tokens + chunks - 1) // chunks  # chunks of equal length need the least padding
    padding = chunks * length - tokens
    hidden = tf.pad(hidden, [[0, 0], [0, padding], [0, 0]])
    hidden = tf.reshape(hidden, [passes, chunks, length, channels])
    targets = tf.reshape(tf.pad(targets, [[0, padding]]), [chunks, length])
    hidden = tf.transpose(hidden, [1, 0, 2, 3])
    return tf.reshape(hidden, [chunks, passes * length, channels]), targets
