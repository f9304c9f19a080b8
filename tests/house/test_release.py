"""What a release has: a section of the changelog, notices for what is linked, commands that can be run, a picture."""

import json
import re
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from benches.picture import drawn
from tests.wheel import release

ROOT = Path(__file__).resolve().parents[2]


def test_the_changelog_has_a_section_of_the_version() -> None:
    release.look_at_changelog()


def test_commands_of_the_pages_name_extras_that_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert release.IMPORTS.keys() == extras.keys() - {"all"}
    requirements = release.requirements()
    assert {".", ".[spark]", "monedula[spark]"} <= set(requirements)
    assert {extra for each in requirements for extra in release.extras(each)} <= release.IMPORTS.keys()


def test_sizes_of_extras_are_those_that_are_installed() -> None:
    """Of what the tests have installed, to a tenth, and to 1 MB."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", (ROOT / "docs/installing.md").read_text(), re.MULTILINE)
    assert {extra for extra, _ in rows} == extras.keys() - {"all"}
    for extra, told in rows:
        size = sum(installed_bytes(extras[extra], {}).values()) / 1e6
        assert abs(size - int(told)) <= max(1.0, size / 10), f"{extra}: {size:.0f} MB"


def installed_bytes(wanted: list[str], found: dict[str, int]) -> dict[str, int]:
    """The size of each distribution that is installed for these requirements, without bytecode."""
    for requirement in map(Requirement, wanted):
        if requirement.name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        files = [Path(str(file.locate())) for file in distribution(requirement.name).files or ()]
        found[requirement.name] = sum(file.stat().st_size for file in files if file.suffix != ".pyc" and file.is_file())
        installed_bytes(distribution(requirement.name).requires or [], found)
    return found


def test_each_linked_crate_has_a_notice() -> None:
    command = ["cargo", "tree", "--locked", "--package", "monedula-python", "--edges", "normal", "--prefix", "none"]
    targets = tomllib.loads((ROOT / "rust/about.toml").read_text())["targets"]
    command += [option for target in targets for option in ("--target", target)]
    tree = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    linked = {line.split()[0] + line.split()[1].replace("v", " ", 1) for line in tree.splitlines() if line}
    notices = (ROOT / "THIRD-PARTY-NOTICES.txt").read_text()
    named = set(re.findall(r"^  (\S+ \d\S*)$", notices, re.MULTILINE))
    assert {each for each in linked if not each.startswith("monedula-")} <= named, "make notices"
    assert len(named) > 100


def test_the_picture_is_that_of_the_results() -> None:
    results = json.loads((ROOT / "benches/results/reading.json").read_text())
    assert (ROOT / "docs/reading.svg").read_text() == drawn(results) + "\n"
