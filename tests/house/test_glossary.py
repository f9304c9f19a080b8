"""docs/glossary.md against the public types of the state machines."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "rust" / "engine" / "src"
TYPE = re.compile(r"^\s*pub (?:struct|enum|trait|type) (\w+)", re.MULTILINE)


def types_of_the_engine() -> set[str]:
    return {name for file in ENGINE.rglob("*.rs") for name in TYPE.findall(file.read_text())}


def test_every_type_of_the_state_machines_stands_in_the_glossary_and_no_other() -> None:
    table = (ROOT / "docs" / "glossary.md").read_text().split("## Types of the state machines")[1]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert rows == sorted(rows), "in the order of the alphabet"
    assert set(rows) == types_of_the_engine()
    assert len(rows) == len(set(rows))
