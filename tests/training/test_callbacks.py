"""What training tells callbacks, and what it does when one fails."""

import pathlib
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

import t2t_lite as t2t
from support import small_runs
from support.registries import restored
from support.small_runs import kinds_and_steps, records_of
from t2t_lite import registry
from t2t_lite.bin.registry_help import registry_help
from t2t_lite.bin.t2t_trainer import COMMAND, configure
from t2t_lite.errors import UsageError
from t2t_lite.runs import checkpoint_files
from t2t_lite.training import trainer
from t2t_lite.training.callbacks import Callback, CallbackError, Callbacks
from t2t_lite.training.preemption import PreemptionError


class Notes(Callback):
    """Notes its calls, and does to numbers and generators what must not matter."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.values: dict[tuple[str, int], dict[str, float]] = {}

    def step(self, step, values):
        self._note("step", step, values)

    def evaluation(self, step, values):
        self._note("evaluation", step, values)

    def end(self, step):
        self.calls.append(("end", step))

    def _note(self, method, step, values):
        self.calls.append((method, step))
        self.values[method, step] = dict(values)
        values.clear()
        keras.utils.set_random_seed(1)
        random.random(), np.random.random(), tf.random.uniform([])


class Broken(Callback):
    """Fails in one method at one step."""

    def __init__(self, method: str, step: int, error: BaseException) -> None:
        self.at = (method, step)
        self.error = error

    def step(self, step, values):
        self._fail("step", step)

    def evaluation(self, step, values):
        self._fail("evaluation", step)

    def end(self, step):
        self._fail("end", step)

    def _fail(self, method, step):
        if self.at == (method, step):
            raise self.error


def test_each_sees_numbers_of_its_own():
    first, second = Notes(), Notes()
    Callbacks([first, second]).evaluation(3, {"loss": 2.5, "bleu": 1, "bleu_signature": "v:2"})
    assert first.values == second.values == {("evaluation", 3): {"loss": 2.5, "bleu": 1}}


@pytest.mark.parametrize("method", ["step", "evaluation", "end"])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("no\nserver"), "OSError: no server"),
        (SystemExit(), "SystemExit"),
        (KeyError(), "K"),
    ],
)
def test_an_error_names_the_callback_and_the_line_and_ends_the_calls(method, error, text):
    after = Notes()
    callbacks = Callbacks([Broken(method, 7, error), after])
    message = rf"^callback Broken\.{method} at step 7 failed: {text}"
    with pytest.raises(CallbackError, match=message) as raised:
        getattr(callbacks, method)(7, *[{}] * (method != "end"))
    line = Broken.__dict__[method].__code__.co_firstlineno + 1
    assert f"({__file__}, line {line})" in str(raised.value)
    assert not after.calls


def test_a_method_with_other_arguments_is_named():
    class Short(Callback):
        def step(self, step):
            pass

    with pytest.raises(CallbackError, match=r"Short\.step at step 1 failed: TypeError: .*2 posit"):
        Callbacks([Short()]).step(1, {})


def test_a_signal_is_no_failure_of_a_callback():
    with pytest.raises(PreemptionError):
        Callbacks([Broken("step", 7, PreemptionError("stopped"))]).step(7, {})


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (None, [("end", 5)]),
        (PreemptionError("stopped by SIGTERM"), [("end", 5)]),
        (KeyboardInterrupt(), [("end", 5)]),
        (ValueError("a defect"), []),
        (CallbackError("of another one"), []),
    ],
)
def test_the_end_comes_once_also_after_a_signal_but_not_after_an_error(error, calls):
    notes, step = Notes(), 3
    raised = []
    try:
        with Callbacks([notes]).ending(lambda: step):
            step = 5
            if error:
                raise error
    except BaseException as one:
        raised.append(one)
    assert notes.calls == calls
    assert raised == [error] * (error is not None)


def test_names_make_callbacks_and_objects_come_after_them():
    with restored():
        registry.register_callback(Notes)
        registry.register_callback("second")(Notes)
        own = Notes()
        *made, last = Callbacks.of("second, notes,", [own])._callbacks
    assert [type(one) for one in made] == [Notes, Notes]
    assert made[0] is not made[1]
    assert last is own


def test_what_is_no_callback_is_refused():
    with restored():
        registry.register_callback("odd")(print)
        registry.register_callback(Notes)
        registry.register_callback(Broken)
        with pytest.raises(UsageError, match="unknown callback 'note'; did you mean 'notes'"):
            Callbacks.of("note")
        with pytest.raises(UsageError, match=r"callback 'odd': .* is not a class derived"):
            Callbacks.of("odd")
        with pytest.raises(CallbackError, match=r"callback 'broken' failed: TypeError: .*missing"):
            Callbacks.of("broken")
        assert "Callbacks:" in registry_help()
    for given in (Notes, print):
        with pytest.raises(UsageError, match="is not an object of a class derived"):
            Callbacks.of("", [given])
    for given in (Notes(), None):
        with pytest.raises(UsageError, match="callbacks: expected a list of objects, got"):
            Callbacks.of("", given)


def test_the_command_refuses_an_unknown_name_at_once():
    flags = {"problem": "algorithmic_reverse_decimal40", "model": "transformer"}
    flags |= {"hparams_set": "transformer_test", "data_dir": "d", "output_dir": "r"}
    args = COMMAND.parse([f"--{name}={value}" for name, value in flags.items()] + ["--callbacks=x"])
    with pytest.raises(UsageError, match="unknown callback 'x'"):
        configure(args)


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
def test_a_run_with_callbacks_ends_as_one_without(data_dir, tmp_path):
    """Although one fails after the third step, and the run is resumed."""
    calm, told = tmp_path / "calm", tmp_path / "told"

    def config(folder: pathlib.Path, **changes):
        return small_runs.make_config(
            data_dir, folder, train_steps=4, log_step_count_steps=1, **changes
        )

    trainer.run(config(calm))
    first = Notes()
    with pytest.raises(CallbackError, match=r"Broken\.step at step 3 failed: ValueError: full"):
        trainer.run(config(told), [first, Broken("step", 3, ValueError("full"))])
    assert first.calls == [("step", 1), ("step", 2), ("evaluation", 2), ("step", 3)]
    assert checkpoint_files.checkpoints(told)[-1].endswith("ckpt-3"), "it is saved before the end"

    with restored():
        made: list[Notes] = []

        @registry.register_callback
        class Noted(Notes):
            def __init__(self) -> None:
                super().__init__()
                made.append(self)

        trainer.run(config(told, callbacks="noted"))
    (second,) = made
    assert second.calls == [("step", 4), ("evaluation", 4), ("end", 4)], "from where it goes on"
    assert second.run.folder == told
    small_runs.assert_equal_runs(calm, told)

    found = first.values | second.values
    for kind, method in (("train", "step"), ("eval", "evaluation")):
        for record in records_of(told, kind):
            values = found[method, record["step"]]
            assert {type(value) for value in values.values()} <= {int, float}
            del record["step"]
            numbers = {name: v for name, v in record.items() if not isinstance(v, str)}
            assert numbers.items() <= values.items()
            assert ("steps_per_second" in values) == (kind == "train")

    third, metrics = Notes(), (told / "metrics.jsonl").read_bytes()
    flags = vars(config(told)) | {"schedule": "continuous_eval", "eval_timeout_mins": 0}
    with pytest.raises(CallbackError, match=r"Broken\.evaluation at step 3 failed"):
        t2t.train(**flags | {"callbacks": [third, Broken("evaluation", 3, OSError())]})
    t2t.train(**flags | {"callbacks": [third]})
    assert third.calls == [*(("evaluation", step) for step in (2, 3, 4)), ("end", 4)]
    assert third.values["evaluation", 4].keys() == found["evaluation", 4].keys()
    assert kinds_and_steps(told / "eval") == [("eval", 2), ("eval", 3), ("eval", 4)]
    assert (told / "metrics.jsonl").read_bytes() == metrics
