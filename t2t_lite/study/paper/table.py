"""A table that states the origin of every column, as text, Markdown or JSON."""

import dataclasses
import json
from collections.abc import Sequence

CellValue = str | int | float | None

FORMATS = ("text", "markdown", "json")


@dataclasses.dataclass(frozen=True)
class Column:
    """One column.

    Args:
        name: its heading.
        origin: "published", "computed" or "measured"; "" if it has no figures.
        spec: format specification of its numbers.
        command: the command that produces its figures here.
    """

    name: str
    origin: str = ""
    spec: str = ""
    command: str = ""

    def write(self, value: CellValue) -> str:
        """Returns `value` as text; "" if there is none."""
        if value is None or isinstance(value, str):
            return value or ""
        return format(value, self.spec)

    @property
    def is_text(self) -> bool:
        """Whether the column is left-aligned."""
        return not self.origin


@dataclasses.dataclass(frozen=True)
class Table:
    """A titled table with notes.

    Args:
        title: the title.
        columns: from left to right.
        rows: one value per column.
        notes: sentences below the table.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[CellValue]]
    notes: Sequence[str] = ()

    def render(self, form: str) -> str:
        """Returns the table in one of `FORMATS`, without a line break at the end."""
        return {"text": self.text, "markdown": self.markdown, "json": self.json}[form]()

    def text(self) -> str:
        """Returns the table as text with aligned columns."""
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
        """Returns the table in GitHub's Markdown."""
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
        """Returns title, columns, rows by column name, and notes as JSON."""
        names = [column.name for column in self.columns]
        whole = {
            "title": self.title,
            "columns": [dataclasses.asdict(column) for column in self.columns],
            "rows": [dict(zip(names, row, strict=True)) for row in self.rows],
            "notes": list(self.notes),
        }
        return json.dumps(whole, indent=1, ensure_ascii=False)

    def _grid(self) -> list[list[str]]:
        """Returns all cells as text: names, origins, rows."""
        return [
            [column.name for column in self.columns],
            [column.origin for column in self.columns],
            *(
                [column.write(value) for column, value in zip(self.columns, row, strict=True)]
                for row in self.rows
            ),
        ]

    def _beneath(self) -> list[str]:
        """Returns each command with its columns, then the notes."""
        by_command: dict[str, list[str]] = {}
        for column in self.columns:
            if column.command:
                by_command.setdefault(f"{column.origin}: {column.command}", []).append(column.name)
        return [f"{'; '.join(names)}, {how}" for how, names in by_command.items()] + [*self.notes]
