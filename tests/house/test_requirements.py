"""docs/requirements.md has one line for each id that a test names, and no line that no test names."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/requirements.md"
LINE = re.compile(r"^- \*\*(\w+)\*\* \S", flags=re.MULTILINE)
COMMENT = re.compile(r"^\s*// req:(.*)$", flags=re.MULTILINE)


def in_python(source: str) -> Iterator[str]:
    """Ids in markers, and in scenarios, which become markers; a text or comment that quotes one names nothing."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        given: list[ast.expr] = []
        match call.func:
            case ast.Attribute(value=ast.Attribute(attr="mark"), attr="req"):
                given = call.args
            case ast.Name(id="scenario"):
                given = [keyword.value for keyword in call.keywords if keyword.arg == "reqs"]
        for argument in given:
            for part in ast.walk(argument):
                if isinstance(part, ast.Constant):
                    yield str(part.value)


def in_rust(source: str) -> Iterator[str]:
    for named in COMMENT.findall(source):
        yield from re.split(r"[,\s]+", named.strip())


def named() -> dict[str, list[str]]:
    """Each id with the files whose tests name it."""
    files: dict[str, list[str]] = defaultdict(list)
    for folder, pattern, ids in (("tests", "*.py", in_python), ("rust", "*.rs", in_rust)):
        for path in sorted((ROOT / folder).rglob(pattern)):
            for each in sorted(set(ids(path.read_text()))):
                files[each].append(str(path.relative_to(ROOT)))
    return files


def lines() -> Counter[str]:
    """How many lines of the page each id has."""
    return Counter(LINE.findall(PAGE.read_text()))


def test_every_id_that_a_test_names_has_a_line() -> None:
    listed = lines()
    assert {each: files for each, files in named().items() if each not in listed} == {}


def test_no_id_has_two_lines() -> None:
    assert {each: count for each, count in lines().items() if count > 1} == {}


def test_every_line_is_proved_by_a_test() -> None:
    proved = named()
    assert [each for each in lines() if each not in proved] == []
