"""Time spent in each type of operation in a training step, from TensorFlow's profiler.

    python benchmarks/training_profile.py tiny
    python benchmarks/training_profile.py base --dtype=bfloat16

The shapes are those of `training_contenders.py`. Time is summed over threads, so
operations that run in parallel each count in full.
"""

import collections
import pathlib
import re
import tempfile

import pairing
import report
import training_contenders

STEPS = 8
SHOWN = 12
# The profiler's name of an operation, with its type last, as in `model/dense/MatMul:MatMul`.
_OPERATION = re.compile(r"[\w/.-]+:(\w+)")
# Functions and loops, whose operations have their own events.
_CONTAINERS = {"StatefulPartitionedCall", "PartitionedCall", "While", "If"}


def operation_seconds(log_dir: pathlib.Path) -> collections.Counter[str]:
    """Adds up the time of each type of operation in a profile."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    seconds: collections.Counter[str] = collections.Counter()
    for path in log_dir.rglob("*.xplane.pb"):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        for plane in space.planes:
            for line in plane.lines:
                for event in line.events:
                    match = _OPERATION.fullmatch(plane.event_metadata[event.metadata_id].name)
                    if match and match[1] not in _CONTAINERS:
                        seconds[match[1]] += event.duration_ps / 1e12
    return seconds


def profile(step: pairing.Step) -> collections.Counter[str]:
    """Adds up the time of each type of operation in some steps."""
    import tensorflow as tf

    for _ in range(3):
        step()
    with tempfile.TemporaryDirectory() as name:
        with tf.profiler.experimental.Profile(name):
            for _ in range(STEPS):
                step()
        return operation_seconds(pathlib.Path(name))


def main() -> None:
    """Prints the operations that take longest."""
    parser = report.parser(__doc__)
    parser.add_argument("shape", choices=training_contenders.SHAPES)
    parser.add_argument("--dtype", default="float32", help="of activations (float32)")
    args = parser.parse_args()
    with report.opened(args) as add_case:
        shape = training_contenders.SHAPES[args.shape]
        seconds = profile(training_contenders.prepare_ours(shape, args.dtype))
        total = seconds.total()
        figures = [report.Figure("operations of a step", total / STEPS, "s")]
        figures += [
            report.Figure(operation, 100 * taken / total, "%")
            for operation, taken in seconds.most_common(SHOWN)
        ]
        add_case(report.Case(f"{args.shape} in {args.dtype}", figures=tuple(figures)))


if __name__ == "__main__":
    main()
