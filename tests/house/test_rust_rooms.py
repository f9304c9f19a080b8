"""What uses what among the rooms of the embedded broker, and among the modules of a group member."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BROKER = ROOT / "rust/broker/src"
GROUP = ROOT / "rust/engine/src/group"
# A room whose requests, timers or coordinators work on the whole machine, which holds the data of these rooms.
ON_THE_CORE = {"api", "groups", "transactions"}
USE = re.compile(r"\buse\s+([\w:{},*\s]+);")

Module = tuple[str, ...]


def code(path: Path) -> str:
    """The text of a file without comments, strings and its tests."""
    text = re.sub(r"//[^\n]*", "", path.read_text())
    text = re.sub(r'"(?:\\.|[^"\\])*"', '""', text)
    return text.partition("#[cfg(test)]\nmod tests")[0]


def expanded(tree: str) -> Iterator[str]:
    """The paths of a `use`, whose braces may be nested."""
    prefix, brace, rest = re.sub(r"\s+as\s+\w+|\s", "", tree).partition("{")
    if not brace:
        yield prefix
        return
    depth, item = 0, ""
    for character in rest[: rest.rindex("}")] + ",":
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            yield from (prefix + path for path in expanded(item) if item)
            item = ""
        else:
            item += character


def paths_in(text: str, module: Module) -> Iterator[Module]:
    """The modules and items of its own crate that a module names, as paths from the root of the crate."""
    named = [path for tree in USE.findall(text) for path in expanded(tree)]
    for path in named + re.findall(r"\b(?:crate|super)(?:::\w+)+", USE.sub("", text)):
        head, *rest = path.split("::")
        start: Module | None = () if head == "crate" else module if head in ("self", "super") else None
        if start is None:
            continue
        while head == "super":
            start = start[:-1]
            head = rest.pop(0) if rest and rest[0] == "super" else ""
        yield (*start, *rest)


@cache
def arrows(folder: Path) -> set[tuple[str, str]]:
    """Which module in a folder uses which other one, each with all that is below it."""
    base: Module = folder.parts[folder.parts.index("src") + 1 :]
    names = {path.stem if path.is_file() else path.name for path in folder.iterdir()} - {"mod", "lib", "main"}
    root = next(path for path in (folder / "mod.rs", folder / "lib.rs") if path.exists())
    exported = {
        path.split("::")[-1]: path.split("::")[0] for tree in USE.findall(code(root)) for path in expanded(tree)
    }
    found = set()
    for path in folder.rglob("*.rs"):
        inner = path.relative_to(folder).with_suffix("").parts
        module = base + (inner[:-1] if inner[-1] == "mod" else inner)
        if len(module) == len(base) or inner[-1] in ("lib", "main", "tests") or inner[-1].endswith("_tests"):
            continue
        for target in paths_in(code(path), module):
            if target[: len(base)] == base and len(target) > len(base):
                name = target[len(base)]
                found.add((inner[0], name if name in names else exported.get(name, name)))
    return {(one, other) for one, other in found if one != other and other in names}


def rooms() -> dict[str, int]:
    """The line of each room of the broker on its page."""
    page = (ROOT / "docs/design/broker.md").read_text()
    (listed,) = re.findall(r"uses what is in its own line or above it.*?```\n(.*?)```", page, re.DOTALL)
    return {room: line for line, names in enumerate(listed.splitlines()) for room in names.split()}


def test_every_room_of_the_broker_is_on_its_page() -> None:
    files = {path.stem for path in BROKER.iterdir()} - {"lib", "main"}
    assert set(rooms()) == files
    assert {room for arrow in arrows(BROKER) for room in arrow} == files


def test_rooms_of_the_broker_use_what_is_above_them_or_the_core() -> None:
    lines = rooms()
    up = {(one, other) for one, other in arrows(BROKER) if lines[one] < lines[other]}
    assert up == {(room, "core") for room in ON_THE_CORE}


@pytest.mark.parametrize("one", sorted({one for one, _ in arrows(GROUP)}))
def test_no_module_of_a_group_member_is_used_by_what_it_uses(one: str) -> None:
    below, open_ends = set[str](), {one}
    while open_ends:
        user = open_ends.pop()
        new = {used for name, used in arrows(GROUP) if name == user} - below
        below |= new
        open_ends |= new
    assert len(below) > 0
    assert one not in below
