"""What a tag publishes: `python -m tests.wheel.release dist` looks at a built wheel and source distribution.

The changelog has a section of the version; PyPI shows the description; a wheel that is built from the source
distribution alone works; each `pip install` of README.md and docs/ does what its page says. It needs the package index.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TWINE = "twine==6.2.0"
COMMAND = re.compile(r"pip install [\"']?((?:\.|monedula)(?:\[[a-z,]+\])?)(?=[\s\"'`]|$)", flags=re.MULTILINE)
IMPORTS = {
    "arrow": "pyarrow",
    "aws": "botocore",
    "cli": "monedula.cli",
    "delta": "monedula.landing",
    "iceberg": "monedula.landing",
    "otel": "monedula.otel",
    "pandas": "pandas, pyarrow",
    "polars": "polars",
    "prometheus": "monedula.prometheus",
    "spark": "pyspark_monedula",
}
"""What is to be had with an extra."""


def requirements() -> list[str]:
    """What the pages install: `.` is a checkout. Of `monedula` alone they say that it is not there yet."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {each.strip("`\"',);") for page in pages for each in COMMAND.findall(page.read_text())}
    return sorted(found - {"monedula"})


def extras(requirement: str) -> Iterator[str]:
    """The extras of a requirement."""
    yield from re.findall(r"[a-z]+", requirement.partition("[")[2])


def clean(folder: Path) -> Path:
    """A clean environment; its interpreter."""
    venv.create(folder, with_pip=True)
    return folder / "bin/python"


def pip(python: Path, *arguments: str) -> None:
    """Run pip."""
    subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments], check=True, timeout=3600
    )


def try_pages(wheel: Path, folder: Path) -> None:
    """Run each command of the pages with the wheel in place of the checkout, and import what it is for."""
    for number, requirement in enumerate(requirements()):
        python = clean(folder / str(number))
        if requirement.startswith("monedula"):  # what is installed stays, and its extra comes
            pip(python, "install", str(wheel))
            pip(python, "install", requirement)
        else:
            pip(python, "install", f"{wheel}{requirement[1:]}")
        modules = ["monedula", *(IMPORTS[extra] for extra in extras(requirement))]
        subprocess.run([python, "-I", "-c", f"import {', '.join(modules)}"], cwd=folder, check=True, timeout=60)
        print(f"pip install {requirement}: {', '.join(modules)}", flush=True)


def look_at_changelog() -> None:
    """The changelog has a section of the version in Cargo.toml."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    found = re.search(rf"^## {re.escape(version)} \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section '## {version} (date)'")
    print(f"version {version}: {found[1]}", flush=True)


def main(dist: Path) -> None:
    """Look at the files of a folder, or say what is wrong with them."""
    look_at_changelog()
    (wheel,), (source,) = dist.glob("monedula-*.whl"), dist.glob("monedula-*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="monedula-release-") as name:
        folder = Path(name)
        python = clean(folder / "twine")
        pip(python, "install", TWINE)
        subprocess.run([python, "-m", "twine", "check", "--strict", wheel, source], check=True, timeout=60)
        try_pages(wheel, folder)
        pip(python, "wheel", "--no-deps", "--wheel-dir", str(folder / "from-sdist"), str(source))
        subprocess.run(
            [sys.executable, "-m", "tests.wheel", "--no-kafka", folder / "from-sdist"], check=True, timeout=600
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
