"""What the benchmarks share: the description of the machine, reports, tables, bars."""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

from support.rounding import relative_bound
from support.scripts import BENCHMARKS, import_script


def but_for_rounding(value: float):
    """What equals a figure that a few operations in float64 have made."""
    return pytest.approx(value, rel=relative_bound(8, "float64"))


machine = import_script("machine")
pairing = import_script("pairing")
report = import_script("report")
all_ = import_script("all")
decode_throughput = import_script("decode_throughput")
serve = import_script("serve")
soak = import_script("soak")

XEON = """\
processor\t: 0
model name\t: Intel(R) Xeon(R) Platinum 8488C
flags\t\t: fpu sse2 avx2 avx512f avx512_vnni avx512_bf16 amx_tile amx_bf16 amx_int8
power management:

processor\t: 1
model name\t: another
flags\t\t: fpu
"""
GRAVITON = """\
processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd asimdhp sve i8mm bf16
CPU implementer\t: 0x41
CPU part\t: 0xd40
"""
HERE = machine.Machine(
    processor="Intel Xeon",
    instructions=["avx2", "amx_bf16"],
    threads=2,
    shared_cores=True,
    gpus=["NVIDIA A100"] * 8,
    versions={"Python": "3.11.2", "torch": "2.13.0"},
    libraries={"torch": "AVX512 MKL oneDNN"},
    settings={"OMP_NUM_THREADS": "2"},
    device="the CPU by TensorFlow",
    rates={"float32": 150.4, "bfloat16": 1500.0},
)


@pytest.fixture
def here(monkeypatch) -> None:
    """The machine is known, and need not be measured."""
    monkeypatch.setattr(machine, "this_machine", lambda: HERE)


def write_cpuinfo(folder: pathlib.Path, text: str) -> pathlib.Path:
    (folder / "cpuinfo").write_text(text, "utf-8")
    return folder


def test_processors(tmp_path):
    xeon = write_cpuinfo(tmp_path, XEON)
    assert machine.processor(xeon) == "Intel(R) Xeon(R) Platinum 8488C"
    instructions = ["avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"]
    assert machine.instruction_sets(xeon) == instructions
    graviton = write_cpuinfo(tmp_path, GRAVITON)
    assert machine.processor(graviton) == "ARM implementer 0x41, part 0xd40"
    assert machine.instruction_sets(graviton) == ["asimd", "asimdhp", "sve", "i8mm", "bf16"]


def test_a_system_without_proc(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.platform, "processor", lambda: "arm")
    assert machine.processor(tmp_path) == "arm"
    assert machine.instruction_sets(tmp_path) == []


@pytest.mark.parametrize(
    ("siblings", "cpus", "shared"),
    [
        (["0", "1"], {0, 1}, False),
        (["0-1", "0-1"], {0, 1}, True),
        (["0,2", "1", "0,2"], {1, 2}, True),
        (["0,2", "1", "0,2"], {1}, False),
        (["0"], {0, 1}, None),
    ],
)
def test_shared_cores(tmp_path, siblings, cpus, shared):
    for number, text in enumerate(siblings):
        folder = tmp_path / f"devices/system/cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text + "\n")
    assert machine.shares_cores(cpus, tmp_path) is shared


def test_the_rate_of_products_is_the_median_of_turns():
    now, speed = 0.0, iter([1, 1, 1, 4, 2])  # of the warm-up, the trial, three turns

    def multiply(products: int) -> None:
        nonlocal now
        now += 0.5 * products / next(speed)

    rate = machine.product_rate(multiply, 1000, seconds=2, turns=3, clock=lambda: now)
    assert rate == but_for_rounding(2 * 1000**3 / (0.5 / 2) / 1e9)


def test_the_machine_in_words():
    lines = str(HERE).splitlines()
    assert lines[0] == "Intel Xeon (avx2 amx_bf16), 2 threads, two a core; 8 x NVIDIA A100"
    assert "150 in float32, 1,500 in bfloat16" in lines[1]
    assert "torch 2.13.0" in lines[2]
    assert "OMP_NUM_THREADS=2" in lines[2]
    other = dataclasses.replace(HERE, shared_cores=None, gpus=[], rates={}, instructions=[])
    assert "instruction sets unknown" in str(other)
    assert "shared cores unknown; no GPU" in str(other)
    assert "not measured" in str(other)
    assert (HERE.has_amx, other.has_amx) == (True, False)


def test_no_nvidia_smi_means_no_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.gpus() == []
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho NVIDIA H200\necho NVIDIA H200\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert machine.gpus() == ["NVIDIA H200"] * 2


def two_contenders(**more) -> dict:
    found = pairing.Comparison({"ours": [1.0, 2.0], "theirs": [2.0, 3.0]}, {"ours": 100.0}, **more)
    bars = (report.Bar("ours", "theirs", 1.5), report.Bar("ours", "gone", 1.0))
    figures = (report.Figure("latency", 0.25, "s", most=0.2),)
    return report.Case("base", found, bars, figures, 30, "tokens")


def test_a_case_as_json_and_as_text():
    case = two_contenders(absent={"gone": "not installed"})
    found = case.to_json()
    assert found["contenders"]["ours"] == {
        "seconds": [1.0, 2.0],
        "median": 1.5,
        "rate": 20.0,
        "peak_mib": 100.0,
    }
    assert found["contenders"]["theirs"]["peak_mib"] is None
    (ratio,) = found["ratios"]  # a contender that could not run has none
    assert ratio == {
        **{"name": "ours", "other": "theirs", "least": 1.5},
        **{"median": 1.75, "lowest": 1.5, "highest": 2.0},
    }
    assert found["absent"] == {"gone": "not installed"}
    text = str(case)
    assert "1.75 (1.50 to 2.00), bar 1.50: met" in text
    assert "gone" in text
    assert "not installed" in text
    assert "0.25 s, bar <= 0.2" in text


@pytest.mark.parametrize(
    ("least", "verdict"), [(None, ""), (1.75, ", bar 1.75: met"), (1.8, ", bar 1.80: missed")]
)
def test_bars(least, verdict):
    ratio = {"median": 1.75, "lowest": 1.5, "highest": 2.0, "least": least}
    assert report.ratio_text(ratio) == f"1.75 (1.50 to 2.00){verdict}"


def test_json_is_written_only_when_all_is_measured(tmp_path, here, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks/some_throughput.py"])
    path = tmp_path / "figures.json"
    args = report.parser("", rounds=3, cases=["base", "tiny"]).parse_args([f"--json={path}"])
    assert (args.rounds, args.only) == (3, ["base", "tiny"])
    with pytest.raises(RuntimeError, match="broken"), report.opened(args):
        raise RuntimeError("broken")
    assert list(tmp_path.iterdir()) == []
    with report.opened(args) as add_case:
        assert capsys.readouterr().out.count(str(HERE)) == 2
        add_case(two_contenders())
    found = json.loads(path.read_text("utf-8"))
    assert found["benchmark"] == "some_throughput"
    assert found["machine"] == dataclasses.asdict(HERE)
    assert found["arguments"]["rounds"] == 3
    assert [case["case"] for case in found["results"]] == ["base"]
    assert list(tmp_path.iterdir()) == [path]


CONTENDERS = """\
import functools, time, pairing

def prepare(reason):
    if reason:
        raise pairing.UnavailableError(reason)
    return functools.partial(time.sleep, 0.001)

if __name__ == "__main__":
    reasons = {"one": "", "gone": "no compiler", "two": ""}
    contenders = {name: functools.partial(prepare, reason) for name, reason in reasons.items()}
    found = pairing.compare(contenders, 2, 0.01)
    print(list(found.seconds), dict(found.absent), len(found.seconds["two"]))
"""


def test_a_contender_that_cannot_run_is_absent(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CONTENDERS, "utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "['one', 'two'] {'gone': 'no compiler'} 2\n", done.stderr


# ---- decoding


@pytest.mark.parametrize(
    ("has_amx", "name", "seconds", "least"),
    [
        (True, "beam", (1.0, 0.5), {"t2t_lite": 1.0, "t2t_lite bfloat16": 1.3}),
        (True, "beam", (0.5, 1.0), {"t2t_lite": 1.3, "t2t_lite bfloat16": None}),
        (False, "beam", (1.0, 0.5), {"t2t_lite": None, "t2t_lite bfloat16": 1.1}),
        (True, "one", (0.5, 1.0), {"t2t_lite": 0.9, "t2t_lite bfloat16": None}),
        (False, "one", (0.5, 1.0), {"t2t_lite": 0.8, "t2t_lite bfloat16": None}),
    ],
)
def test_the_better_of_ours_must_meet_the_bar(has_amx, name, seconds, least):
    ours, bfloat16 = seconds
    measured = {"t2t_lite": [ours], "t2t_lite bfloat16": [bfloat16], "CTranslate2 float32": [1.0]}
    found = pairing.Comparison(measured, {})
    bars = decode_throughput.bars(name, found, has_amx)
    assert {bar.name: bar.least for bar in bars} == least


# ---- a long run


def test_verdicts_of_a_long_run():
    samples = [
        soak.Sample(1000, 800.0, 0.010, 0.02, 2),
        soak.Sample(2000, 824.0, 0.015, 0.02, 2),
        soak.Sample(3000, 792.0, 0.012, 0.03, 3),
    ]
    found = soak.verdicts("transformer_test", samples).to_json()
    figures = {figure["name"]: (figure["value"], figure["most"]) for figure in found["figures"]}
    assert figures["memory after the first part"] == (800.0, None)
    assert figures["later change of memory"] == (but_for_rounding(3.0), 5)
    assert figures["later graphs"] == (1, 0)
    assert figures["step time, slowest part : fastest"] == (but_for_rounding(1.5), None)


# ---- serving


def turn(seconds: float, requests: int, tokens: int):
    latencies = [(n + 1) / 10 for n in range(requests)]
    return serve.Turn(seconds, latencies, tokens)


def test_throughput_and_latencies_of_two_servers():
    peer = f"{serve.PEER} float32"
    turns = {
        serve.OURS: [turn(2.0, 10, 60), turn(2.0, 20, 100)],
        peer: [turn(2.0, 10, 60), turn(2.0, 10, 60)],
    }
    found = serve.result("base", 8, turns, {serve.OURS: 900.0, peer: 300.0}).to_json()
    (ratio,) = found["ratios"]
    assert (ratio["lowest"], ratio["highest"], ratio["least"]) == (1.0, 2.0, 0.9)
    assert found["contenders"][peer]["rate"] == but_for_rounding(5.0)  # requests/s
    figures = {figure["name"]: figure["value"] for figure in found["figures"]}
    assert figures[f"{serve.OURS}, throughput"] == 40.0
    assert figures[f"{peer}, latency p50"] == but_for_rounding(0.55)
    assert figures[f"{peer}, latency p99"] == but_for_rounding(1.0)


def test_waits_for_a_hostile_client():
    alone, beside = [turn(2.0, 3, 9)], [turn(2.0, 12, 40)]
    statuses = collections.Counter({200: 3, 413: 2, 500: 1})
    found = serve.hostile_result("base", 1, 300.0, alone, beside, statuses, 0.5).to_json()
    figures = {figure["name"]: (figure["value"], figure["most"]) for figure in found["figures"]}
    assert figures["alone, latency p50"] == (but_for_rounding(0.2), None)
    assert figures["beside a hostile client, latency p100"] == (but_for_rounding(1.2), None)
    assert figures["longest wait for the hostile client"] == (but_for_rounding(2.0), 1.0)
    assert figures["requests of the hostile client"] == (6, None)
    assert figures["of these, not answered as they should be"] == (1, 0)


@pytest.fixture
def text(tmp_path) -> pathlib.Path:
    """A file with lines of invented words."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 5))) for _ in range(60)]
    lines = [" ".join(draw.choices(words, k=draw.randint(2, 6))) for _ in range(200)]
    path = tmp_path / "text.en"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.mark.slow
def test_both_servers_in_miniature(tmp_path, text, here, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))  # for the processes that it starts
    others = ("bfloat16", "int8")  # take as long as the rest
    servers = {name: one for name, one in serve.SERVERS.items() if not name.endswith(others)}
    monkeypatch.setattr(serve, "SERVERS", servers)
    path = tmp_path / "serve.json"
    flags = f"--text={text} --vocab_text={text} --vocab_size=300 --sentences=4 --sizes small"
    turns = f"--clients 1 2 --rounds=1 --seconds=0.1 --json={path}"
    monkeypatch.setattr(sys, "argv", ["serve.py", *flags.split(), *turns.split()])
    serve.main()
    *cases, hostile = json.loads(path.read_text("utf-8"))["results"]
    assert [case["case"] for case in cases] == ["small, 1 client", "small, 2 clients"]
    figures = {figure["name"]: figure["value"] for figure in hostile["figures"]}
    assert figures["requests of the hostile client"] > 0
    assert figures["of these, not answered as they should be"] == 0
    for case in cases:
        assert set(case["contenders"]) == set(serve.SERVERS)
        assert all(one["rate"] > 0 and one["peak_mib"] > 20 for one in case["contenders"].values())
        assert all(figure["value"] > 0 for figure in case["figures"])


# ---- all of them


def arguments(folder: pathlib.Path, **changes) -> argparse.Namespace:
    given = {"newstest": None, "multi30k": None, "only": None, "rounds": None, "seconds": None}
    return argparse.Namespace(**{**given, "output_dir": folder, **changes})


def write_texts(folder: pathlib.Path) -> pathlib.Path:
    for year in (2012, 2013):
        (folder / f"newstest{year}.en.gz").touch()
    return folder


def test_the_plan_suits_the_machine_and_the_data(tmp_path):
    cpu = {run.name: run for run in all_.plan(arguments(tmp_path), 0, False)}
    assert not {"decode_throughput", "serve", "data_generation"} & set(cpu)
    assert cpu["train_throughput"].arguments == ()
    args = arguments(tmp_path, newstest=write_texts(tmp_path), multi30k=pathlib.Path("corpus"))
    gpu = {run.name: run for run in all_.plan(args, 1, True)}
    assert gpu.keys() - cpu.keys() == {
        *("train_throughput_jax", "decode_throughput", "serve", "data_generation"),
        *("soak_transformer_test", "soak_transformer_multi30k_prenorm"),
    }
    assert "--xla" in gpu["train_throughput"].arguments
    assert "devices" not in gpu["train_throughput"].arguments
    assert f"--text={tmp_path / 'newstest2013.en.gz'}" in gpu["serve"].arguments
    assert f"--vocab_text={tmp_path / 'newstest2012.en.gz'}" in gpu["serve"].arguments
    (eight,) = all_.plan(arguments(tmp_path, only=["train_throughput"]), 8, False)
    assert eight.arguments[-1] == "devices"


class ParsedError(Exception):
    """A benchmark has read its command line."""


@pytest.mark.parametrize("gpus", [0, 8])
def test_every_planned_benchmark_knows_its_flags(tmp_path, monkeypatch, gpus):
    def stop(args):
        raise ParsedError

    monkeypatch.setattr(report, "opened", stop)
    args = arguments(tmp_path, newstest=write_texts(tmp_path), multi30k=tmp_path)
    for run in all_.plan(args, gpus, gpus > 0):
        script = import_script(run.script)
        turns = [f"--{flag}=1" for flag in run.turns]
        monkeypatch.setattr(sys, "argv", [run.script, *run.arguments, *turns, "--json=x"])
        with pytest.raises(ParsedError):
            script.main()


STUB = """\
import json, pathlib, sys
flags = dict(word.removeprefix("--").split("=") for word in sys.argv[1:])
print("measured", flags)
content = json.loads(pathlib.Path(__file__).with_name("content.json").read_text())
if "fail" not in flags:
    pathlib.Path(flags["json"]).write_text(json.dumps(content | {"arguments": flags}))
"""


@pytest.fixture
def stub(tmp_path, monkeypatch) -> pathlib.Path:
    """Replaces the benchmarks by one that writes known figures; returns a folder for them."""
    content = {
        **{"benchmark": "stub", "date": "2026-01-02T03:04:05+00:00"},
        **{"machine": dataclasses.asdict(HERE), "results": [two_contenders().to_json()]},
    }
    (tmp_path / "content.json").write_text(json.dumps(content), "utf-8")
    (tmp_path / "stub.py").write_text(STUB, "utf-8")
    monkeypatch.setattr(all_, "HERE", tmp_path)
    monkeypatch.setattr(all_, "plan", lambda args, gpus, jax: [all_.Run("stub", "stub")])
    monkeypatch.setattr(machine, "gpus", list)
    return tmp_path / "figures"


def test_all_skips_what_is_done_and_prints_a_table(stub, monkeypatch, capsys):
    command = ["all.py", f"--output_dir={stub}", "--rounds=1"]
    for expected in ("--rounds=1", "stub: done before"):
        monkeypatch.setattr(sys, "argv", command)
        all_.main()
        output = capsys.readouterr().out
        assert expected in output
        assert "| | Intel Xeon, 2 threads, 8 x NVIDIA A100 |" in output
        cell = "1.75 (1.50 to 2.00), bar 1.50: met; 1.5 : 2.5 s; 20 : 12 tokens/s"
        assert f"| stub, base: ours : theirs | {cell} |" in output
        assert "| stub, base: latency | 0.25 s, bar <= 0.2 |" in output
    assert json.loads((stub / "stub.json").read_text())["arguments"]["rounds"] == "1"
    assert "measured" in (stub / "stub.log").read_text()


def test_a_failed_benchmark_is_named(stub, monkeypatch, capsys):
    run = all_.Run("stub", "stub", ("--fail=1",))
    monkeypatch.setattr(all_, "plan", lambda args, gpus, jax: [run])
    monkeypatch.setattr(sys, "argv", ["all.py", f"--output_dir={stub}"])
    with pytest.raises(SystemExit, match="figures"):
        all_.main()
    assert "stub: failed; see" in capsys.readouterr().out


def test_a_column_for_each_machine(stub):
    folders = [stub / name for name in ("one", "two")]
    content = json.loads((stub.parent / "content.json").read_text())
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "stub.json").write_text(json.dumps(content))
        content["machine"]["gpus"] = []
        content["results"][0]["figures"][0] = {
            **{"name": "throughput", "value": 1234.5, "unit": "tokens/s", "most": None}
        }
    lines = all_.table(folders).splitlines()
    assert "| | Intel Xeon, 2 threads, 8 x NVIDIA A100 | Intel Xeon, 2 threads |" in lines
    assert "| stub, base: latency | 0.25 s, bar <= 0.2 |  |" in lines
    assert "| stub, base: throughput |  | 1,234 tokens/s |" in lines
