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


WITHOUT_EXTRAS = """
import inspect, pydoc
from importlib.machinery import PathFinder

found = PathFinder.find_spec
extras = ("pyarrow", "deltalake", "pyiceberg", "opentelemetry", "pyspark")
PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in extras else found(name, *rest)

import monedula
from monedula import *
print("land" in monedula.__all__, "Consumer" in pydoc.render_doc(monedula), len(inspect.getmembers(monedula)) > 30)
print(any(hasattr(monedula, name) for name in ("Delta", "land", "otel")))
for error, tried in ((ImportError, "from monedula import Iceberg"), (AttributeError, "monedula.land")):
    try:
        exec(tried)
    except error as raised:
        print(raised)
"""


def test_without_extras_the_other_names_are_listed_and_these_say_what_brings_them() -> None:
    said = " ".join(ran(f"exec({WITHOUT_EXTRAS!r})"))
    needs = "needs pyarrow, which is not installed: pip install"
    assert said == (
        f"False True True False monedula.Iceberg {needs} 'monedula[iceberg]' monedula.land {needs} 'monedula[delta]'"
    )
