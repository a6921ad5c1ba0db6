"""The training step on an accelerator, with Keras's JAX backend, in bfloat16.

    pip install jax[cuda13]  # or JAX for another accelerator; TensorFlow is not needed
    KERAS_BACKEND=jax python benchmarks/train_throughput_jax.py    # or --only=base, big

The model is ours. Its step is one compiled function: the loss with label smoothing, its gradients
and Keras's Adam. It takes turns with the compiled matrix products of such a step, each into a new
array. The trainer itself runs only on TensorFlow.
"""

import functools
import itertools

import pairing
import report
import training_contenders as contenders

OURS, PRODUCTS = "t2t_lite", "matrix products"


def prepare_ours(shape: contenders.Shape) -> pairing.Step:
    """Our model, trained by a compiled JAX function."""
    import jax
    import jax_training

    from t2t_lite import registry

    hparams = registry.hparams("transformer_base").copy(dtype="bfloat16", **shape.hparams)
    model = registry.model("transformer")(hparams, shape.vocabulary, shape.vocabulary)
    training = jax_training.Training(model)
    state = training.start()
    batches = itertools.cycle([jax.device_put(batch) for batch in shape.batches()])

    def step() -> None:
        nonlocal state
        state, *_ = training.update(state, next(batches))
        jax.block_until_ready(state)

    return step


def prepare_products(shape: contenders.Shape) -> pairing.Step:
    """The matrix products of a step: `training_contenders.prepare_products` by JAX."""
    import jax
    import jax.numpy as jnp

    def three(factors: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        a, b, c = factors
        return a @ b, c @ b.mT, a.mT @ c

    @jax.jit
    def products(groups: list) -> list:
        # One after the other, as in a step, not as one product with another axis.
        return [jax.lax.map(three, group) for group in groups]

    key = jax.random.key(0)
    groups = [
        tuple(jax.random.normal(key, (count, *size), jnp.bfloat16) for size in sizes)
        for count, *sizes in contenders.product_sizes(shape)
    ]

    def step() -> None:
        jax.block_until_ready(products(groups))

    return step


def main() -> None:
    """Prints the comparison of each shape."""
    parser = report.parser(__doc__, rounds=7, seconds=6.0, cases=contenders.SHAPES)
    args = parser.parse_args()
    with report.opened(args) as add_case:
        for name in args.only:
            shape = contenders.SHAPES[name]
            prepare = {
                OURS: functools.partial(prepare_ours, shape),
                PRODUCTS: functools.partial(prepare_products, shape),
            }
            found = pairing.compare(prepare, args.rounds, args.seconds)
            rates = tuple(
                report.Figure(
                    f"products of {one}",
                    contenders.operations(shape) / found.median(one) / 1e9,
                    "GFLOP/s",
                )
                for one in prepare
            )
            bars = (report.Bar(OURS, PRODUCTS, 0.85),)
            add_case(report.Case(name, found, bars, rates, shape.tokens, "target cells"))


if __name__ == "__main__":
    main()
