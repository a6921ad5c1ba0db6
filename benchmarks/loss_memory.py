"""Peak memory and time of the loss over a large vocabulary: all logits at once, and in chunks.

    python benchmarks/loss_memory.py

Computes one training loss with its gradients, each way in a separate process. The peak is the
growth of the process's resident memory, not counting inputs and weights; by default, the logits
alone take 4,096 × 32,000 × 4 bytes = 500 MiB. The ways do not take turns.
"""

import argparse
import os
import resource
import subprocess
import sys
import time

import pairing
import report

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
WHOLE = "all logits at once"


def measure(
    rounds: int, tokens: int, vocabulary: int, channels: int, chunk: int
) -> tuple[float, list[float]]:
    """Returns the extra peak memory in MiB and the seconds of each loss with its gradients.

    Args:
        rounds: how many losses.
        tokens: N, targets of the batch.
        vocabulary: V.
        channels: D.
        chunk: tokens in a chunk; 0: all logits at once.
    """
    import keras
    import tensorflow as tf

    from t2t_lite.layers.dense import Embedding, OutputProjection
    from t2t_lite.training.losses import summed_cross_entropy

    embedding = Embedding(vocabulary, channels)
    projection = OutputProjection(embedding)
    hidden = keras.random.normal((tokens, channels), seed=1)
    targets = keras.random.randint((tokens,), 1, vocabulary, seed=2)

    @tf.function
    def gradients(hidden: tf.Tensor, targets: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            loss = summed_cross_entropy(projection, hidden, targets, 0.1, chunk)
        return [loss, *tape.gradient(loss, [hidden, embedding.matrix.value])]

    few = min(tokens, 64)  # compiles and starts the threads
    for _ in range(2):
        gradients(hidden[:few], targets[:few])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        float(gradients(hidden, targets)[0])
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # KiB on Linux
    return peak / 1024, seconds


def in_a_process(args: argparse.Namespace, chunk: int) -> tuple[float, list[float]]:
    """Measures in a new process, because a peak never falls."""
    sizes = (args.rounds, args.tokens, args.vocabulary, args.channels, chunk)
    command = [sys.executable, __file__, "--measure", *map(str, sizes)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    peak, *seconds = map(float, output.split())
    return peak, seconds


def main() -> None:
    """Prints the comparison."""
    parser = report.parser(__doc__, rounds=5)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--channels", type=int, default=512)
    parser.add_argument("--chunks", type=int, nargs="*", default=[256, 512, 1024], metavar="N")
    parser.add_argument("--measure", type=int, nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        peak, seconds = measure(*args.measure)
        print(peak, *seconds)
        return
    with report.opened(args) as add_case:
        names = {f"{chunk} tokens a chunk": chunk for chunk in args.chunks}
        measured = {name: in_a_process(args, chunk) for name, chunk in ({WHOLE: 0} | names).items()}
        found = pairing.Comparison(
            {name: seconds for name, (_, seconds) in measured.items()},
            {name: peak for name, (peak, _) in measured.items()},
        )
        bars = tuple(report.Bar(name, WHOLE) for name in names)
        shares = tuple(
            report.Figure(
                f"extra peak of {name}",
                100 * found.peak[name] / found.peak[WHOLE],
                "% of the whole",
            )
            for name in names
        )
        title = f"{args.tokens} tokens, vocabulary of {args.vocabulary}"
        add_case(report.Case(title, found, bars, shares))


if __name__ == "__main__":
    main()
