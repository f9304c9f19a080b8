"""The imports of the Python package against the list of its rooms in docs/design/overview.md."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python/monedula"

LATER: Mapping[str, str] = {
    "_filters": "it imports dataclasses, for conditions",
    "_config.msk_iam": "it imports sockets and base64, for logins by a profile of AWS",
    "_asyncio": "asyncio takes longer to import than all of monedula",
    "_logging": "logging is slow to import, and most programs have nothing to say",
    "_migration_hints": "the tables are for names that do not exist",
    "admin": "programs that read or send do without it",
    "assignors": "it imports dataclasses, logging and threading, for assignors of the user's own",
    "cli": "a command starts without what other commands, or only its failures, need",
    "consumer._run": "with workers, for programs that call run",
    "errors": "for names that do not exist",
    "events": "it imports dataclasses, for hooks",
    "formats.schemas": "it needs pyarrow",
    "landing": "it needs pyarrow and a table format's library",
    "prometheus": "it needs prometheus_client",
    "reading": "it needs pyarrow or polars, or is for conditions alone",
    "share._run": "with workers, for programs that call run",
    "spark": "it needs pyspark",
    "testing.registry": "it imports an HTTP server",
    "workers": "it imports dataclasses, for programs that call run",
}
"""The modules that functions import, by how their names begin, and why."""


@cache
def files() -> dict[str, Path]:
    """The package's modules by their names."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(node: ast.AST, in_function: bool = False) -> Iterator[tuple[str, bool]]:
    """The modules of ours that are imported below a node, and whether by a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, in_function) for alias in child.names if alias.name in files())
        elif isinstance(child, ast.ImportFrom) and child.module is not None:
            names = [f"{child.module}.{alias.name}" for alias in child.names]
            wanted = [name if name in files() else child.module for name in names if name != "monedula._monedula"]
            yield from ((name, in_function) for name in wanted if name in files())
        yield from imports(child, in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def arrows() -> dict[str, set[tuple[str, bool]]]:
    """What each module imports, for type checkers and in functions too."""
    return {
        name: {arrow for arrow in imports(ast.parse(path.read_text())) if arrow[0] != name}
        for name, path in files().items()
    }


def reached(start: str) -> set[str]:
    """The modules that one imports, and that these import, and so on."""
    seen: set[str] = set()
    ends = [start]
    while ends:
        new = {target for target, _ in arrows()[ends.pop()]} - seen
        seen |= new
        ends.extend(new)
    return seen


def rooms() -> dict[str, int]:
    """The line of each room on the page."""
    page = (ROOT / "docs/design/overview.md").read_text()
    (listed,) = re.findall(r"circle of more than three files:\n\n```\n(.*?)```", page, re.DOTALL)
    return {room: line for line, names in enumerate(listed.splitlines()) for room in names.split()}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] != "__main__" else "cli" if len(parts) > 1 else "monedula"


def test_every_room_is_on_the_page() -> None:
    assert {room_of(module) for module in files()} == set(rooms())


def test_no_arrow_leads_up() -> None:
    lines = rooms()
    wrong = [
        (module, target)
        for module, targets in arrows().items()
        for target, _ in targets
        if lines[room_of(module)] < lines[room_of(target)]
    ]
    assert wrong == []


def test_no_circle_has_more_than_three_files() -> None:
    behind = {module: reached(module) for module in files()}
    circles = {frozenset(other for other in behind[module] if module in behind[other]) for module in files()}
    assert [sorted(circle) for circle in circles if len(circle) > 3] == []


def test_functions_import_what_is_slow_or_optional() -> None:
    without_reason = [
        (module, target)
        for module, targets in arrows().items()
        for target, in_function in targets
        if in_function and not target.removeprefix("monedula.").startswith(tuple(LATER))
    ]
    assert without_reason == []
    used = {target.removeprefix("monedula.") for targets in arrows().values() for target, inner in targets if inner}
    assert [name for name in LATER if not any(target.startswith(name) for target in used)] == []
