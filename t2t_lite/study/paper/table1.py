"""Table 1: time and memory of layers, measured against n and d, and sequential operations."""

import dataclasses
import json
import logging
import math
import os
import pathlib
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_lite import files
from t2t_lite.study.paper.published import TABLE_1
from t2t_lite.study.paper.table import Column, Table
from t2t_lite.study.paper.table1_layers import KERNEL, LAYERS, NEIGHBORHOOD, LayerFunction
from t2t_lite.study.reports.line_plot import Curve, line_plot

log = logging.getLogger(__name__)

# How often, and for how many seconds, a measurement is repeated. The shortest time counts, because
# other load on the machine only adds to it.
_TURNS = 5
_SECONDS = {"full": 1.5, "tiny": 0.0}
_COUNTED_LENGTHS = (8, 16)  # n at which sequential operations are counted
_COMMAND = "t2t-paper --table=1"

# Operations that only hold, name or slice a value; they compute nothing.
_NO_WORK = {
    "Const", "Placeholder", "Identity", "ReadVariableOp", "Unpack", "Pack", "Reshape",
    "StridedSlice", "ExpandDims", "Squeeze", "Shape", "ConcatV2", "Pad", "Range",
}  # fmt: skip


_NO_COPY = {"Const", "Placeholder", "Identity", "Reshape", "ExpandDims", "Squeeze"}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes at which a layer is measured, chosen so that the dominating term dominates.

    Args:
        lengths: increasing values of n, measured at d = `width`.
        width: d for `lengths`.
        widths: increasing values of d, measured at n = `length`.
        length: n for `widths`.
        batch: sequences. A recurrent step multiplies one row of each; with few rows, memory takes
            longer than the d² multiplications.
    """

    lengths: tuple[int, ...]
    width: int
    widths: tuple[int, ...]
    length: int
    batch: int = 8


SCALES: dict[str, dict[str, Sizes]] = {
    "full": {
        "self_attention": Sizes((1024, 1536, 2048, 3072, 4096), 512, (512, 1024, 2048, 4096), 1024),
        "recurrent": Sizes((32, 64, 128, 256), 512, (1024, 1536, 2048, 3072), 32, batch=64),
        "convolutional": Sizes((1024, 2048, 4096, 8192), 512, (512, 768, 1024, 1536, 2048), 512),
        # d must be far above k, because elementwise products are slower than matrix products.
        "separable": Sizes((1024, 2048, 4096, 8192), 512, (1536, 2048, 3072, 4096), 512),
        "restricted": Sizes((1024, 2048, 4096, 8192), 512, (512, 1024, 2048, 4096), 1024),
    },
    "tiny": dict.fromkeys(LAYERS, Sizes((32, 64), 16, (16, 32), 32)),
}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One layer at one size."""

    layer: str
    axis: str  # "n" or "d": the varied size
    length: int
    width: int
    seconds: float  # shortest of several forward passes
    megabytes: float  # all computed tensors, which training keeps for the backward pass

    @property
    def size(self) -> int:
        """The value of the varied size."""
        return self.length if self.axis == "n" else self.width


def sequential_operations(layer: LayerFunction, length: int, width: int) -> int:
    """Counts the operations on the longest path through a layer's graph.

    Args:
        layer: a function of [1, n, d].
        length: n.
        width: d.
    """
    graph = _traced(layer, (1, length, width)).graph
    depth: dict[str, int] = {}
    for operation in graph.get_operations():  # in topological order
        before = max((depth[tensor.op.name] for tensor in operation.inputs), default=0)
        depth[operation.name] = before + (operation.type not in _NO_WORK)
    return max(depth.values())


def measure(
    name: str, axis: str, length: int, width: int, batch: int = 8, at_least: float = 0.0
) -> Measurement:
    """Measures a layer of Table 1 at one size.

    Args:
        name: a key of `LAYERS`.
        axis: the varied size, for the record.
        length: n.
        width: d.
        batch: sequences.
        at_least: minimum measuring time in seconds.
    """
    x = tf.random.stateless_normal((batch, length, width), (0, 0))
    run = _traced(LAYERS[name](width), x.shape)
    run(x)[0, 0, 0].numpy()  # warms up
    seconds: list[float] = []
    begin = time.perf_counter()
    while len(seconds) < _TURNS or time.perf_counter() - begin < at_least:
        start = time.perf_counter()
        run(x)[0, 0, 0].numpy()  # waits for the device
        seconds.append(time.perf_counter() - start)
    held = _bytes(run.graph)
    return Measurement(name, axis, length, width, min(seconds), held / 2**20)


def measure_all(scale: str) -> list[Measurement]:
    """Measures all layers at the sizes of a scale, one of `SCALES`; logs each result."""
    found = []
    for name, sizes in SCALES[scale].items():
        points = [("n", length, sizes.width) for length in sizes.lengths]
        points += [("d", sizes.length, width) for width in sizes.widths]
        for point in points:
            found.append(measure(name, *point, sizes.batch, _SECONDS[scale]))
            one = found[-1]
            log.info(
                "%s n=%d d=%d: %.3f ms, %.2f MiB",
                *(name, one.length, one.width, 1e3 * one.seconds, one.megabytes),
            )
    return found


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Returns the slope of log(value) over log(size), by least squares."""
    slope, _ = np.polyfit(np.log(sizes), np.log(values), 1)
    return float(slope)


def table(measured: Sequence[Measurement] = (), scale: str = "full") -> Table:
    """Returns Table 1 with counted sequential operations and fitted exponents.

    Args:
        measured: from `measure_all`; without it, the table has no exponents.
        scale: what was measured, one of `SCALES`.
    """
    columns = [
        Column("layer"),
        Column("complexity", "published"),
        Column("sequential", "published"),
        Column("longest path", "published"),
        Column("sequential operations", "computed", "", _COMMAND),
    ]
    fits = [(axis, what) for what in ("seconds", "megabytes") for axis in "nd"] if measured else []
    command = f"{_COMMAND} --scale={scale} --output_dir=OUTPUT_DIR"
    for axis, what in fits:
        if what == "seconds":
            columns.append(Column(f"order in {axis}", "published", "g"))
        label, origin = {"seconds": ("time", "measured"), "megabytes": ("memory", "computed")}[what]
        columns.append(Column(f"{label} ∝ {axis}^", origin, ".2f", command))
    rows = []
    for name, layer_type in TABLE_1.items():
        row: list[str | float | None] = [
            layer_type.name,
            f"O({layer_type.complexity})",
            f"O({layer_type.sequential})",
            f"O({layer_type.path})",
            _linear(name),
        ]
        orders = {"n": layer_type.order_in_n, "d": layer_type.order_in_d}
        for axis, what in fits:
            points = [one for one in measured if one.layer == name and one.axis == axis]
            if what == "seconds":
                row.append(orders[axis])
            row.append(exponent([p.size for p in points], [getattr(p, what) for p in points]))
        rows.append(row)
    notes = [
        f"Here k = {KERNEL}, r = {NEIGHBORHOOD}; batches of {Sizes.batch} sequences, "
        f"{SCALES[scale]['recurrent'].batch} for the recurrent layer.",
        "Sequential operations: the longest path of computing operations in the layer's graph.",
        "Memory: the bytes of all tensors in the graph, which training would keep.",
        "The paper has no row for separable convolutions; section 4 gives their complexity.",
    ]
    return Table("Table 1: layer types", columns, rows, notes)


def plots(measured: Sequence[Measurement]) -> dict[str, str]:
    """Plots time and memory against n and d; returns SVG texts by file name."""
    drawn = {}
    for axis in "nd":
        for what, unit in (("seconds", "s"), ("megabytes", "MiB")):
            curves = [
                Curve(
                    TABLE_1[name].name,
                    [
                        (math.log2(one.size), math.log10(getattr(one, what)))
                        for one in measured
                        if (one.layer, one.axis) == (name, axis)
                    ],
                    style,
                )
                for style, name in enumerate(LAYERS)
            ]
            title = f"log₁₀ {unit} of a layer's forward pass"
            drawn[f"table1_{what}_{axis}.svg"] = line_plot(
                title, f"log₂ {axis}", curves, standalone=True
            )
    return drawn


def write(measured: Sequence[Measurement], output_dir: str | os.PathLike[str]) -> None:
    """Writes table1.json with all measurements, and the plots, into a folder."""
    folder = pathlib.Path(output_dir)
    records = [dataclasses.asdict(one) for one in measured]
    files.write_text(folder / "table1.json", json.dumps(records, indent=1) + "\n")
    for name, drawing in plots(measured).items():
        files.write_text(folder / name, drawing + "\n")


def _linear(name: str) -> str:
    """Returns the count of sequential operations as a function of n: "4" or "2n + 1"."""
    small, large = _COUNTED_LENGTHS
    fewer, more = (sequential_operations(LAYERS[name](4), n, 4) for n in (small, large))
    slope, rest = divmod(more - fewer, large - small)
    assert rest == 0, "linear in n"
    constant = fewer - slope * small
    return f"{slope}n {'+-'[constant < 0]} {abs(constant)}" if slope else str(constant)


def _bytes(graph: tf.Graph) -> int:
    """Returns the bytes of all tensors that a graph computes."""
    return sum(
        tensor.dtype.size * tensor.shape.num_elements()
        for operation in graph.get_operations()
        if operation.type not in _NO_COPY
        for tensor in operation.outputs
    )


def _traced(layer: LayerFunction, shape: Sequence[int]) -> tf.types.experimental.ConcreteFunction:
    return tf.function(layer).get_concrete_function(tf.TensorSpec(shape, tf.float32))
