"""A mixture of experts with noisy top-k gating (Shazeer et al. 2017, sections 2 to 4).

In docstrings N is the number of tokens, E that of experts, k that of experts for each token, and F
the number of features inside an expert.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.mixture_of_experts import MixtureOfExpertsHParams
from t2t_lite.layers.auxiliary_losses import AuxiliaryLayer, Statistics
from t2t_lite.layers.base import Dropout, Layer, seeds_or_new
from t2t_lite.layers.dense import unit_scaling

_NOISE_EPSILON = 1e-2  # T2T's noise_epsilon: the least standard deviation of the noise
# Weights of an expert are copied once for each of its blocks: few and large blocks copy little,
# many and small ones are filled best. At 4 a token, a quarter of the rows is empty at most.
_BLOCKS_PER_EXPERT = 4
_MIN_BLOCK = 16  # rows


class Routes(NamedTuple):
    """Which experts a token goes to."""

    experts: keras.KerasTensor  # [N, k], the best first; E, one too many, stands for none
    gates: keras.KerasTensor  # [N, k], their weights, which sum to 1
    load: keras.KerasTensor  # [N, E], the probability of being among the k (appendix A)

    def without(self, present: keras.KerasTensor, none: int) -> "Routes":
        """Sends tokens that are not `present` [N, 1] to no expert, whose number is `none`."""
        return Routes(
            ops.where(present, self.experts, none),
            ops.where(present, self.gates, 0.0),
            ops.where(present, self.load, 0.0),
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class NoisyTopKGating(Layer):
    """Chooses k experts for each token: equations 3 to 5, T2T's `noisy_top_k_gating`.

    The gate is computed in float32. Its matrices are 0 at first, so that the noise alone spreads
    the tokens evenly.

    Args:
        channels: D.
        num_experts: E.
        k: experts for each token.
        noise: factor of the noise in training; 0: none. There is none in evaluation.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        channels: int,
        num_experts: int,
        k: int,
        noise: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.num_experts = num_experts
        self.k = k
        self.noise = noise
        self.seeds = seeds_or_new(seeds)
        shape = (channels, num_experts)
        self.w_gate = self.add_weight(shape, "zeros", name="w_gate", precise=True)
        self.w_noise = (
            self.add_weight(shape, "zeros", name="w_noise", precise=True) if noise else None
        )

    def call(self, x: keras.KerasTensor, training: bool = False) -> Routes:
        """Routes `x` [N, D]."""
        x = ops.cast(x, "float32")
        clean = ops.matmul(x, self.w_gate)  # [N, E]
        if not training or self.w_noise is None:
            top, experts = ops.top_k(clean, self.k)
            load = ops.sum(ops.one_hot(experts, self.num_experts), axis=1)
            return Routes(experts, _gates(top), load)
        stddev = self.noise * (ops.softplus(ops.matmul(x, self.w_noise)) + _NOISE_EPSILON)
        noisy = clean + stddev * keras.random.normal(ops.shape(clean), seed=self.seeds)
        top, experts = ops.top_k(noisy, min(self.k + 1, self.num_experts))
        load = (
            in_top_k_probability(clean, noisy, stddev, top, self.k)
            if self.k < self.num_experts
            else ops.ones_like(clean)
        )
        return Routes(experts[:, : self.k], _gates(top[:, : self.k]), load)


def _gates(top: keras.KerasTensor) -> keras.KerasTensor:
    """The softmax of the k best logits [N, k] (equation 3)."""
    # Not Keras's softmax, which warns if k = 1.
    return ops.exp(top - ops.logsumexp(top, axis=-1, keepdims=True))


def in_top_k_probability(
    clean: keras.KerasTensor,
    noisy: keras.KerasTensor,
    stddev: keras.KerasTensor,
    top: keras.KerasTensor,
    k: int,
) -> keras.KerasTensor:
    """The probability [N, E] that an expert is among the k best if its noise alone is drawn again.

    Appendix A, equations 8 and 9; T2T's `_prob_in_top_k`.

    Args:
        clean: [N, E], logits without noise.
        noisy: [N, E], logits with noise.
        stddev: [N, E], of the noise.
        top: [N, k + 1], the best noisy logits, descending.
        k: experts for each token.
    """
    to_stay, to_enter = top[:, k : k + 1], top[:, k - 1 : k]
    to_beat = ops.where(noisy > to_stay, to_stay, to_enter)
    return 0.5 * (1.0 + ops.erf((clean - to_beat) / (2.0**0.5 * stddev + 1e-20)))


def cv_squared(x: keras.KerasTensor) -> keras.KerasTensor:
    """The squared coefficient of variation of `x` [E] (equation 7); 0 if all of `x` is 0."""
    return ops.var(x) / (ops.mean(x) ** 2 + 1e-10)


class _Blocks(NamedTuple):
    """Tokens grouped by expert, each group in blocks of equal size, the last filled up.

    The number M and the size b of the blocks follow from N alone, so compiled programs know them.
    """

    rows: keras.KerasTensor  # [M, b], numbers of tokens from 1; 0 where there is none
    experts: keras.KerasTensor  # [M], the expert of a block
    slots: keras.KerasTensor  # [N, k], where in M·b a token's experts find it

    @classmethod
    def of(cls, experts: keras.KerasTensor, num_experts: int) -> "_Blocks":
        """Groups tokens by `experts` [N, k], see `Routes`."""
        tokens, k = ops.shape(experts)
        pairs = tokens * k
        # JAX would make tensors of integers that it must know.
        least, most = (min, max) if isinstance(pairs, int) else (ops.minimum, ops.maximum)
        size = most(-(-pairs // (_BLOCKS_PER_EXPERT * num_experts)), _MIN_BLOCK)
        # Only the last block of an expert may hold empty rows, and no block is empty.
        count = least(pairs, -(-pairs // size) + num_experts - 1)

        flat = ops.reshape(experts, (-1,))  # [N·k]
        sizes = ops.segment_sum(ops.ones_like(flat), flat, num_segments=num_experts + 1)
        blocks = -(-sizes[:num_experts] // size)
        ends = ops.cumsum(blocks)  # [E], the block after the last of each expert
        first_slots = ops.append((ends - blocks) * size, count * size)  # [E + 1]
        order = ops.argsort(flat)  # by expert
        sorted_experts = ops.take(flat, order)
        ranks = ops.arange(pairs, dtype=flat.dtype) - ops.take(
            ops.cumsum(sizes) - sizes, sorted_experts
        )
        none = sorted_experts == num_experts
        # All those without an expert share one slot behind the last block.
        slots = ops.take(first_slots, sorted_experts) + ops.where(none, 0, ranks)
        total = count * size
        rows = ops.scatter(slots[:, None], ops.where(none, 0, order // k + 1), (total + 1,))
        numbers = ops.arange(count, dtype=ends.dtype)
        # Not `searchsorted`: before 3.12, Keras's needs to know how many blocks there are.
        ended = ops.sum(ops.cast(ends <= numbers[:, None], ends.dtype), axis=1)  # [count]
        return cls(
            rows=ops.reshape(rows[:total], (count, size)),
            # Blocks that nobody needs, too, have an expert.
            experts=ops.minimum(ended, num_experts - 1),
            slots=ops.reshape(ops.scatter(order[:, None], slots, (pairs,)), (tokens, k)),
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class MixtureOfExperts(AuxiliaryLayer):
    """Σ g_i · E_i(x) over the k experts i of each token; E(x) = max(0, x W₀) W₁ · √(D / F).

    In evaluation, each token has its own k experts, with neither noise nor a limit of their
    capacity, so that no output depends on the batch. Padding goes to no expert, and its output is
    0. Two losses keep the experts equally busy (section 4 and appendix A): `loss_coef` times the
    squared coefficients of variation of importance, the sum of gates, and of load, the expected
    number of tokens. T2T's `local_moe` of `ffn_expert_fn` is the same but for padding, which it
    treats as tokens, and for noise, which its models leave on in evaluation.

    Args:
        channels: D.
        hidden_size: F, features inside an expert.
        num_experts: E.
        k: experts for each token.
        loss_coef: weight of both losses.
        gating_noise: factor of the gate's noise in training; 0: none.
        dropout_rate: dropout of the features inside an expert.
        gain: scale of the initial variance of the experts.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.

    Raises:
        UsageError: k is not between 1 and E.
    """

    def __init__(
        self,
        channels: int,
        hidden_size: int,
        num_experts: int,
        k: int = 2,
        loss_coef: float = 1e-2,
        gating_noise: float = 1.0,
        dropout_rate: float = 0.0,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 1 <= k <= num_experts:
            raise UsageError(f"k={k} experts for each token: expected 1 to {num_experts}, all")
        self.channels = channels
        self.hidden_size = hidden_size
        self.num_experts = num_experts
        self.k = k
        self.loss_coef = loss_coef
        self.gating_noise = gating_noise
        self.dropout_rate = dropout_rate
        self.gain = gain
        policy, seeds = self.dtype_policy, seeds_or_new(seeds)
        self.gating = NoisyTopKGating(channels, num_experts, k, gating_noise, seeds, dtype=policy)
        self.dropout = Dropout(dropout_rate, seeds, dtype=policy)
        # Keras divides by E, too, as if the first dimension were that of a convolution's kernel.
        initializer = unit_scaling(gain * num_experts)
        self.expand = self.add_weight(
            shape=(num_experts, channels, hidden_size), initializer=initializer, name="expand"
        )
        self.contract = self.add_weight(
            shape=(num_experts, hidden_size, channels),
            initializer=initializer.clone(),
            name="contract",
        )

    def call(
        self,
        x: keras.KerasTensor,
        training: bool = False,
        mask: keras.KerasTensor | None = None,
        counted: keras.KerasTensor | None = None,
        x_mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [..., D] to [..., D].

        Args:
            x: the layer's input.
            training: whether noise and dropout are on, and the losses are computed.
            mask: [...], False at padding; Keras passes the mask of `x`.
            counted: [...], False where the losses do not count a token (default: `mask`). For a
                decoder, whose outputs must not depend on whether a position will be padding.
            x_mask: replaces `mask`; so Keras calls the mask of `x` if there is `counted`.
        """
        mask = x_mask if mask is None else mask
        tokens = ops.reshape(ops.cast(x, self.compute_dtype), (-1, self.channels))  # [N, D]
        routes: Routes = self.gating(tokens, training=training)
        if training:
            self._count(routes, mask if counted is None else counted)
        if mask is not None:
            routes = routes.without(ops.reshape(mask, (-1, 1)), self.num_experts)
        return ops.reshape(self._mix(tokens, routes, training), ops.shape(x))

    def _count(self, routes: Routes, counted: keras.KerasTensor | None) -> None:
        """Adds what the losses are made of."""
        if counted is not None:
            routes = routes.without(ops.reshape(counted, (-1, 1)), self.num_experts)
        gates, experts = (ops.reshape(part, (-1,)) for part in (routes.gates, routes.experts))
        importance = ops.segment_sum(gates, experts, num_segments=self.num_experts + 1)
        self.add_statistics(
            {"importance": importance[: self.num_experts], "load": ops.sum(routes.load, axis=0)}
        )

    def _mix(self, tokens: keras.KerasTensor, routes: Routes, training: bool) -> keras.KerasTensor:
        """Returns the weighted sum of the experts' outputs for `tokens` [N, D]."""
        blocks = _Blocks.of(routes.experts, self.num_experts)
        rows = ops.take(ops.pad(tokens, [[1, 0], [0, 0]]), blocks.rows, axis=0)  # [M, b, D]
        expand, contract = (
            ops.take(ops.cast(kernel, self.compute_dtype), blocks.experts, axis=0)
            for kernel in (self.expand, self.contract)
        )
        hidden = self.dropout(ops.relu(ops.matmul(rows, expand)), training=training)
        outputs = ops.reshape(ops.matmul(hidden, contract), (-1, self.channels))  # [M·b, D]
        # Padding reads a row of zeros behind all blocks.
        outputs = ops.take(ops.pad(outputs, [[0, 1], [0, 0]]), blocks.slots, axis=0)  # [N, k, D]
        gates = ops.cast(routes.gates * (self.channels / self.hidden_size) ** 0.5, outputs.dtype)
        return ops.sum(outputs * gates[..., None], axis=1)

    @property
    def statistics_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the sums over tokens."""
        return {"importance": (self.num_experts,), "load": (self.num_experts,)}

    def auxiliary_losses(self, sums: Statistics) -> dict[str, keras.KerasTensor]:
        """Returns the losses of unequal importance (equation 7) and load (equation 11)."""
        return {
            f"expert_{name}": self.loss_coef * cv_squared(values) for name, values in sums.items()
        }

    def flops_per_token(self) -> float:
        """Returns the operations of a token's k experts, without those of the gate."""
        return 2.0 * self.k * 2 * self.channels * self.hidden_size


def make_mixture(
    hparams: MixtureOfExpertsHParams,
    channels: int,
    dropout_rate: float,
    seeds: keras.random.SeedGenerator,
) -> MixtureOfExperts:
    """Creates a mixture of experts on `channels` features according to the hparams.

    Raises:
        UsageError: `moe_hidden_sizes` is not one number, or there are fewer than `moe_k` experts.
    """
    if not hparams.moe_hidden_sizes.isdecimal() or not int(hparams.moe_hidden_sizes):
        raise UsageError(
            f"hparam moe_hidden_sizes={hparams.moe_hidden_sizes!r}: expected one number, because "
            "an expert has one hidden layer"
        )
    return MixtureOfExperts(
        channels,
        int(hparams.moe_hidden_sizes),
        hparams.moe_num_experts,
        hparams.moe_k,
        loss_coef=hparams.moe_loss_coef,
        gating_noise=hparams.moe_gating_noise,
        dropout_rate=dropout_rate,
        gain=hparams.initializer_gain,
        seeds=seeds,
    )
