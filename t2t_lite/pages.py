"""Renders HTML pages from templates, which are beside the modules that use them."""

import importlib.resources
from typing import Any


def render(name: str, **values: Any) -> str:
    """Renders a template; every value is escaped, unless the template marks it as safe.

    Args:
        name: path of the template within t2t_lite, such as "study/reports/report.html".
        **values: the template's variables.
    """
    import jinja2  # here, because listing names and flags does not need it

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # as small as possible
    return environment.get_template(name).render(values)


def _source(name: str) -> str:
    return importlib.resources.files("t2t_lite").joinpath(name).read_text(encoding="utf-8")
