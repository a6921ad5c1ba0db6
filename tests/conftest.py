"""Fixtures that all tests share."""

import contextlib
import fcntl
import functools
import gc
import importlib.util
import logging
import os
import pathlib
import resource
import shutil
import signal
import sys
import typing
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

from t2t_lite import memory, processor
from t2t_lite.bin import console

# What the selection and the end of a run need.
pytest_plugins = ["support.costs", "support.forks", "support.parts", "support.run_watch"]

# What helpers assert is explained as what tests assert.
pytest.register_assert_rewrite("support")

# A machine with other work is slow now and then; no test is about time.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# A file of tests that takes so many bytes gives back what it can.
GROWTH = 200 << 20

# How many logical devices the CPU is split into; the first is where everything else runs.
LOGICAL_DEVICES = 8

_GOLDEN = pathlib.Path(__file__).parent / "golden"
_SHARED = (pathlib.Path(__file__).parents[1] / ".." / "shared").resolve()

# What is not in the repository, and how the last lines call it.
_NOT_HERE = {"golden": "recordings on third-party text", "data": "real corpora"}


def _shared(name: str) -> pathlib.Path:
    path = _SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not on this machine")
    return path


class Golden:
    """The folder of the numbers recorded from T2T itself: `golden / "units.npz"` is a path.

    What rests on third-party text is not in the repository (tests/golden/README.md); a test
    that asks for it skips where there is no copy.
    """

    def __truediv__(self, name: str) -> pathlib.Path:
        committed = _GOLDEN / name
        return committed if committed.exists() else _shared(f"golden/{name}")


@pytest.fixture(scope="session")
def golden() -> Golden:
    """The numbers recorded from T2T itself."""
    return Golden()


@pytest.fixture(
    params=[
        "base_v1",
        "base_v3",
        "relative",
        "pos_none",
        "pos_emb",
        "unshared",
        "two_vocabs",
        "channels",
        "plain",
    ]
)
def t2t_folder(request, golden) -> pathlib.Path:
    """Folder of one Transformer recorded from T2T."""
    return golden / "transformer" / request.param


@pytest.fixture(scope="module")
def few_shards():
    """Two training files instead of 100, which take longer to open than to read."""
    from t2t_lite.data.problem import Problem, three_splits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Problem, "dataset_splits", three_splits(2)[:2])
        yield


@pytest.fixture(scope="module")
def data_dir(few_shards, tmp_path_factory) -> pathlib.Path:
    """60 pairs to train on."""
    from support.small_runs import generate_pairs

    return generate_pairs(tmp_path_factory.mktemp("made"), "text2text_tmpdir", 60)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium."""
    from support.chromium import Chromium

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium is on this machine")
    chromium = Chromium(program, tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """Folder of the real corpora."""
    return _shared("data")


def pytest_configure(config: pytest.Config) -> None:
    """Starts processes with the system's malloc, as users do, in workers that have jemalloc."""
    if hasattr(config, "workerinput") and "jemalloc" in os.environ.get("LD_PRELOAD", ""):
        del os.environ["LD_PRELOAD"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Imports all tests, and TensorFlow, without the garbage collector: they are here to stay."""
    gc.disable()
    try:
        with _compiled_once(), console.quiet_tensorflow():
            return (yield)
    finally:
        gc.enable()


@contextlib.contextmanager
def _compiled_once() -> Iterator[None]:
    """Lets one worker after another import in a new environment: the first compiles for all."""
    compiled = importlib.util.find_spec("tensorflow").cached
    with pathlib.Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if pathlib.Path(compiled).exists() or sys.dont_write_bytecode:
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield


def pytest_collection_finish() -> None:
    """Spares the garbage collector what stays until the end, and is called less often.

    It would else look again and again through the modules of all tests and of TensorFlow.
    """
    gc.freeze()
    gc.set_threshold(200_000, 50, 50)


# By type, the instructions with which a processor lets TensorFlow call oneDNN for products in it.
# TensorFlow asks the processor, not oneDNN, and aborts the process where oneDNN is told to do
# without them. "" stands for every processor.
_INSTRUCTIONS = {"bfloat16": {""}, "float16": {"avx512_fp16", "amx_fp16", "avx_ne_convert"}}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves narrow types out where oneDNN is told to do without AVX-512.

    A processor without AVX-512 takes the kernels of TF_ENABLE_ONEDNN_OPTS=0.
    """
    held_to = os.environ.get("ONEDNN_MAX_CPU_ISA", "AVX512")
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0" or held_to.startswith("AVX512"):
        return
    for dtype, instructions in _INSTRUCTIONS.items():
        if item.get_closest_marker(dtype) and instructions & {"", *processor.features()}:
            pytest.skip(f"oneDNN is held to {held_to}")


@pytest.fixture(scope="session", autouse=True)
def _logical_devices(request) -> None:
    """Splits the CPU, which can be done only before TensorFlow has touched it."""
    import tensorflow as tf

    from support.parts import optimize_graphs

    optimize_graphs(not request.config.getoption("as_traced"))
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * LOGICAL_DEVICES
    tf.config.set_logical_device_configuration(cpu, logical)


@pytest.fixture(autouse=True)
def _one_device_decodes(request, monkeypatch) -> None:
    """Decodes on one device, as on a machine without GPUs, where a test does not ask for two.

    Each device traces searches of its own.
    """
    from t2t_lite.decoding import devices

    of_gpus, count = devices.decoding_devices, 1 + ("two_devices" in request.fixturenames)
    monkeypatch.setattr(devices, "decoding_devices", lambda gpus: of_gpus(gpus)[:count])


@pytest.fixture
def two_devices() -> None:
    """Decodes on two logical devices of the CPU."""


@pytest.fixture(scope="module", autouse=True)
def _files_do_not_meet() -> Iterator[None]:
    """Undoes what a file leaves behind in its process: the next one differs from run to run."""
    from support.usr_dirs import forgotten

    level, handler = logging.getLogger("tensorflow").level, signal.getsignal(signal.SIGTERM)
    with forgotten():
        yield
    logging.getLogger("tensorflow").setLevel(level)
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="module", autouse=True)
def _memory_is_given_back(request, _logical_devices):
    """Frees what a file has left: models and traces are in cycles, and TensorFlow keeps some."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    from support import forks

    gradients = ops.gradient_registry._registry
    there, before = set(gradients), _resident_bytes()
    yield
    if forks.is_ending(request.config):  # which frees all in a moment
        return
    # Those of recomputed blocks and of the functions of loaded SavedModels, which it numbers.
    for name in set(gradients) - there:
        if name.rpartition("-")[2].isdigit():
            del gradients[name]
    if _resident_bytes() > before + GROWTH:
        from support.model_kinds import model_of
        from support.shared_searches import SHARED

        model_of.cache_clear()
        SHARED.clear()
        gc.collect()
        context.context().clear_kernel_cache()
        memory.give_back()


def _resident_bytes() -> int:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.fixture(scope="session", autouse=True)
def _stacks_are_not_noted(request):
    """Spares them in the workers of pytest-xdist: a test that is repeated alone notes them."""
    from support import stacks

    with stacks.not_noted() if hasattr(request.config, "workerinput") else contextlib.nullcontext():
        yield


@pytest.fixture(scope="session", autouse=True)
def _variables_share_kernels(_logical_devices):
    """Makes variables without `debug_name`, which TensorFlow uses in messages alone.

    It creates and keeps a kernel for each name, shape and type. That takes most of the time in
    which a variable is created, and creating models takes a fifth of all tests.
    """
    from tensorflow.python.ops import gen_resource_variable_ops as operations

    handle = operations.var_handle_op
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            operations, "var_handle_op", lambda *a, debug_name="", **options: handle(*a, **options)
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _protocols_are_read_once():
    """Remembers what a protocol consists of, as Python 3.12 does.

    TensorFlow asks of every tensor and number whether it is one, in each operation.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typing, "_get_protocol_attrs", functools.cache(typing._get_protocol_attrs))
        yield


@pytest.fixture(scope="session", autouse=True)
def _searches_are_shared(_logical_devices):
    """Traces a search once for all tests that decode with equal models."""
    from support.shared_searches import shared_searches

    with shared_searches():
        yield


@pytest.fixture(scope="session", autouse=True)
def _speeds_are_of_one_product(_logical_devices):
    """Measures a device by one product, whenever a training begins: no test is about its speed."""
    from t2t_lite.training import cost_tracker

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost_tracker, "_MIN_SECONDS", 1e-9)
        yield


@pytest.fixture
def own_searches():
    """Models and searches that no other test has, for one that changes them or counts traces."""
    from support import shared_searches

    with shared_searches.own_searches():
        yield


@pytest.fixture
def eagerly():
    """Runs functions as written: tracing a step for several devices takes far longer than it."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def eager_searches(monkeypatch):
    """Searches as written: tracing one takes far longer than some steps of a small model."""
    from t2t_lite.search.search_loop import SearchLoop

    steps = property(lambda search: (search._run_steps, search._keep_and_grow))
    monkeypatch.setattr(SearchLoop, "_begun", SearchLoop._start_search)
    monkeypatch.setattr(SearchLoop, "_compiled", steps)


def pytest_terminal_summary(terminalreporter) -> None:
    """Says in one line what was skipped for want of files that cannot be in the repository."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    counts = {
        what: sum(str(_SHARED / name) in reason for reason in reasons)
        for name, what in _NOT_HERE.items()
    }
    if any(counts.values()):
        tests = " and ".join(f"{count} tests of {what}" for what, count in counts.items() if count)
        terminalreporter.write_line(
            f"skipped {tests}, which are not in {_SHARED}: "
            "tests/golden/README.md says where to get them"
        )
