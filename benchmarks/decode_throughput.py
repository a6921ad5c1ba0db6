"""Decoding speed compared with CTranslate2 on the same weights, and with bare matrix products.

    pip install -e '.[bench]'
    python benchmarks/decode_throughput.py --text=newstest2013.en --vocab_text=newstest2012.en,...

prints a table for each case. A model with random weights, built so that every output is as long as
its source (see `decoding_work.py`), is written as a run folder and exported for CTranslate2 in
float32 and int8. t2t-decoder's decoder and CTranslate2 translate a sample of the lines of `--text`,
text to text; the bare matrix products of our decoding run beside them. In each case all take turns
in one run:

- `beam`: beam 4, alpha 0.6; CTranslate2's penalty differs, which does not matter here.
- `greedy`: beam 1.
- `one`: beam 4, one line of median length at a time.
- `first_output`: the command `t2t-decoder` for one line, with each engine, and the import of
  TensorFlow alone. CTranslate2's export is made before.

"engine float32" and "engine int8" are t2t-decoder's decoder with `--engine=ctranslate2`. Rates are
target tokens per second, including EOS. Ratios compare speeds: the median of the rounds
and their range. The better of our contenders has to meet the bar. Peak memory is that of the whole
process, including about 400 MiB of TensorFlow itself.
"""

import functools
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import decoding_contenders as contenders
import decoding_work
import machine
import pairing
import report
from decoding_work import Work

OURS, FLOAT32 = "t2t_lite", "CTranslate2 float32"
ENGINE = f"{OURS}, engine "  # and a type: t2t_lite's decoder around CTranslate2
TO_ITSELF = 0.95  # required speed of the engine over CTranslate2's own Python API
# The required speed of the better of ours over CTranslate2's in float32, with AMX and without.
TO_FLOAT32 = {
    True: {"beam": 1.3, "greedy": 1.3, "one": 0.9},
    False: {"beam": 1.1, "greedy": 1.1, "one": 0.8},
}
FLOAT32_BEAM = 1.0  # the same of ours in float32, with AMX
FIRST_OUTPUTS = 6.0, 1.5  # seconds, by TensorFlow and by CTranslate2


def cases(work: Work) -> dict[str, Work]:
    """The three kinds of work."""
    one = sorted(work.lines, key=len)[len(work.lines) // 2]
    return {
        "beam": work,
        "greedy": work._replace(beam_size=1),
        "one": work._replace(lines=[one]),
    }


def bars(name: str, found: pairing.Comparison, has_amx: bool) -> tuple[report.Bar, ...]:
    """Returns the ratios of ours to each other contender, and their bars."""
    engines = [contender for contender in found.seconds if contender.startswith(ENGINE)]
    around = tuple(
        report.Bar(engine, f"CTranslate2 {engine.removeprefix(ENGINE)}", TO_ITSELF)
        for engine in engines
    )
    ours = [
        contender
        for contender in found.seconds
        if contender.startswith(OURS) and contender not in engines
    ]
    best = min(ours, key=found.median)
    least = {(best, FLOAT32): TO_FLOAT32[has_amx][name]}
    if has_amx and name == "beam":
        least.setdefault((OURS, FLOAT32), FLOAT32_BEAM)
    others = [contender for contender in found.seconds if contender not in (*ours, *engines)]
    pairs = [(mine, other) for mine in ours for other in others]
    return around + tuple(report.Bar(*pair, least.get(pair)) for pair in pairs)


def first_output(work: Work, rounds: int) -> report.Case:
    """Measures the command for one line, and the import of TensorFlow, in turns."""
    source, target = work.run_dir.parent / "one.txt", work.run_dir.parent / "one.out"
    source.write_text("One line.\n", encoding="utf-8")
    command = ["-m", "t2t_lite.bin.t2t_decoder", f"--output_dir={work.run_dir}"]
    command += [f"--decode_from_file={source}", f"--decode_to_file={target}"]
    engine = [*command, "--engine=ctranslate2"]
    subprocess.run([sys.executable, *engine], check=True, capture_output=True)  # makes the export
    commands = {
        "t2t-decoder": command,
        "t2t-decoder, ctranslate2": engine,
        "import of TensorFlow": ["-c", "import tensorflow"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, words in commands.items():
            target.unlink(missing_ok=True)
            start = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - start)
    figures = tuple(
        report.Figure(f"first output of {name}", statistics.median(seconds[name]), "s", most)
        for name, most in zip(commands, FIRST_OUTPUTS, strict=False)
    )
    return report.Case("first_output", pairing.Comparison(seconds, {}), (), figures)


def main() -> None:
    """Prints the tables."""
    names = [*TO_FLOAT32[False], "first_output"]
    parser = report.parser(__doc__, rounds=5, seconds=3.0, cases=names)
    parser.add_argument("--hparams_set", default="transformer_base", help="(transformer_base)")
    decoding_work.add_flags(parser, sentences=128)
    args = parser.parse_args()
    with report.opened(args) as add_case, tempfile.TemporaryDirectory() as folder:
        work = decoding_work.prepare(pathlib.Path(folder), args.hparams_set, args)
        for name, case in cases(work).items():
            if name in args.only:
                prepare = {
                    contender: functools.partial(prepare, case)
                    for contender, prepare in contenders.PREPARE.items()
                }
                found = pairing.compare(prepare, args.rounds, args.seconds)
                tokens = sum(decoding_work.target_tokens(case))
                chosen = bars(name, found, machine.this_machine().has_amx)
                add_case(report.Case(name, found, chosen, (), tokens, "target tokens"))
        if "first_output" in args.only:
            add_case(first_output(work, 3))


if __name__ == "__main__":
    main()
