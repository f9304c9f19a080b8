"""REBALANCING.md: the settings that it names are settings, what it links to is there."""

import re
from pathlib import Path
from typing import Any

import monedula

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "REBALANCING.md").read_text()


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
        assert (ROOT / target).exists(), target
