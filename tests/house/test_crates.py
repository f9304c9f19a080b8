"""The arrows between the crates, as docs/design/overview.md draws them, against what cargo resolves."""

import json
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "monedula-"

ARROWS: Mapping[str, set[str]] = {
    "protocol": set(),
    "columns": {"protocol"},
    "formats": {"columns"},
    "engine": {"protocol"},
    "gssapi": set(),
    "client": {"protocol", "columns", "engine", "gssapi"},
    "broker": {"protocol"},
    "python": {"columns", "formats", "engine", "client", "broker"},
}
KEPT_TO = {"pyo3": {"python"}, "tokio": {"client", "broker", "python"}, "zstd-safe": {"protocol"}}


@cache
def dependencies() -> dict[str, set[str]]:
    """The dependencies of each crate of ours, by short name, without development dependencies."""
    if shutil.which("cargo") is None:
        pytest.skip("THE ARROWS BETWEEN CRATES ARE NOT CHECKED: no cargo in PATH")
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60).stdout)
    return {
        package["name"].removeprefix(PREFIX): {
            dependency["name"] for dependency in package["dependencies"] if dependency["kind"] != "dev"
        }
        for package in metadata["packages"]
    }


def test_every_crate_has_its_place() -> None:
    assert set(dependencies()) == set(ARROWS)


@pytest.mark.parametrize("crate", ARROWS)
def test_a_crate_points_only_where_the_design_lets_it(crate: str) -> None:
    ours = {name.removeprefix(PREFIX) for name in dependencies()[crate] if name.startswith(PREFIX)}
    assert ours == ARROWS[crate]


@pytest.mark.req("S153")
def test_the_client_needs_neither_the_broker_nor_a_python_package() -> None:
    needed, open_ends = set(), {"client"}
    while open_ends:
        crate = open_ends.pop()
        needed.add(crate)
        ours = {name.removeprefix(PREFIX) for name in dependencies()[crate] if name.startswith(PREFIX)}
        open_ends |= ours - needed
    assert needed == {"client", "columns", "engine", "gssapi", "protocol"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not project.get("dependencies")
    assert "dependencies" not in project.get("dynamic", [])


@pytest.mark.parametrize("library", KEPT_TO)
def test_a_library_is_kept_to_its_crates(library: str) -> None:
    assert {crate for crate, needed in dependencies().items() if library in needed} <= KEPT_TO[library]
