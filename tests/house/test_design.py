"""Compares the paths in docs/design/file-map.md with the files, and looks for the headers that it sends readers to."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "docs/design/file-map.md"


def test_every_path_on_the_page_exists() -> None:
    paths = re.findall(r"`((?:rust|python|tests|benches)/[\w./-]*)`", MAP.read_text())
    assert len(paths) > 50
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_folder_of_tests_is_on_the_page() -> None:
    text = MAP.read_text()
    folders = sorted(path.name for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists())
    assert len(folders) > 10
    assert [name for name in folders if f"`tests/{name}/" not in text] == []


def test_every_room_has_a_header() -> None:
    rooms = [*(ROOT / "rust").glob("*/src/**/mod.rs"), *(ROOT / "python").rglob("__init__.py")]
    assert len(rooms) > 60
    assert [str(room) for room in rooms if not room.read_text().startswith(("//! ", '"""'))] == []
