"""What `--registry_help` prints."""

from collections.abc import Iterator

from t2t_lite import registry


def registry_help() -> str:
    """Returns a list of everything registered, grouped by the first word of the name."""
    lines = ["Registry contents:"]
    for title, names in registry.contents().items():
        if names:
            lines += ["", f"  {title}:"]
            lines += [f"    {line}" for line in _grouped(names)]
    if refused := registry.list_refused_models():
        lines += ["", "  Models of the user directory that do not run here:"]
        lines += [f"    * {name}" for name in refused]
    return "\n".join(lines)


def _grouped(names: list[str]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.split("_")[0], []).append(name)
    for prefix, members in groups.items():
        yield f"{prefix}:"
        yield from (f"  * {name}" for name in members)
