"""A table whose every column says where its figures come from, as text, Markdown or JSON."""

import dataclasses
import json
from collections.abc import Sequence

Value = str | int | float | None

FORMATS = ("text", "markdown", "json")


@dataclasses.dataclass(frozen=True)
class Column:
    """One column.

    Args:
        name: its head.
        origin: "published", "computed" or "measured"; "" for what is no figure.
        spec: how numbers are written, a format specification.
        command: what makes its figures here.
    """

    name: str
    origin: str = ""
    spec: str = ""
    command: str = ""

    def write(self, value: Value) -> str:
        """Returns `value` as a cell shows it; "" if there is none."""
        if value is None or isinstance(value, str):
            return value or ""
        return format(value, self.spec)

    @property
    def is_text(self) -> bool:
        """Whether it is set flush left."""
        return not self.origin


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows under columns.

    Args:
        title: what the table is.
        columns: from left to right.
        rows: as many values each.
        notes: sentences beneath.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    notes: Sequence[str] = ()

    def render(self, form: str) -> str:
        """Returns the table in one of `FORMATS`, without a line break at the end."""
        return {"text": self.text, "markdown": self.markdown, "json": self.json}[form]()

    def text(self) -> str:
        """Returns aligned columns."""
        grid = self._grid()
        widths = [max(map(len, cells)) for cells in zip(*grid, strict=True)]
        lines = []
        for cells in grid:
            aligned = [
                cell.ljust(width) if column.is_text else cell.rjust(width)
                for cell, width, column in zip(cells, widths, self.columns, strict=True)
            ]
            lines.append("  ".join(aligned).rstrip())
        lines.insert(2, "-" * max(map(len, lines)))
        return "\n".join([self.title, "", *lines, "", *self._beneath()])

    def markdown(self) -> str:
        """Returns a table of GitHub's Markdown."""
        names, origins, *rows = self._grid()
        head = [
            f"{name} ({origin})" if origin else name
            for name, origin in zip(names, origins, strict=True)
        ]
        rule = ["---" if column.is_text else "---:" for column in self.columns]
        lines = [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]
        beneath = [f"- {line}" for line in self._beneath()]
        return "\n".join([f"**{self.title}**", "", *lines, "", *beneath])

    def json(self) -> str:
        """Returns title, columns, rows by the columns' names, and notes."""
        names = [column.name for column in self.columns]
        whole = {
            "title": self.title,
            "columns": [dataclasses.asdict(column) for column in self.columns],
            "rows": [dict(zip(names, row, strict=True)) for row in self.rows],
            "notes": list(self.notes),
        }
        return json.dumps(whole, indent=1, ensure_ascii=False)

    def _grid(self) -> list[list[str]]:
        """All cells as text: names, origins, rows."""
        return [
            [column.name for column in self.columns],
            [column.origin for column in self.columns],
            *(
                [column.write(value) for column, value in zip(self.columns, row, strict=True)]
                for row in self.rows
            ),
        ]

    def _beneath(self) -> list[str]:
        """The commands of the columns, each once with its columns, and the notes."""
        by_command: dict[str, list[str]] = {}
        for column in self.columns:
            if column.command:
                by_command.setdefault(f"{column.origin}: {column.command}", []).append(column.name)
        return [f"{'; '.join(names)}, {how}" for how, names in by_command.items()] + [*self.notes]
