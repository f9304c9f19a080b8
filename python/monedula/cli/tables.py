"""Tables: drawn with rich on a terminal, and as lines for programs in a pipe."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from monedula.cli.rendering import escaped
from monedula.cli.running import say

if TYPE_CHECKING:
    from rich.table import Table

AsJson = Annotated[bool, Option("--json", help="One JSON object a line.")]
Headings = Annotated[bool, Option("--headings", help="In a pipe too, begin with the names of the columns.")]

Row = Sequence[object]

_HAS_HEADINGS: ContextVar[bool] = ContextVar("headings", default=False)

# Widths that rich puts between two columns, and at both edges together.
_GAP = 3
_EDGES = 2


@contextmanager
def headings(wanted: bool) -> Iterator[None]:
    """Let tables begin with the names of their columns, in a pipe too, until the end of the block."""
    before = _HAS_HEADINGS.set(wanted)
    try:
        yield
    finally:
        _HAS_HEADINGS.reset(before)


def heading_of(names: Sequence[str], as_json: bool) -> str:
    """The line of names before rows for programs; empty if none is wanted, and for JSON, whose rows have them."""
    return "" if as_json or not _HAS_HEADINGS.get() else line_of(names, names, as_json=False)


def show(names: Sequence[str], rows: Iterable[Row], as_json: bool = False, *, spare: Sequence[str] = ()) -> None:
    """Write a table to standard output: drawn on a terminal, otherwise tab-separated, without a header unless asked.

    Args:
        names: the column names; with JSON they are the keys.
        rows: the rows; a cell is a text, a number, a boolean, a sequence of these, or `None`.
        as_json: write JSON lines instead.
        spare: columns that a terminal which is too narrow does without, the first one first.
    """
    if as_json or not sys.stdout.isatty():
        sys.stdout.write(heading_of(names, as_json))
        sys.stdout.write("".join(line_of(names, row, as_json) for row in rows))
        sys.stdout.flush()
        return
    from rich.console import Console

    console = Console()
    rows = list(rows)
    if _width(names, rows, broken=False) <= console.width:
        console.print(drawn(names, rows))
        return
    kept, fitting, left_out = fit(names, rows, spare, console.width)
    console.print(drawn(kept, fitting, broken=True))
    if left_out:
        hidden = ", ".join(name.replace("_", " ") for name in left_out)
        say(f"not shown: {hidden} (--json has them)")


def fit(
    names: Sequence[str], rows: Sequence[Row], spare: Sequence[str], width: int
) -> tuple[list[str], list[Row], list[str]]:
    """The columns and rows that fit into `width` with broken headings, and the spare columns left out for that."""
    kept, left_out = list(range(len(names))), []
    for name in spare:
        if _width([names[column] for column in kept], [[row[column] for column in kept] for row in rows]) <= width:
            break
        kept.remove(names.index(name))
        left_out.append(name)
    return [names[column] for column in kept], [[row[column] for column in kept] for row in rows], left_out


def _width(names: Sequence[str], rows: Sequence[Row], *, broken: bool = True) -> int:
    """The width of a table, with its headings on one line each or broken between words."""
    columns = (_column_width(name, [row[column] for row in rows], broken) for column, name in enumerate(names))
    return sum(columns) + _GAP * (len(names) - 1) + _EDGES


def _column_width(name: str, cells: Sequence[object], broken: bool) -> int:
    heading = max(map(len, name.split("_"))) if broken else len(name)
    return max([heading, *(len(_cell(value, "-")) for value in cells)])


def line_of(names: Sequence[str], row: Row, as_json: bool) -> str:
    """A row as a line for programs: JSON, or tab-separated."""
    if as_json:
        return json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=list) + "\n"
    return "\t".join(_cell(value, "") for value in row) + "\n"


def drawn(names: Sequence[str], rows: Sequence[Row], title: str | None = None, *, broken: bool = False) -> "Table":
    """A rich table for a terminal; with `broken`, headings break between words rather than widen their column."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column, name in enumerate(names):
        numbers = bool(rows) and all(isinstance(row[column], int | float | None) for row in rows)
        justify: Any = "right" if numbers else "left"
        widest = _column_width(name, [row[column] for row in rows], broken)
        heading = "\n".join(wrap(name.replace("_", " "), widest, break_long_words=False))
        table.add_column(Text(heading), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value, "-")) for value in row))
    return table


def _cell(value: object, nothing: str) -> str:
    if value is None:
        return nothing
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, str | int):
        return escaped(str(value))
    return ",".join(_cell(item, nothing) for item in value) if isinstance(value, Iterable) else escaped(str(value))
