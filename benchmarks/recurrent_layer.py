"""Training speed of one LSTM layer, beside Keras's own and beside its matrix products alone.

    python benchmarks/recurrent_layer.py
    python benchmarks/recurrent_layer.py --channels=1024 --sentences=32 --length=25

A step is a forward and a backward pass. `automatic` is the same layer, differentiated by TensorFlow
instead of by `t2t_lite/layers/lstm_scan.py`. `products` multiplies all positions at once, which no
recurrence can: what it lacks to the layer's time is the cost of the loop.
"""

import functools
import os
from typing import Any

import pairing
import report

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def training_step(name: str, channels: int, sentences: int, length: int) -> pairing.Step:
    """Returns a training step of the contender of that name."""
    import keras
    import numpy as np
    import tensorflow as tf

    from t2t_lite.layers.recurrent import Cell, LSTMCell, run_cell

    x = tf.random.normal([sentences, length, channels], seed=1)
    shortest = int(length * 0.86)
    lengths = np.random.default_rng(0).integers(shortest, length + 1, (sentences, 1))
    mask = tf.constant(np.arange(length) < lengths)
    if name == "keras":
        layer = keras.layers.LSTM(channels, return_sequences=True)
        layer.build((None, None, channels))

        def output(x: Any, mask: Any) -> Any:
            return layer(x, mask=mask)

    elif name == "products":
        layer = keras.layers.Dense(4 * channels, use_bias=False)
        layer.build((None, None, 2 * channels))

        def output(x: Any, mask: Any) -> Any:
            return layer(tf.concat([x, x], axis=-1))

    else:
        layer = LSTMCell(channels, channels)
        if name == "automatic":
            layer.scan = functools.partial(Cell.scan, layer)

        def output(x: Any, mask: Any) -> Any:
            return run_cell(layer, x, mask)[0]

    weights = [weight.value for weight in layer.trainable_weights]

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, channels]),
            tf.TensorSpec([None, None], tf.bool),
        ]
    )
    def step(x: Any, mask: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(output(x, mask) ** 2)
        return [tf.reduce_sum(part) for part in tape.gradient(loss, [x, *weights])]

    return lambda: [part.numpy() for part in step(x, mask)] and None


def main() -> None:
    """Prints each contender's time and its ratio to ours."""
    parser = report.parser(__doc__, rounds=8, seconds=1.0)
    parser.add_argument("--channels", type=int, default=256)
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--length", type=int, default=25)
    args = parser.parse_args()
    sizes = (args.channels, args.sentences, args.length)
    ours, *others = names = ("ours", "automatic", "keras", "products")
    contenders = {name: functools.partial(training_step, name, *sizes) for name in names}
    with report.opened(args) as add_case:
        found = pairing.compare(contenders, args.rounds, args.seconds)
        bars = tuple(report.Bar(ours, other) for other in others)
        add_case(report.Case(f"{args.channels} channels", found, bars))


if __name__ == "__main__":
    main()
