"""`python -m tests.wheel.version TAG`: whether a tag names the version that the wheels have."""

import sys
import tomllib
from pathlib import Path

CARGO = Path(__file__).resolve().parents[2] / "Cargo.toml"


def complaint(tag: str, version: str) -> str | None:
    """What is wrong with the tag of a release of `version`; `None` if nothing is."""
    if tag == f"v{version}":
        return None
    return f"the tag is {tag!r}, the version in Cargo.toml {version!r}: tag v{version}, or change the version"


def main(arguments: list[str]) -> int:
    """Say what is wrong with the tag, if anything is."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    version = tomllib.loads(CARGO.read_text())["workspace"]["package"]["version"]
    wrong = complaint(arguments[0], version)
    if wrong is not None:
        print(wrong, file=sys.stderr)
    return int(wrong is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
