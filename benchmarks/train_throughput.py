"""Training speed compared with PyTorch, bare matrix products, one device and the input pipeline.

    pip install -e '.[bench,demo]'
    python benchmarks/train_throughput.py

prints one table for each case, whose programs take turns in the same run:

- `tiny`, `base`, `big`: our step; PyTorch's `nn.Transformer`, eager and compiled; the bare matrix
  products of our step, forward and backward; the input pipeline alone, which must be faster than
  the step that it feeds. With `_bfloat16`: the same in bfloat16, PyTorch's by autocast.
  `big` runs only if named.
- `devices`: the base step on all GPUs, or on 8 parts of the CPU, and on one device, with the same
  number of tokens in total.

Our step shall be so many times as fast as PyTorch's or come so near to its products; one is enough.
Ratios are the first speed over the second: the median of the rounds and their range. Peak memory is
that of the whole process. `training_contenders.py` describes each contender.
"""

import argparse
import dataclasses
import functools
import pathlib
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import machine
import pairing
import peers
import report
import training_contenders as contenders
from peers import COMPILED, OURS, PYTORCH
from report import Bar

PRODUCTS, PIPELINE, ONE = "matrix products", "input pipeline", "1 device"
# The least ratio to PyTorch's speed, eager or compiled; None: not set.
TO_PYTORCH = {
    ("tiny", "float32"): 1.6,
    ("tiny", "bfloat16"): 1.6,
    ("base", "float32"): 1.25,
    ("base", "bfloat16"): 1.5,
}
TO_PRODUCTS = {"float32": 0.85, "bfloat16": 0.65}
LOGICAL_DEVICES = 8


class Case(NamedTuple):
    """The contenders of one run and their bars."""

    shape: contenders.Shape
    contenders: dict[str, Callable[[], pairing.Step]]
    bars: tuple[Bar, ...]
    dtype: str = "float32"


def prepare_pytorch(
    shape: contenders.Shape, dtype: str = "float32", is_compiled: bool = False
) -> pairing.Step:
    """PyTorch's `nn.Transformer` with embeddings and softmax for translation."""
    from pytorch_transformer import Transformer

    peers.start_torch()
    model = Transformer(shape)
    return peers.torch_step(model, model.softmax, shape, 0, dtype=dtype, is_compiled=is_compiled)


def step_case(name: str, dtype: str, args: argparse.Namespace, data_dir: pathlib.Path) -> Case:
    """Our step, its peers, and the pipeline that feeds it."""
    shape = dataclasses.replace(contenders.SHAPES[name], sentences=args.sentences)
    prepare = {
        OURS: functools.partial(contenders.prepare_ours, shape, dtype, args.xla),
        PYTORCH: functools.partial(prepare_pytorch, shape, dtype),
        COMPILED: functools.partial(prepare_pytorch, shape, dtype, True),
        PRODUCTS: functools.partial(contenders.prepare_products, shape, dtype),
        PIPELINE: functools.partial(contenders.prepare_pipeline, shape, data_dir),
    }
    least = TO_PYTORCH.get((name, dtype))
    bars = (
        Bar(OURS, PYTORCH, least),
        Bar(OURS, COMPILED, least),
        Bar(OURS, PRODUCTS, TO_PRODUCTS[dtype]),
        Bar(PIPELINE, OURS, 20.0),
    )
    return Case(shape, prepare, bars, dtype)


def devices_case(args: argparse.Namespace) -> Case:
    """The same step on many devices and on one."""
    gpus = len(machine.gpus())
    shape = dataclasses.replace(contenders.SHAPES["base"], sentences=args.sentences)
    count = gpus or LOGICAL_DEVICES
    many = f"{count} {'GPUs' if gpus else 'logical devices'}"
    prepare = {
        many: functools.partial(contenders.prepare_ours, shape, devices=count),
        ONE: functools.partial(contenders.prepare_ours, shape),
    }
    return Case(shape, prepare, (Bar(many, ONE, None if gpus else 1 / 1.15),))


CASES: dict[str, Callable[[argparse.Namespace, pathlib.Path], Case]] = {
    **{
        name if dtype == "float32" else f"{name}_{dtype}": functools.partial(step_case, name, dtype)
        for name in ("tiny", "base", "big")
        for dtype in TO_PRODUCTS
    },
    "devices": lambda args, data_dir: devices_case(args),
}


def result(name: str, case: Case, found: pairing.Comparison) -> report.Case:
    """Returns what to report of one run."""
    figures = ()
    if PRODUCTS in found.seconds:
        rate = contenders.operations(case.shape) / found.median(PRODUCTS) / 1e9
        figures = (report.Figure(f"{PRODUCTS} in {case.dtype}", rate, "GFLOP/s"),)
    return report.Case(name, found, case.bars, figures, case.shape.tokens, "target cells")


def generate_data(folder: pathlib.Path) -> None:
    """Does what `t2t-datagen --problem=translate_ende_locale` does."""
    from t2t_lite import registry
    from t2t_lite.data.generation import generator

    problem = registry.problem("translate_ende_locale")
    generator.generate_data(problem, str(folder), str(folder))


def main() -> None:
    """Prints the tables."""
    parser = report.parser(__doc__, rounds=7, seconds=6.0, cases=CASES)
    parser.set_defaults(only=[name for name in CASES if not name.startswith("big")])
    add = parser.add_argument
    add("--sentences", type=int, default=128, help="of up to 32 subwords, in a batch (128)")
    add("--xla", action="store_true", help="XLA compiles our step (not that of `devices`)")
    args = parser.parse_args()
    with report.opened(args) as add_case, tempfile.TemporaryDirectory() as folder:
        data_dir = pathlib.Path(folder)
        if args.only != ["devices"]:
            generate_data(data_dir)
        for name in args.only:
            case = CASES[name](args, data_dir)
            found = pairing.compare(case.contenders, args.rounds, args.seconds)
            add_case(result(name, case, found))


if __name__ == "__main__":
    main()
