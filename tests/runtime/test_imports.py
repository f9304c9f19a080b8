"""`import monedula`: what it does without, and that names of first use are there."""

import subprocess
import sys

import monedula
import pytest

SLOW = (
    "asyncio",
    "dataclasses",
    "inspect",
    "ipaddress",
    "json",
    "logging",
    "pathlib",
    "random",
    "socket",
    "urllib.parse",
)
"""Modules that each take longer to import than most of ours."""


def ran(program: str) -> list[str]:
    """The words that a Python of its own prints, without `site`, whose .pth files may import anything."""
    paths = [path for path in sys.path if path]
    program = f"import sys; sys.path[:] = {paths!r}; {program}"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def test_an_import_brings_nothing_slow_that_few_need() -> None:
    program = f"import monedula; print(*(name for name in {SLOW} if name in sys.modules))"
    assert ran(program) == []


def test_asynchronous_clients_are_imported_on_first_use() -> None:
    program = (
        "import monedula; print('monedula.consumer.aio' in sys.modules); monedula.AsyncConsumer, monedula.AsyncProducer"
    )
    assert ran(f"{program}; print('monedula.producer.aio' in sys.modules)") == ["False", "True"]


@pytest.mark.parametrize("name", [name for name in monedula.__all__ if name not in ("Delta", "Iceberg")])
def test_every_name_is_there(name: str) -> None:
    assert getattr(monedula, name) is getattr(monedula, name)
