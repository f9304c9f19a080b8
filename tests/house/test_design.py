"""Compares the map in docs/design/file-map.md with the files."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "docs/design/file-map.md"
ROW = re.compile(r"^\| (`.*?) \| (.*) \|$", flags=re.MULTILINE)
NAME = re.compile(r"`([\w./-]+)`")
ROOMS = tuple(
    f"rust/{room}/src" for room in ("protocol", "columns", "formats", "engine", "gssapi", "client", "broker", "python")
)


def mapped() -> set[str]:
    """Every path of the file map; a bare name is in the folder of the path before it."""
    paths = set()
    for where, _ in ROW.findall(MAP.read_text()):
        folder = ""
        for name in NAME.findall(where):
            path = name if "/" in name else folder + name
            folder = path[: path.rindex("/") + 1]
            paths.add(path)
    return paths


def test_every_path_of_the_map_exists() -> None:
    assert [path for path in sorted(mapped()) if not (ROOT / path).exists()] == []


def test_every_path_on_the_page_exists() -> None:
    paths = re.findall(r"`((?:rust|python|tests|benches)/[\w./-]*)`", MAP.read_text())
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_source_file_of_the_core_is_on_the_map() -> None:
    paths = mapped()
    folders = tuple(path for path in paths if path.endswith("/"))
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.rs")]
    missing = [
        name
        for name in sorted(str(path.relative_to(ROOT)) for path in files)
        if name not in paths and not name.startswith(folders) and not name.endswith(("/lib.rs", "_tests.rs"))
    ]
    assert missing == []


def test_every_folder_of_tests_is_on_the_map() -> None:
    text = MAP.read_text()
    folders = sorted(path.name for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists())
    assert len(folders) > 10
    assert [name for name in folders if f"`tests/{name}/" not in text] == []
