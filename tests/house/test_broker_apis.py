"""Each API of the embedded broker says in its header which versions it has, and what it does not implement."""

import re
from pathlib import Path

import pytest

API = Path(__file__).parents[2] / "rust" / "broker" / "src" / "api"
HANDLERS = sorted(path.stem for path in API.glob("*.rs") if "pub(super) fn handle(" in path.read_text())


@pytest.mark.parametrize("name", HANDLERS)
def test_a_header_says_what_is_not_implemented(name: str) -> None:
    header = re.match(r"(?://!.*\n)+", (API / f"{name}.rs").read_text())
    assert header is not None
    assert re.search(r"\bversions? \d+", header[0]), "which versions"
    assert "//! Not implemented: " in header[0]
