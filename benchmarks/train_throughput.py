"""Training speed compared with PyTorch, bare matrix products, one device and the input pipeline.

    pip install -e '.[bench,demo]'
    python benchmarks/train_throughput.py

prints one table. Every row compares two programs that take turns in the same run:

- `tiny`, `base`: our step and PyTorch's `nn.Transformer`; our step and its bare matrix products,
  forward and backward; the input pipeline alone and the step that it feeds.
- `devices`: the base step on 8 logical devices and on one, with the same 4,096 tokens in total.

Ratios are the first speed over the second: the median of the rounds and their range. Peak memory is
that of the whole process. `training_contenders.py` describes each contender.
"""

import argparse
import functools
import pathlib
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import pairing
import training_contenders as contenders

DEVICES = 8
OURS, PYTORCH, PRODUCTS, PIPELINE = "t2t_lite", "PyTorch", "matrix products", "input pipeline"
MANY, ONE = f"{DEVICES} logical devices", "1 device"

Contenders = dict[str, Callable[[], pairing.Step]]


class Bar(NamedTuple):
    """The required minimum of a ratio."""

    name: str
    other: str
    least: float  # speed of `name` over that of `other`


class Case(NamedTuple):
    """The contenders of one run and their bars."""

    shape: contenders.Shape
    contenders: Contenders
    bars: tuple[Bar, ...]


def step_case(name: str, bars: tuple[Bar, ...], data_dir: pathlib.Path) -> Case:
    """Our step, its peers, and the pipeline that feeds it."""
    shape = contenders.SHAPES[name]
    prepare: Contenders = {
        OURS: functools.partial(contenders.prepare_ours, shape),
        PYTORCH: functools.partial(contenders.prepare_pytorch, shape),
        PRODUCTS: functools.partial(contenders.prepare_products, shape),
        PIPELINE: functools.partial(contenders.prepare_pipeline, shape, data_dir),
    }
    return Case(shape, prepare, (*bars, Bar(PIPELINE, OURS, 20.0)))


def devices_case() -> Case:
    """The same step on many devices and on one."""
    shape = contenders.SHAPES["base"]
    prepare: Contenders = {
        MANY: functools.partial(contenders.prepare_ours, shape, DEVICES),
        ONE: functools.partial(contenders.prepare_ours, shape),
    }
    return Case(shape, prepare, (Bar(MANY, ONE, 1 / 1.15),))


CASES: dict[str, Callable[[pathlib.Path], Case]] = {
    "tiny": lambda data_dir: step_case("tiny", (Bar(OURS, PYTORCH, 1.35),), data_dir),
    "base": lambda data_dir: step_case(
        "base",
        (Bar(OURS, PYTORCH, 1.2), Bar(OURS, PRODUCTS, 0.85)),  # reaching one is enough
        data_dir,
    ),
    "devices": lambda data_dir: devices_case(),
}


def rows(name: str, case: Case, found: pairing.Comparison) -> list[str]:
    """Returns the lines of the table of one run."""
    lines = []
    for bar in case.bars:
        times = "".join(f"{found.median(side):9.3f} s" for side in (bar.name, bar.other))
        peaks = " and ".join(f"{found.peak[side]:,.0f}" for side in (bar.name, bar.other))
        lines.append(
            f"{name:8} {bar.name:>17} : {bar.other:15} {times}  "
            f"{found.ratio(bar.name, bar.other)!s:22} >= {bar.least:5.2f}  {peaks} MiB"
        )
    if PRODUCTS in found.seconds:
        rate = contenders.operations(case.shape) / found.median(PRODUCTS) / 1e9
        lines.append(f"{name:8} {PRODUCTS:>17}: {rate:.1f} GFLOP/s")
    return lines


def generate_data(folder: pathlib.Path) -> None:
    """Does what `t2t-datagen --problem=translate_ende_locale` does."""
    from t2t_lite import registry
    from t2t_lite.generation import generator

    problem = registry.problem("translate_ende_locale")
    generator.generate_data(problem, str(folder), str(folder))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=CASES, help="one run of the three")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender (7)")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of a turn (6)")
    args = parser.parse_args()
    print(f"{contenders.THREADS} threads, {args.rounds} rounds")
    print("run: first : second, seconds a step of each, ratio of speeds, bar, peak memory of each")
    with tempfile.TemporaryDirectory() as folder:
        data_dir = pathlib.Path(folder)
        if args.only != "devices":
            generate_data(data_dir)
        for name in [args.only] if args.only else CASES:
            case = CASES[name](data_dir)
            found = pairing.compare(case.contenders, args.rounds, args.seconds)
            print("\n".join(rows(name, case, found)), flush=True)


if __name__ == "__main__":
    main()
