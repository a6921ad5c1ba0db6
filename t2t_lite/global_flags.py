"""absl's global flags: where the code of user directories finds T2T's, and defines its own.

T2T's commands keep all their flags there. Commands here have sets of their own, and publish the
values for user directories.
"""

from collections.abc import Mapping
from typing import Any

from absl import flags

from t2t_lite import upstream_flags

_LIBRARIES = ("absl.", "tensorflow.")

_ours: dict[str, flags.Flag] = {}  # those that `define` has added


def define(defaults: Mapping[str, Any] | None = None) -> None:
    """Adds T2T's flags, where nobody has defined one of that name; others may define them again.

    Args:
        defaults: further flags, or other defaults than T2T's.
    """
    for name, default in (upstream_flags.defaults() | dict(defaults or {})).items():
        if name not in flags.FLAGS:
            flags.FLAGS[name] = _ours[name] = _flag(name, default)
    flags.FLAGS.mark_as_parsed()


def publish(given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
    """Sets flags, and returns the rest of T2T's to their defaults.

    A flag that is set here keeps its value when a user directory defines it.

    Args:
        given: values by name.
        defaults: as for `define`.
    """
    for name, flag in _ours.items():
        if flags.FLAGS[name] is flag:
            delattr(flags.FLAGS, name)
    _ours.clear()
    define(dict.fromkeys(given) | dict(defaults or {}))
    if "problem" in given:
        given = {"problems": given["problem"], **given}  # T2T before 1.6
    for name, value in given.items():
        setattr(flags.FLAGS, name, value)


def own() -> dict[str, flags.Flag]:
    """Returns the flags that user directories have defined, each under its long name."""
    return {
        name: flags.FLAGS[name]
        for name in flags.FLAGS
        if flags.FLAGS[name] is not _ours.get(name)
        and flags.FLAGS[name].name == name
        and not str(flags.FLAGS.find_module_defining_flag(name)).startswith(_LIBRARIES)
    }


def given() -> dict[str, Any]:
    """Returns what another process needs for `publish`: the values that are not defaults."""
    return {
        name: flag.value for name, flag in (_ours | own()).items() if not flag.using_default_value
    }


def _flag(name: str, default: Any) -> flags.Flag:
    note = "tensor2tensor's flag"
    match default:
        case bool():
            return flags.BooleanFlag(name, default, note, allow_override=True)
        case int():
            parser: flags.ArgumentParser = flags.IntegerParser()
        case float():
            parser = flags.FloatParser()
        case _:
            parser = flags.ArgumentParser()
    return flags.Flag(parser, None, name, default, note, allow_override=True)
