"""T2T's registrations."""

import functools
import logging
from collections.abc import Callable
from typing import Any

from t2t_lite import registry
from t2t_lite.errors import UsageError, quoted
from t2t_lite.interop.t2t.adapter import ProblemAdapter
from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.interop.t2t.modalities import Modalities
from t2t_lite.interop.t2t.ranges import of_settings
from t2t_lite.names import snake_case
from t2t_lite.registry import (
    list_hparams,
    list_models,
    list_problems,
    list_ranged_hparams,
    ranged_hparams,
)
from t2t_lite.settings import HParams as Settings

__all__ = [
    "Modalities",
    "default_name",
    "hparams",
    "list_hparams",
    "list_models",
    "list_problems",
    "list_ranged_hparams",
    "problem",
    "ranged_hparams",
    "register_base_problem",
    "register_hparams",
    "register_model",
    "register_problem",
    "register_ranged_hparams",
]

log = logging.getLogger(__name__)


def default_name(class_or_fn: Any) -> str:
    """Returns the name under which a class or function is registered by default."""
    return snake_case(class_or_fn.__name__)


def hparams(name: str) -> HParams:
    """Returns the registered set."""
    return HParams.of(registry.hparams(name))


def problem(name: str) -> Any:
    """Returns the problem with this name: the user's object, or this package's."""
    found = registry.problem(name)
    return found.upstream if isinstance(found, ProblemAdapter) else found


def _bare_or_named(register: Callable[[str, Any], Any]) -> Callable[..., Any]:
    """Returns a decorator that is used bare or with a name, from a function of name and value."""

    @functools.wraps(register)
    def decorator(name: Any = None) -> Any:
        if callable(name):
            return decorator()(name)

        def decorated(value: Any) -> Any:
            if not callable(value):
                raise UsageError(
                    f"{register.__name__}: expected a function or class, got {quoted(value)}"
                )
            return register(name or default_name(value), value)

        return decorated

    return decorator


@_bare_or_named
def register_problem(name: str, cls: Any) -> Any:
    """Registers a problem class, bare or with a name; a user's replaces this package's own."""
    _make_room("problem", name)
    return registry.register_problem(name)(cls)


register_base_problem = register_problem  # in T2T, too


@_bare_or_named
def register_hparams(name: str, function: Any) -> Any:
    """Registers a function that returns `HParams`; a user's replaces this package's own."""
    _make_room("hparams set", name)
    registry.register_hparams(name)(_returning_settings(function, name))
    return function


@_bare_or_named
def register_model(name: str, cls: Any) -> Any:
    """Returns the class; choosing its model is an error: T2T's models do not run here."""
    message = getattr(cls, "message", f"{cls.__module__}.{cls.__name__} is a model of T2T's")
    registry.refuse_model(name, f"model {name!r} does not run here: {message}")
    return cls


@_bare_or_named
def register_ranged_hparams(name: str, function: Any) -> Any:
    """Registers a function that sets ranges for a search; a user's replaces this package's own."""
    _make_room("hparams range", name)
    registry.register_ranged_hparams(name)(of_settings(function))
    return function


def _make_room(kind: str, name: str) -> None:
    if registry.release(kind, name):
        log.info("%s %s: the user directory's replaces t2t_lite's", kind, name)


def _returning_settings(function: Callable[[], Any], name: str) -> Callable[[], Settings]:
    @functools.wraps(function)
    def made() -> Any:
        returned = function()
        return returned.to_settings(name) if isinstance(returned, HParams) else returned

    return made
