"""Fixtures that all tests share."""

import contextlib
import importlib.util
import os
import pathlib
import resource
import shutil
import types

import hypothesis
import pytest

# A machine with other work is slow now and then; no test is about time.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

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


def _helper(name: str) -> types.ModuleType:
    """Imports a module beside this file: tests are no package to import it from."""
    spec = importlib.util.spec_from_file_location(
        name, pathlib.Path(__file__).parent / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def noisy_run(tmp_path_factory):
    """Returns what makes a run folder of a tiny Transformer for bytes, whose weights are noise."""

    def make(**sizes: int):
        import numpy as np
        import tensorflow as tf

        from t2t_lite import registry
        from t2t_lite.runs import run_folder

        folder = tmp_path_factory.mktemp("run")
        flags = {
            "output_dir": str(folder),
            "problem": "translate_ende_wmt_characters",
            "model": "transformer",
            "hparams_set": "transformer_tiny",
        }
        hparams = registry.hparams("transformer_tiny").copy(**sizes, max_length=40)
        run = run_folder.create_run(flags, hparams, str(folder))
        model = run.build_model()
        random = np.random.default_rng(0)
        for variable in model.trainable_variables:
            noise = random.normal(size=variable.shape, scale=2.0 / variable.shape[0] ** 0.5)
            variable.assign(noise + (variable.name == "gamma"))
        checkpoint = tf.train.Checkpoint(model=model, step=tf.Variable(7, dtype=tf.int64))
        checkpoint.write(str(folder / "model.ckpt-7"))
        return run

    return make


@pytest.fixture(scope="session")
def t2t_weights():
    """The module that builds T2T's recorded models."""
    return _helper("t2t_weights")


@pytest.fixture(scope="session")
def t2t_files():
    """The module that writes T2T's folders of a training, and imports one."""
    return _helper("t2t_files")


@pytest.fixture(scope="session")
def t2t_arithmetic():
    """The module with T2T's language models in NumPy."""
    return _helper("t2t_arithmetic")


@pytest.fixture(scope="session")
def by_hand():
    """The class of a model with written-down probabilities (tests/small_models.py)."""
    return _helper("small_models").ByHand


@pytest.fixture(scope="session")
def decided():
    """Returns what makes a small model whose outputs end soon."""
    return _helper("small_models").make_decided


@pytest.fixture(scope="session")
def set_logits():
    """`set_logits(model, function)` makes logits a function of the hidden features."""
    return _helper("small_models").set_logits


@pytest.fixture(scope="session")
def generate_pairs(tmp_path_factory):
    """Returns what generates so many pairs to train on, and 6 to evaluate, for a problem."""
    from t2t_lite import registry
    from t2t_lite.generation.generator import generate_data

    def generate(problem: str, count: int) -> pathlib.Path:
        text, data = tmp_path_factory.mktemp("text"), tmp_path_factory.mktemp("data")
        for split, pairs in (("train", count), ("eval", 6)):
            for side in ("inputs", "targets"):
                lines = "".join(f"{i} and {i * 7 % 10}\n" for i in range(pairs))
                (text / f"{side}.{split}.txt").write_text(lines, encoding="utf-8")
        generate_data(registry.problem(problem), str(data), str(text))
        return data

    return generate


@pytest.fixture(scope="module")
def few_shards():
    """Two training files instead of 100, which take longer to open than to read."""
    from t2t_lite.data.problem import Problem, three_splits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Problem, "dataset_splits", three_splits(2)[:2])
        yield


@pytest.fixture(scope="module")
def data_dir(generate_pairs) -> pathlib.Path:
    """60 pairs to train on."""
    return generate_pairs("text2text_tmpdir", 60)


@pytest.fixture(scope="session")
def small_runs():
    """The module that makes and compares short trainings (tests/small_runs.py)."""
    return _helper("small_runs")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium (tests/chromium.py)."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium is on this machine")
    chromium = _helper("chromium").Chromium(program, tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """Folder of the real corpora."""
    return _shared("data")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves bfloat16 out where oneDNN is told to do without AVX-512 on a processor that has it.

    TensorFlow asks the processor, not oneDNN, whether oneDNN multiplies bfloat16, and aborts the
    process. A processor without AVX-512 takes the kernels of TF_ENABLE_ONEDNN_OPTS=0.
    """
    held_to = os.environ.get("ONEDNN_MAX_CPU_ISA", "AVX512")
    onednn = os.environ.get("TF_ENABLE_ONEDNN_OPTS") != "0"
    if onednn and not held_to.startswith("AVX512") and item.get_closest_marker("bfloat16"):
        pytest.skip(f"oneDNN is held to {held_to}")


@pytest.fixture(scope="session", autouse=True)
def _logical_devices() -> None:
    """Splits the CPU, which can be done only before TensorFlow has touched it."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * LOGICAL_DEVICES
    tf.config.set_logical_device_configuration(cpu, logical)


@pytest.fixture
def strategy_over():
    """Returns a function that makes a MirroredStrategy over that many logical devices."""
    import tensorflow as tf

    return lambda devices: tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)])


@pytest.fixture
def eagerly():
    """Runs functions as written: tracing a step for several devices takes far longer than it."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def full_disk():
    """Returns a context manager in which no file may grow beyond so many bytes.

    Not a state for the whole test: pytest's own report may go to a file that is longer.
    """

    @contextlib.contextmanager
    def limit(size: int):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limit


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
