"""The workspace's own programs (examples and binaries), built where a test or a bench runs them."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROFILE_VARIABLE = "MONEDULA_PROGRAMS_PROFILE"
"""Environment variable of `make bench PROFILE=dev`: whether benches run is seen with programs that the tests built."""
BUILD_SECONDS = 1800


class BuildError(Exception):
    """Cargo refused; the text has what it said last."""


def build(*programs: str, release: bool = True) -> list[Path]:
    """Build programs, and say where they are.

    The selection is that of `make test`: with another one cargo picks other features, and compiles what it has anew.

    Args:
        programs: as below `target/release`: `"monedula-broker"`, `"examples/drain"`.
        release: as released. Without it, with the dev profile, as `make test` builds; it may have them already.

    Raises:
        BuildError: they cannot be built.
    """
    profile = ["--release"] if is_released(release) else []
    command = ["cargo", "build", *profile, "--locked", "--workspace", "--exclude", "monedula-python"]
    for program in programs:
        folder, _, name = program.rpartition("/")
        command += ["--example" if folder == "examples" else "--bin", name]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_SECONDS)
    if built.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed:\n{built.stderr[-4000:]}")
    return [path(program, release=release) for program in programs]


def path(program: str, *, release: bool = True) -> Path:
    """Where a program stands once it is built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / ("release" if is_released(release) else "debug") / program


def is_released(wanted: bool) -> bool:
    """Whether a program is built as released, which takes minutes more: unless the environment variable says `dev`."""
    return wanted and os.environ.get(PROFILE_VARIABLE, "release") == "release"
