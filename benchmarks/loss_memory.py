"""Peak memory and time of the loss over a large vocabulary: all logits at once, and in chunks.

    python benchmarks/loss_memory.py

Computes one training loss with its gradients, each way in a separate process. The peak is the
growth of the process's resident memory, not counting inputs and weights; by default, the logits
alone take 4,096 × 32,000 × 4 bytes = 524 MB.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROUNDS = 5


def measure(tokens: int, vocabulary: int, channels: int, chunk: int) -> tuple[float, float]:
    """Returns the extra peak memory in MB and the seconds of one loss with its gradients.

    Args:
        tokens: N, targets of the batch.
        vocabulary: V.
        channels: D.
        chunk: tokens in a chunk; 0: all logits at once.
    """
    import keras
    import tensorflow as tf

    from t2t_lite.layers.embedding import Embedding
    from t2t_lite.models.output_projection import OutputProjection
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
    for _ in range(ROUNDS):
        start = time.perf_counter()
        float(gradients(hidden, targets)[0])
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # KiB on Linux
    return peak * 1024 / 1e6, statistics.median(seconds)


def in_a_process(args: argparse.Namespace, chunk: int) -> tuple[float, float]:
    """Measures in a new process, because a peak never falls."""
    sizes = (args.tokens, args.vocabulary, args.channels, chunk)
    command = [sys.executable, __file__, "--measure", *map(str, sizes)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    megabytes, seconds = map(float, output.split())
    return megabytes, seconds


def main() -> None:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--channels", type=int, default=512)
    parser.add_argument("--chunks", type=int, nargs="*", default=[256, 512, 1024], metavar="N")
    parser.add_argument("--measure", type=int, nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(*measure(*args.measure))
        return
    whole, whole_seconds = in_a_process(args, 0)
    print(f"all logits at once   {whole:7,.0f} MB extra peak   {whole_seconds:6.2f} s")
    for chunk in args.chunks:
        megabytes, seconds = in_a_process(args, chunk)
        print(
            f"{chunk:5} tokens a chunk {megabytes:7,.0f} MB extra peak   {seconds:6.2f} s   "
            f"memory {megabytes / whole:.1%}, time {seconds / whole_seconds:.2f} of the whole"
        )


if __name__ == "__main__":
    main()
