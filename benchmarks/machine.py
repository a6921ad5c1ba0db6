"""What a figure depends on: processor, threads, GPUs, versions, and the rate of matrix products.

    python benchmarks/machine.py

prints it. Rates are measured in a process of its own, on the device that TensorFlow or (with
KERAS_BACKEND=jax, or without TensorFlow) JAX computes on. What the system does not tell is unknown.
"""

import dataclasses
import functools
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

# Instruction sets that matter for products, as Linux names them: x86-64's, then ARM's.
INSTRUCTIONS = (
    *("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_bf16", "amx_int8", "amx_fp16"),
    *("asimd", "asimdhp", "asimddp", "sve", "sve2", "i8mm", "bf16", "sme", "sme2"),
)
PACKAGES = ("tensorflow", "keras", "jax", "torch", "ctranslate2")
# Variables that change speeds.
SETTINGS = (
    *("TF_ENABLE_ONEDNN_OPTS", "ONEDNN_MAX_CPU_ISA", "KERAS_BACKEND", "XLA_FLAGS", "TF_XLA_FLAGS"),
    *(
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "CUDA_VISIBLE_DEVICES",
        "CT2_USE_MKL",
        "CT2_FORCE_CPU_ISA",
    ),
)
DTYPES = ("float32", "bfloat16")

# Computes this many products of its matrices, and waits for the last.
Multiply = Callable[[int], None]


@dataclasses.dataclass(frozen=True)
class Machine:
    """The machine at hand, as this process may use it."""

    processor: str
    instructions: list[str]  # of `INSTRUCTIONS`
    threads: int  # that the process may use
    shared_cores: bool | None  # whether any of them shares its core; None: unknown
    gpus: list[str]
    versions: dict[str, str]
    libraries: dict[str, str]  # what a peer multiplies with
    settings: dict[str, str]  # of `SETTINGS`, those that are set
    device: str  # that the rates are of
    rates: dict[str, float]  # of products, by dtype, GFLOP/s; empty: not measured

    @property
    def has_amx(self) -> bool:
        """Whether the processor multiplies tiles of bfloat16."""
        return "amx_bf16" in self.instructions

    @property
    def name(self) -> str:
        """The machine in a few words, such as the head of a column."""
        gpus = f", {describe_gpus(self.gpus)}" if self.gpus else ""
        return f"{self.processor}, {count(self.threads, 'thread')}{gpus}"

    def __str__(self) -> str:
        shared = {None: "shared cores unknown", True: "two a core", False: "one a core"}
        rates = ", ".join(f"{rate:,.0f} in {dtype}" for dtype, rate in self.rates.items())
        versions = [f"{name} {version}" for name, version in self.versions.items()]
        versions += [f"{name} multiplies with {how}" for name, how in self.libraries.items()]
        versions += [f"{name}={value}" for name, value in self.settings.items()]
        return (
            f"{self.processor} ({' '.join(self.instructions) or 'instruction sets unknown'}), "
            f"{count(self.threads, 'thread')}, {shared[self.shared_cores]}; "
            f"{describe_gpus(self.gpus)}\n"
            f"products on {self.device}, GFLOP/s: {rates or 'not measured'}\n{', '.join(versions)}"
        )


def count(number: int, noun: str) -> str:
    """Returns "1 thread", "2 threads"."""
    return f"{number} {noun}" + "s" * (number != 1)


def describe_gpus(names: list[str]) -> str:
    """Returns "no GPU", "NVIDIA A100", "8 x NVIDIA A100"."""
    kinds = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
    return ", ".join(kinds).removeprefix("1 x ") if names else "no GPU"


@functools.cache
def this_machine() -> Machine:
    """Describes the machine; measures for seconds."""
    cpus = threads()
    found = in_a_process("--rates")
    return Machine(
        processor=processor(),
        instructions=instruction_sets(),
        threads=len(cpus),
        shared_cores=shares_cores(cpus),
        gpus=gpus(),
        versions=versions(),
        libraries=in_a_process("--libraries"),
        settings={name: os.environ[name] for name in SETTINGS if name in os.environ},
        device=found.pop("device", "nothing"),
        rates=found,
    )


def threads() -> set[int]:
    """Returns the numbers of the threads that the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def processor(proc: pathlib.Path = pathlib.Path("/proc")) -> str:
    """Returns the name of the processor."""
    fields = _cpuinfo(proc)
    if "model name" in fields:
        return fields["model name"]
    if "CPU part" in fields:  # ARM; https://github.com/util-linux/util-linux knows the numbers
        return f"ARM implementer {fields.get('CPU implementer')}, part {fields['CPU part']}"
    return platform.processor() or platform.machine() or "unknown processor"


def instruction_sets(proc: pathlib.Path = pathlib.Path("/proc")) -> list[str]:
    """Returns those of `INSTRUCTIONS` that the system reports."""
    fields = _cpuinfo(proc)
    present = set(fields.get("flags", fields.get("Features", "")).split())
    return [name for name in INSTRUCTIONS if name in present]


def _cpuinfo(proc: pathlib.Path) -> dict[str, str]:
    """Returns the fields of the first processor."""
    try:
        text = (proc / "cpuinfo").read_text("utf-8")
    except OSError:
        return {}
    first = text.strip().partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs if value.strip()}


def shares_cores(cpus: set[int], sys_: pathlib.Path = pathlib.Path("/sys")) -> bool | None:
    """Whether any of these threads shares a core with another; None: unknown."""
    folder = sys_ / "devices/system/cpu"
    try:
        lists = [(folder / f"cpu{n}/topology/thread_siblings_list").read_text() for n in cpus]
    except OSError:
        return None
    return any(re.search(r"[,-]", siblings) for siblings in lists)


def gpus() -> list[str]:
    """Returns the names of NVIDIA's GPUs."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    return found.stdout.strip().splitlines()


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the libraries that are installed."""
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


# ---- in a process of its own


def in_a_process(flag: str) -> dict:
    """Returns what this module finds with a flag; {} if that fails."""
    done = subprocess.run([sys.executable, __file__, flag], capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}


def libraries() -> dict[str, str]:
    """Returns what PyTorch multiplies with, if it is installed."""
    if not importlib.util.find_spec("torch"):
        return {}
    import torch

    parts = [torch.backends.cpu.get_cpu_capability()]
    parts += ["MKL"] * torch.backends.mkl.is_available()
    parts += ["oneDNN"] * torch.backends.mkldnn.is_available()
    parts += [f"CUDA {torch.version.cuda}"] * torch.cuda.is_available()
    return {"torch": " ".join(parts)}


def product_rates() -> dict[str, str | float]:
    """Measures the rate of matrix products in each dtype, in GFLOP/s, and names the device."""
    has_tensorflow = importlib.util.find_spec("tensorflow")
    is_jax = os.environ.get("KERAS_BACKEND") == "jax" or not has_tensorflow
    products = _jax_products if is_jax else _tensorflow_products
    found: dict[str, str | float] = {}
    for dtype in DTYPES:
        found["device"], size, multiply = products(dtype)
        found[dtype] = round(product_rate(multiply, size), 1)
    return found


def product_rate(
    multiply: Multiply,
    size: int,
    seconds: float = 0.2,
    turns: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Returns the median rate of some turns, in GFLOP/s.

    Args:
        multiply: computes products.
        size: rows and columns of the matrices.
        seconds: length of a turn, roughly.
        turns: how often to measure.
        clock: tells the time in seconds.
    """

    def timed(products: int) -> float:
        start = clock()
        multiply(products)
        return clock() - start

    timed(2)  # starts threads, chooses kernels
    products = max(1, round(seconds / timed(1)))
    return statistics.median(2e-9 * size**3 * products / timed(products) for _ in range(turns))


def _tensorflow_products(dtype: str) -> tuple[str, int, Multiply]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    found = tf.config.list_physical_devices("GPU")
    size = 8192 if found else 1024
    a, b = (tf.cast(tf.random.normal([size, size]), dtype) for _ in range(2))

    def multiply(products: int) -> None:
        for _ in range(products):
            last = tf.linalg.matmul(a, b)
        last[0, 0].numpy()  # waits

    return _name("TensorFlow", "GPU" if found else "CPU"), size, multiply


def _jax_products(dtype: str) -> tuple[str, int, Multiply]:
    import jax
    import jax.numpy as jnp

    platform_name = jax.default_backend().upper()
    size = 1024 if platform_name == "CPU" else 8192
    keys = jax.random.split(jax.random.key(0))
    a, b = (jax.random.normal(key, (size, size), jnp.dtype(dtype)) for key in keys)
    product = jax.jit(jnp.matmul)

    def multiply(products: int) -> None:
        for _ in range(products):
            last = product(a, b)
        last.block_until_ready()

    return _name("JAX", platform_name), size, multiply


def _name(library: str, device: str) -> str:
    return f"the {device} by {library}"


if __name__ == "__main__":
    if "--rates" in sys.argv:
        print(json.dumps(product_rates()))
    elif "--libraries" in sys.argv:
        print(json.dumps(libraries()))
    else:
        print(this_machine())
