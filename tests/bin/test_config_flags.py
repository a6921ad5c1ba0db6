"""Flags are made from the options of the configurations."""

import dataclasses
import importlib
import pathlib

import pytest

from t2t_lite.bin.command import Command, Flag, config_flags, from_flags
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.errors import UsageError
from t2t_lite.generation.config import DatagenOptions
from t2t_lite.insights.config import InsightsConfig
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig
from t2t_lite.settings import Config, required_settings, setting, settings_of
from t2t_lite.training.config import TrainerConfig

_REGISTRY = {"t2t_usr_dir", "registry_help"}
# By configuration: its command, and the command's flags that are none of its options.
_COMMANDS = {
    TrainerConfig: (
        "t2t_trainer",
        {"generate_data", "tmp_dir", "find_batch_size", "dry_run", "help_hparams"} | _REGISTRY,
    ),
    DecoderConfig: ("t2t_decoder", _REGISTRY),
    ServerConfig: ("t2t_serve", _REGISTRY),
    InsightsConfig: ("t2t_insights", _REGISTRY),
    DatagenOptions: (
        "t2t_datagen",
        {"problem", "exclude_problems", "only_list", "inspect", "data_dir", "tmp_dir", "report"}
        | {"runner", "beam_options", "hparams_set", "hparams"}
        | _REGISTRY,
    ),
}
_ALL = [
    f"t2t_{name}"
    for name in (
        *("avg_all", "avg_checkpoints", "bleu", "datagen", "decoder", "eval", "exporter", "import"),
        *("insights", "paper", "parseval", "query_server", "report", "serve", "trainer"),
    )
]
_REQUIRED: dict[type, dict[str, str]] = {
    TrainerConfig: dict.fromkeys(required_settings(TrainerConfig), "x"),
    InsightsConfig: {"text": "x"},
}


def command(module: str) -> Command:
    return importlib.import_module(f"t2t_lite.bin.{module}").COMMAND


def bounded() -> list[tuple[type[Config], str, object]]:
    """Each field with a bound or choices, and a value beyond."""
    found = []
    for config in _COMMANDS:
        for o in settings_of(config).values():
            if o.minimum is not None:
                found.append((config, o.name, o.minimum - 1))
            if o.maximum is not None:
                found.append((config, o.name, o.maximum + 1))
            if o.above is not None:
                found.append((config, o.name, o.above))
            if o.choices:
                found.append((config, o.name, "nothing"))
    return found


@pytest.mark.parametrize("config", _COMMANDS)
def test_a_command_has_its_configurations_options_and_few_more(config: type[Config]):
    module, others = _COMMANDS[config]
    fields = {field.name for field in dataclasses.fields(config)}
    assert settings_of(config).keys() == fields
    assert command(module).flags.keys() == fields | others
    assert not fields & others


@pytest.mark.parametrize("config", _COMMANDS)
def test_flags_have_the_defaults_of_python(config: type[Config]):
    words = [f"--{name}={value}" for name, value in _REQUIRED.get(config, {}).items()]
    args = command(_COMMANDS[config][0]).parse(words)
    assert from_flags(config, args) == config(**_REQUIRED.get(config, {}))


@pytest.mark.parametrize(("config", "name", "value"), bounded())
def test_a_bound_holds_on_the_command_line_and_in_python(config, name: str, value: object):
    with pytest.raises(UsageError) as in_python:
        config(**_REQUIRED.get(config, {}), **{name: value})
    number = settings_of(config)[name].kind
    with pytest.raises(UsageError) as on_the_command_line:
        command(_COMMANDS[config][0]).parse([f"--{name}={value}"])
    shown = number(value) if number in (int, float) else value
    assert str(in_python.value).startswith(f"{name}={value}")
    assert str(on_the_command_line.value).startswith(f"--{name}={shown}")
    tails = (
        str(e.value).partition(str(v))[2]
        for e, v in ((in_python, value), (on_the_command_line, shown))
    )
    assert len(set(tails)) == 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class _More(TrainerConfig):
    coffee: int | None = setting(None, "Cups per epoch (default: none).", minimum=1)
    beans: str = setting("", "File of beans.", path=True, group="Kitchen")
    roast: str = setting("dark", "How.", choices=("dark", "light"))


def test_a_new_field_is_a_flag_with_help_and_a_python_argument():
    more = Command(
        "more", "brews.", [], config_flags(_More, {"Kitchen": [Flag("x", int, 1, "X.")]})
    )
    needed = _REQUIRED[TrainerConfig]
    words = [f"--{name}={value}" for name, value in needed.items()]
    args = more.parse([*words, "--coffee=3", "--beans=~/beans"])
    beans = str(pathlib.Path("~/beans").expanduser())
    assert from_flags(_More, args) == _More(**needed, coffee=3, beans=beans)
    assert "  --coffee=N\n        Cups per epoch (default: none).\n\nKitchen:\n" in more.help()
    assert "Kitchen:\n  --beans=PATH\n        File of beans.\n" in more.help()
    assert "  --roast=dark|light\n        How (default: dark).\n  --x=N\n" in more.help()
    with pytest.raises(UsageError, match=r"^--coffee=0: expected a whole number, at least 1 "):
        more.parse(["--coffee=0"])
    with pytest.raises(UsageError, match=r"^coffee=0: expected a whole number, at least 1 "):
        _More(**needed, coffee=0)


def test_decode_hparams_are_listed_by_the_decoder():
    lines = command("t2t_decoder").help().splitlines()
    for o in settings_of(DecodeHParams).values():
        (line,) = [line for line in lines if line.startswith(f"  {o.name}=")]
        assert line.endswith(o.help), "one line each"


@pytest.mark.parametrize("module", _ALL)
def test_help_is_tidy(module: str):
    of = command(module)
    assert max(map(len, of.help().splitlines())) <= 100
    for flag in of.flags.values():
        assert flag.help[0].isupper(), flag
        assert flag.help.endswith((".", "=VALUE,...", '"')), flag
        if flag.default not in (None, "", False):
            assert "(default:" not in flag.help, flag
        assert flag.bounds or flag.kind not in (int, float), flag
        assert " if not given" not in flag.help.replace("Must agree", ""), flag
