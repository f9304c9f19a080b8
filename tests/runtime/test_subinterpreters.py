"""A sub-interpreter cannot have what belongs to the process, and is told so at once."""

from tests.runtime.script import run

IMPORT = """
try:
    import monedula
except ImportError as error:
    print(error, flush=True)
"""
CODE = """
import {module} as interpreters

interpreter = interpreters.create()
interpreters.run_string(interpreter, {script!r})
interpreters.destroy(interpreter)
with monedula.Producer(bootstrap_servers="127.0.0.1:1") as producer:
    print(producer.health()["brokers"])
"""


def module() -> str:
    """What Python's library for sub-interpreters is called in this version."""
    import sys

    return "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"


def test_the_import_is_refused() -> None:
    said = "monedula cannot be imported in a sub-interpreter: its connections and threads belong to the whole process."
    assert run(CODE.format(module=module(), script=IMPORT)).startswith(said)


def test_one_that_tries_first_does_not_keep_the_main_interpreter_from_it() -> None:
    before = CODE.format(module=module(), script=IMPORT).partition("with monedula")[0]
    assert run("print(len(monedula.__all__) > 10)", before=before).endswith("True\n")
