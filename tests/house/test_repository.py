"""Rules for the content of the repository."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCTS = re.compile(r"(^|/)(target|dist|__pycache__|\.venv|\.cache)/|\.(so|pyd|dylib|dll|pyc|whl|jar|class)$")


def tracked() -> list[str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("WHAT IS TRACKED IS NOT CHECKED: no git, or no clone")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    return listed.stdout.splitlines()


def test_no_build_product_is_tracked() -> None:
    assert [path for path in tracked() if PRODUCTS.search(path)] == []


def test_the_licence_is_whole() -> None:
    licence = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
