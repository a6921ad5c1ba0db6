"""Time spent in each type of operation in a training step, from TensorFlow's profiler.

    python benchmarks/training_profile.py tiny
    python benchmarks/training_profile.py base

The shapes are those of `training_contenders.py`. Time is summed over threads, so
operations that run in parallel each count in full.
"""

import argparse
import collections
import pathlib
import re
import tempfile

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


def main() -> None:
    """Prints the operations that take longest."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("shape", choices=training_contenders.SHAPES)
    shape = training_contenders.SHAPES[parser.parse_args().shape]
    step = training_contenders.prepare_ours(shape)
    for _ in range(3):
        step()

    import tensorflow as tf

    with tempfile.TemporaryDirectory() as name:
        with tf.profiler.experimental.Profile(name):
            for _ in range(STEPS):
                step()
        seconds = operation_seconds(pathlib.Path(name))
    total = seconds.total()
    print(f"{total / STEPS:.3f} s of operations a step")
    for operation, taken in seconds.most_common(SHOWN):
        print(f"{taken / total:6.1%}  {operation}")


if __name__ == "__main__":
    main()
