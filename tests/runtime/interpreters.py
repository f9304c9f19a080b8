"""The versions of CPython on this machine that the extension supports: one build of the stable ABI fits all."""

import subprocess
import sys
from functools import cache
from pathlib import Path

FIRST, LAST = (3, 11), (3, 14)
_TELL = "import sys; print(sys.implementation.name, *sys.version_info[:2], sys.executable)"


@cache
def interpreters() -> dict[str, str]:
    """An executable of each version, by the version's name."""
    found = {name(sys.version_info[:2]): sys.executable}
    for minor in range(FIRST[1], LAST[1] + 1):
        version = (FIRST[0], minor)
        executable = None if name(version) in found else _find(version)
        if executable is not None:
            found[name(version)] = executable
    return found


def name(version: tuple[int, int]) -> str:
    """The version as text: `3.11`."""
    return f"{version[0]}.{version[1]}"


def _find(version: tuple[int, int]) -> str | None:
    directories = [Path("/usr/bin"), Path("/usr/local/bin"), *(Path.home() / ".pyenv/versions").glob("*/bin")]
    for directory in directories:
        executable = directory / f"python{name(version)}"
        if executable.exists() and _is(str(executable), version):
            return str(executable)
    return None


def _is(executable: str, version: tuple[int, int]) -> bool:
    ran = subprocess.run([executable, "-c", _TELL], capture_output=True, text=True, check=False)
    return ran.stdout.split()[:3] == ["cpython", *map(str, version)]
