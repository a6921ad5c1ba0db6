"""Layers of one matrix or two: projections, feed-forward networks, embeddings, logits."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.layers.base import Dropout, Layer, is_narrow, seeds_or_new
from t2t_lite.tensor_sizes import shape_of
from t2t_lite.text.text_encoder import PAD_ID

# Logit of an id that cannot occur: its probability is 0, and a hypothesis with it does not exist.
EXCLUDED = -1e9

# Replaces a symbol that is dropped in training: it has no embedding, but is not padding.
DROPPED_ID = -1

# By their names as hparam `ffn_activation`. The last is Hendrycks and Gimpel's sigmoid form.
_ACTIVATIONS: dict[str, Callable[[keras.KerasTensor], keras.KerasTensor]] = {
    "relu": ops.relu,
    "swish": ops.silu,
    "gelu": functools.partial(ops.gelu, approximate=False),
    "gelu_tanh": functools.partial(ops.gelu, approximate=True),
    "gelu_sigmoid": lambda x: x * ops.sigmoid(1.702 * x),
}


def sizes(x: keras.KerasTensor) -> tuple[Any, ...]:
    """Returns the sizes of `x`, for `ops.reshape`: a single one that is unknown is -1.

    What TensorFlow does not know while it traces, it computes at run time. In a step of a search
    for one sentence that takes as long as the small products.
    """
    if sum(size is None for size in x.shape) == 1:
        return tuple(-1 if size is None else size for size in x.shape)
    return shape_of(x)


def multiply(x: keras.KerasTensor, kernel: keras.KerasTensor) -> keras.KerasTensor:
    """Multiplies `x` [..., D] by `kernel` [D, N], as one product of all rows; returns [..., N]."""
    if len(x.shape) == 2:
        return ops.matmul(x, kernel)
    product = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), kernel)
    columns = kernel.shape[-1] or ops.shape(kernel)[-1]  # unknown for a narrowed vocabulary
    return ops.reshape(product, (*sizes(x)[:-1], columns))


def unit_scaling(gain: float) -> keras.initializers.Initializer:
    """Uniform with variance `gain / mean(fan_in, fan_out)`: T2T's `uniform_unit_scaling`."""
    return keras.initializers.VarianceScaling(gain, mode="fan_avg", distribution="uniform")


class SideBySide(keras.initializers.Initializer):
    """Initialises a fused kernel [D, sum(widths)] as separate kernels [D, width] would be.

    Args:
        initializer: initializer of each part.
        widths: columns of each part.
    """

    def __init__(self, initializer: keras.initializers.Initializer, widths: list[int]) -> None:
        self.initializer = initializer
        self.widths = widths

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> keras.KerasTensor:
        """Returns the initial kernel, `shape` [D, sum(widths)]."""
        # An initializer returns the same values on every call, so each part needs its own.
        parts = [self.initializer.clone()((shape[0], width), dtype=dtype) for width in self.widths]
        return keras.ops.concatenate(parts, axis=1)


@keras.saving.register_keras_serializable(package="t2t_lite")
class Projection(Layer):
    """`x W` for one kernel [D, sum(widths)], whose parts are initialised separately.

    Within `narrow_matrices` the kernel is stored transposed: the CPU's products of 16-bit numbers
    take pairs of rows, which then lie side by side.

    Args:
        inputs: D, features of the input.
        widths: features of each part of the output.
        gain: scale of the initial variance.
        use_bias: whether to add a bias, initially 0.
        by_rows: whether products take some rows of the kernel, so that it is never transposed.
        **kwargs: see `Layer`.

    Attributes:
        is_transposed: whether `kernel` is [sum(widths), D].
    """

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int],
        gain: float = 1.0,
        use_bias: bool = False,
        by_rows: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.widths = tuple(widths)
        self.gain = gain
        self.use_bias = use_bias
        self.by_rows = by_rows
        self.is_transposed = is_narrow(self.dtype_policy) and not by_rows
        total = sum(widths)
        self.kernel = self.add_weight(
            shape=(total, inputs) if self.is_transposed else (inputs, total),
            initializer=SideBySide(unit_scaling(gain), list(widths)),
            name="kernel",
        )
        self.bias = (
            self.add_weight(shape=(total,), initializer="zeros", name="bias") if use_bias else None
        )
        self.lora_a: keras.Variable | None = None
        self.lora_b: keras.Variable | None = None

    def enable_lora(self, rank: int) -> None:
        """Freezes the kernel and learns a product A B of this rank beside it (Hu et al. 2021).

        A [D, rank] is random and B [rank, sum(widths)] is 0 at first, so that outputs stay. Files
        have the sum: a layer that is loaded from one has no A and B.

        Args:
            rank: columns of A.

        Raises:
            ValueError: it is enabled already, or the rank is below 1.
        """
        if self.lora_a is not None:
            raise ValueError(f"{self.name}: LoRA is enabled already")
        if rank < 1:
            raise ValueError(f"{self.name}: LoRA of rank {rank}: expected at least 1")
        self.lora_a = self.add_weight(
            shape=(self.inputs, rank), initializer="he_uniform", name="lora_a"
        )
        self.lora_b = self.add_weight(
            shape=(rank, sum(self.widths)), initializer="zeros", name="lora_b"
        )
        self.kernel.trainable = False

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """Maps `x` [..., D] to [..., sum(widths)]."""
        dtype = self.compute_dtype
        y = multiply(ops.cast(x, dtype), ops.cast(self.matrix(), dtype))
        return y if self.bias is None else y + ops.cast(self.bias, dtype)

    def matrix(self) -> keras.KerasTensor:
        """Returns the kernel [D, sum(widths)], however it is stored, with what LoRA adds."""
        kernel = ops.convert_to_tensor(self.kernel)
        if self.is_transposed:
            kernel = ops.transpose(kernel)
        if self.lora_a is None or self.lora_b is None:
            return kernel
        return kernel + ops.cast(ops.matmul(self.lora_a, self.lora_b), kernel.dtype)

    def save_own_variables(self, store: Any) -> None:
        """Writes the kernel, with what LoRA adds, and the bias."""
        if self.lora_a is None:
            super().save_own_variables(store)
            return
        matrix = ops.convert_to_numpy(self.matrix())
        store["0"] = matrix.T if self.is_transposed else matrix
        if self.bias is not None:
            store["1"] = self.bias

    def load_own_variables(self, store: Any) -> None:
        """Reads the kernel and the bias; what LoRA adds begins at 0 again."""
        if self.lora_b is None:
            super().load_own_variables(store)
            return
        self.lora_b.assign(ops.zeros_like(self.lora_b))
        self.kernel.assign(store["0"])
        if self.bias is not None:
            self.bias.assign(store["1"])


@keras.saving.register_keras_serializable(package="t2t_lite")
class FeedForward(Layer):
    """`f(x W₁ + b₁) W₂ + b₂`, with dropout of the hidden features; f is ReLU in equation 2.

    Args:
        channels: D.
        filter_size: hidden features (paper: d_ff).
        dropout_rate: dropout of the hidden features.
        gain: scale of the initial variance.
        seeds: the model's seed generator (default: a new one).
        activation: f: relu, swish, gelu (exact), gelu_tanh or gelu_sigmoid.
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        channels: int,
        filter_size: int,
        dropout_rate: float = 0.0,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        activation: str = "relu",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.filter_size = filter_size
        self.dropout_rate = dropout_rate
        self.gain = gain
        self.activation = activation
        self._activate = _ACTIVATIONS[activation]
        policy = self.dtype_policy
        self.expand = Projection(channels, (filter_size,), gain, use_bias=True, dtype=policy)
        self.contract = Projection(filter_size, (channels,), gain, use_bias=True, dtype=policy)
        self.dropout = Dropout(dropout_rate, seeds_or_new(seeds), dtype=policy)

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Maps `x` [..., D] to [..., D]."""
        return self.contract(self.dropout(self._activate(self.expand(x)), training=training))


@keras.saving.register_keras_serializable(package="t2t_lite")
class Embedding(Layer):
    """A matrix [V, D] whose rows are embeddings (paper, section 3.4) and softmax weights.

    Args:
        vocab_size: V.
        channels: D.
        scaled: whether to multiply embeddings by √D; the softmax is not scaled.
        stddev: standard deviation of the initial values (default: 1/√D).
        **kwargs: see `Layer`.

    Attributes:
        is_narrow: whether the matrix is stored in 16 bits, see `narrow_matrices`.
    """

    def __init__(
        self,
        vocab_size: int,
        channels: int,
        scaled: bool = True,
        stddev: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.channels = channels
        self.scaled = scaled
        self.stddev = channels**-0.5 if stddev is None else stddev
        self.scale = channels**0.5 if scaled else 1.0
        self.is_narrow = is_narrow(self.dtype_policy)
        self.matrix = self.add_weight(
            shape=(vocab_size, channels),
            initializer=keras.initializers.RandomNormal(stddev=self.stddev),
            name="matrix",
            autocast=False,  # rows are cast after the lookup: gradients add up in float32
        )

    def call(self, ids: keras.KerasTensor) -> keras.KerasTensor:
        """Looks up `ids` [B, N]; the result [B, N, D] is zero at padding (0) and at DROPPED_ID."""
        ids = ops.cast(ids, "int32")  # Keras turns ids into floats, in `fit` on several replicas
        rows = ops.take(ops.convert_to_tensor(self.matrix), ids, axis=0)  # [B, N, D]
        rows = ops.cast(rows, self.variable_dtype)  # float32, even if the matrix is narrow
        present = ops.cast(ops.greater(ids, 0), rows.dtype) * self.scale
        return ops.cast(rows * present[..., None], self.compute_dtype)

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, start_id: int = 0
    ) -> keras.KerasTensor:
        """Looks up the inputs of a decoding step, [B, K, D].

        Args:
            ids: [B, K], the previous tokens, ignored at step 0.
            step: a scalar, counted from 0.
            start_id: looked up at step 0 instead; 0: the decoder starts from a zero vector.
        """
        return self(ops.where(ops.equal(step, 0), ops.full_like(ids, start_id), ids))

    def compute_mask(
        self, ids: keras.KerasTensor, previous_mask: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Returns which of `ids` [B, N] are not padding."""
        return ops.not_equal(ids, 0)

    def transposed(self, ids: keras.KerasTensor | None = None) -> keras.KerasTensor:
        """Returns the matrix as softmax weights [D, V], or the rows of some ids [U] as [D, U]."""
        matrix = self.matrix if ids is None else ops.take(self.matrix, ids, axis=0)
        return ops.transpose(ops.cast(matrix, self.compute_dtype))


def drop_symbols(
    ids: keras.KerasTensor, rate: float, seeds: keras.random.SeedGenerator
) -> keras.KerasTensor:
    """Replaces ids [B, N], except padding, by `DROPPED_ID` with probability `rate`.

    This is T2T's `symbol_dropout`, which sets ids to 0. There, as here, the embedding becomes 0. In
    T2T, however, a symbol without embedding is padding: attention does not see a dropped source
    symbol, and recurrent encoders stop that much earlier. Here, positions, lengths and masks remain
    those of the whole sentence.
    """
    ids = ops.cast(ids, "int32")
    dropped = keras.random.uniform(ops.shape(ids), seed=seeds) < rate
    return ops.where(dropped & (ids != 0), DROPPED_ID, ids)


class OutputRows(NamedTuple):
    """The weights of some ids, or of all."""

    ids: keras.KerasTensor | None  # [U], of which the first is padding
    kernel: keras.KerasTensor | tuple[()]  # [D, U], if there is one
    bias: keras.KerasTensor | tuple[()]  # [U], if there is one


@keras.saving.register_keras_serializable(package="t2t_lite")
class OutputProjection(Layer):
    """The product with the softmax matrix: hidden features [..., D] to logits [..., V].

    Each of its weights has a row for each id of the targets.

    Args:
        embedding: its rows are the softmax weights.
        use_bias: whether to add a bias, initially 0.
        has_padding: whether padding (id 0) is an output like others; if not, its logit is
            `EXCLUDED`, and all logits are float32.
        **kwargs: see `Layer`.

    Attributes:
        excludes: whether some logits are `EXCLUDED`; label smoothing then leaves these ids out.
    """

    excludes: ClassVar[bool] = False

    has_padding: bool = True

    def __init__(
        self,
        embedding: Embedding,
        use_bias: bool = False,
        has_padding: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.embedding = embedding
        self.use_bias = use_bias
        self.has_padding = has_padding
        rows = (embedding.vocab_size,)
        self.bias = self.add_weight(rows, "zeros", name="bias") if use_bias else None

    def call(
        self,
        hidden: keras.KerasTensor,
        kernel: keras.KerasTensor | OutputRows | tuple[()] | None = None,
    ) -> keras.KerasTensor:
        """Maps `hidden` [..., D] to logits [..., V].

        Args:
            hidden: the decoder's output.
            kernel: as the method returns it; or what `rows` returns, for the logits of its ids.
        """
        bias = self.bias
        if isinstance(kernel, OutputRows):
            ids, kernel, bias = kernel
        else:
            ids = ops.arange(self.embedding.vocab_size)
        is_given = kernel is not None and not isinstance(kernel, tuple)
        logits = multiply(hidden, kernel if is_given else self._kernel())
        if self.bias is not None:
            logits = logits + ops.cast(bias, logits.dtype)
        if self.has_padding:
            return logits
        is_padding = ops.equal(ids, PAD_ID)
        return ops.where(is_padding, EXCLUDED, ops.cast(logits, "float32"))

    def kernel(self) -> keras.KerasTensor | tuple[()]:
        """Returns the weights [D, V]; an empty tuple if products take them as they are stored.

        A search calls this once, not in every step: the embedding holds the weights transposed, and
        transposing 32,000 rows takes longer than a step's product with them. Products of 16-bit
        numbers are faster with transposed weights (see `Projection`).
        """
        return () if self.embedding.is_narrow else self._kernel()

    def rows(self, ids: keras.KerasTensor | None = None) -> OutputRows:
        """Returns the weights of some ids [U], or of all."""
        bias = () if self.bias is None else self.bias.value
        if ids is None:
            return OutputRows(ops.arange(self.embedding.vocab_size), self._kernel(), bias)
        return OutputRows(ids, self._kernel(ids), () if self.bias is None else ops.take(bias, ids))

    def _kernel(self, ids: keras.KerasTensor | None = None) -> keras.KerasTensor:
        """Returns the weights [D, V], or those of some ids [D, U]."""
        return self.embedding.transposed(ids)


@keras.saving.register_keras_serializable(package="t2t_lite")
class GivenLogits(OutputProjection):
    """For models whose `hidden` are logits [..., V], some of them perhaps `EXCLUDED`."""

    excludes = True

    def __init__(self, **kwargs: Any) -> None:
        Layer.__init__(self, **kwargs)

    @classmethod
    def _argument_names(cls) -> list[str]:
        return []

    def call(
        self,
        hidden: keras.KerasTensor,
        kernel: keras.KerasTensor | OutputRows | tuple[()] | None = None,
    ) -> keras.KerasTensor:
        """Returns `hidden`."""
        return hidden

    def kernel(self) -> tuple[()]:
        """Returns an empty tuple: there are no weights."""
        return ()

    def rows(self, ids: keras.KerasTensor | None = None) -> OutputRows:
        """Returns no weights."""
        return OutputRows(ids, (), ())
