"""docs/rebalancing.md: its settings exist, its links lead somewhere, its figures are the bench's."""

import re
from pathlib import Path
from typing import Any

import monedula

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/rebalancing.md").read_text()
BENCH = (ROOT / "benches/groups/README.md").read_text()


def test_what_it_says_to_set_can_be_set() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    found: dict[str, Any] = {}
    exec(example, found)
    policies = {
        name: settings for name, settings in found.items() if isinstance(settings, dict) and "." in str(settings)
    }
    del policies["__builtins__"]
    assert len(policies) == 4
    for settings in policies.values():
        monedula.Consumer({"bootstrap.servers": "localhost:1", "group.id": "choosing", **settings}).close()


def test_what_it_links_to_is_there() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", GUIDE):
        assert (ROOT / "docs" / target).exists(), target


def test_its_figures_are_those_of_the_bench() -> None:
    _, at_once, slow = BENCH.split("### All restarted, ")
    compared = 0
    for policy, *cells in table(GUIDE, "stopped partition-seconds"):
        for client, stopped in zip(("monedula", "confluent", "java"), cells, strict=True):
            if stopped:
                assert measured(at_once, client, policy)["stopped, p.-s"] == stopped
                compared += 1
    for policy, stopped, gap, disturbed in table(GUIDE, "back after five seconds"):
        found = measured(slow, "monedula", policy)
        assert (found["stopped, p.-s"], found["moved, ms"], found["disturbed"]) == (stopped, gap, disturbed)
        compared += 1
    assert compared == 14


def table(text: str, first: str) -> list[list[str]]:
    """The rows of the table whose heading begins so."""
    lines = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def measured(section: str, client: str, policy: str) -> dict[str, str]:
    """The bench's output for a rolling restart."""
    arm = f"{client}/{'consumer' if policy == 'KIP-848' else policy.strip('`')}"
    heading = [cell.strip() for cell in section[section.index("| | client/policy") :].splitlines()[0].split("|")[1:-1]]
    (row,) = (cells for cells in table(section, "| client/policy") if cells[:2] == ["rolling bounce", arm])
    return dict(zip(heading, row, strict=True))
