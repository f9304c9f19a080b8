"""docs/api against the public names, and their docstrings against their signatures."""

import ast
import builtins
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import monedula
import pytest

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "docs/api"
STUB = ast.parse((ROOT / "python/monedula/_monedula.pyi").read_text())
MODULES = (
    "monedula",
    "monedula.admin",
    "monedula.testing",
    "monedula.spark",
    "monedula.formats.schemas",
    "monedula.prometheus",
    "monedula.otel",
    "monedula.assignors",
    "monedula.landing",
    "monedula.events",
)
# A docstring may point to another one that has the same arguments.
ELSEWHERE = re.compile(
    r"(?:^|\. )(?:As|See) `[\w.]+|; (?:arguments.* )?as `[\w.]+|[Aa]rguments.* (?:as|of) `[\w.]+|[Ww]ait like `[\w.]+"
)
# A docstring may begin with its result: "The partitions of a topic."
TELLS_A_RESULT = re.compile(
    r"^(?:The|A|An|All|Always|Whether|How|What|Which|Counters|Every|As)\b|\b(?:[Rr]eturn|[Yy]ield|[Gg]ive)s?\b"
)


def public(module: str) -> list[str]:
    made = import_module(module)
    names = getattr(made, "__all__", None) or [
        name for name, value in vars(made).items() if inspect.isclass(value) and value.__module__ == module
    ]
    return [name for name in names if name != "__version__"]


def told() -> set[str]:
    """The names that the pages of docs/api document, with their modules."""
    names = set()
    for page in API.glob("*.md"):
        text = page.read_text()
        for block in re.findall(r"```\{eval-rst\}\n(.*?)```", text, flags=re.DOTALL):
            module = ""
            for directive, name in re.findall(r"^\.\. (\w+):: ([\w.]+)$", block, flags=re.MULTILINE):
                if directive == "currentmodule":
                    module = name
                elif directive == "automodule":
                    names |= {f"{name}.{member}" for member in public(name)}
                else:
                    names.add(f"{module}.{name}")
    return names


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_stands_in_the_reference(module: str) -> None:
    names = public(module)
    assert names
    # An object that two modules export stands there once.
    documented = {
        id(getattr(import_module(where), name)) for where, _, name in (full.rpartition(".") for full in told())
    }
    assert [name for name in names if id(getattr(import_module(module), name)) not in documented] == []


def test_every_error_stands_in_the_reference() -> None:
    names = [name for name, made in vars(monedula.errors).items() if _is_error(made)]
    assert [name for name in names if f"monedula.errors.{name}" not in told()] == []


def _is_error(made: object) -> bool:
    return inspect.isclass(made) and issubclass(made, Exception) and made.__module__ == "monedula.errors"


def functions() -> Iterator[tuple[str, object]]:
    """Every public function and method, once, with the name by which a program calls it."""
    seen = set()
    for module in MODULES[:-1]:
        for name in public(module):
            if name == "LagListener":  # needs Spark, which calls its methods
                continue
            made = getattr(import_module(module), name)
            members = [(name, made)] if inspect.isroutine(made) else _methods(name, made)
            for where, function in members:
                if id(function) not in seen:
                    seen.add(id(function))
                    yield where, function


def _methods(name: str, made: object) -> list[tuple[str, object]]:
    if not inspect.isclass(made):
        return []
    owners = [owner for owner in made.__mro__ if owner.__module__.startswith("monedula")]
    names = {member for owner in owners for member in vars(owner) if not member.startswith("_")}
    return [(f"{name}.{member}", found) for member in sorted(names) if callable(found := getattr(made, member))]


def parameters(function: object) -> list[str]:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    return [
        name
        for name, parameter in signature.parameters.items()
        if name not in ("self", "cls") and not name.startswith("_") and parameter.kind is not parameter.VAR_POSITIONAL
    ]


def sections(docstring: str) -> dict[str, str]:
    parts = re.split(r"^(Args|Returns|Yields|Raises|Attributes|Examples?):$", docstring, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def result_of(where: str, function: object) -> str:
    """The annotation of the result; of the extension's functions, the stub's."""
    annotation = inspect.signature(function).return_annotation  # type: ignore[arg-type]
    if annotation is inspect.Signature.empty:
        owner = getattr(function, "__objclass__", None)
        return STUBS.get((getattr(owner, "__name__", ""), where.rpartition(".")[2]), "")
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def raised_in(function: object) -> set[str]:
    """The classes of errors that a function of Python raises itself."""
    try:
        source = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    except (TypeError, OSError):
        return set()
    calls = [node.exc for node in ast.walk(source) if isinstance(node, ast.Raise)]
    return {call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}


def is_exception(name: str) -> bool:
    made = getattr(monedula.errors, name, None) or getattr(builtins, name, None)
    return inspect.isclass(made) and issubclass(made, BaseException)


STUBS = {
    (owner.name, member.name): ast.unparse(member.returns)
    for owner in STUB.body
    if isinstance(owner, ast.ClassDef)
    for member in owner.body
    if isinstance(member, ast.FunctionDef) and member.returns is not None
}
FUNCTIONS = dict(functions())


def test_every_argument_is_told() -> None:
    assert len(FUNCTIONS) > 150
    wrong = []
    for where, function in FUNCTIONS.items():
        docstring = inspect.getdoc(function) or ""
        arguments = sections(docstring).get("Args", "")
        summary, code = docstring.partition("\n")[0], " ".join(re.findall(r"`\w+`", docstring))
        # An argument may stand in the sentence: "Remove a callback", or "after `timeout`".
        missing = [
            name
            for name in parameters(function)
            if not re.search(rf"\b{name}:", arguments) and not re.search(rf"\b{name}\b", summary + code)
        ]
        if not docstring or (missing and not ELSEWHERE.search(docstring)):
            wrong.append((where, missing))
    assert not wrong, "\n".join(map(str, wrong))


def test_every_argument_that_is_told_is_there() -> None:
    wrong = [
        (where, name)
        for where, function in FUNCTIONS.items()
        for name in re.findall(
            r"^    \**(\w+):", sections(inspect.getdoc(function) or "").get("Args", ""), re.MULTILINE
        )
        if name not in inspect.signature(function).parameters  # type: ignore[arg-type]
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_every_result_is_told() -> None:
    wrong = []
    for where, function in FUNCTIONS.items():
        docstring = inspect.getdoc(function) or ""
        if result_of(where, function) in ("None", "Self", "") or {"Returns", "Yields"} & sections(docstring).keys():
            continue
        if not TELLS_A_RESULT.search(docstring) and not ELSEWHERE.search(docstring):
            wrong.append((where, docstring.partition("\n")[0]))
    assert not wrong, "\n".join(map(str, wrong))


def test_every_error_that_is_raised_is_told() -> None:
    wrong = []
    for where, function in FUNCTIONS.items():
        docstring = inspect.getdoc(function) or ""
        told_errors = set(re.findall(r"^    (\w+)", sections(docstring).get("Raises", ""), re.MULTILINE))
        if not ELSEWHERE.search(docstring):
            wrong += [(where, name) for name in sorted(raised_in(function) - told_errors)]
        wrong += [(where, name) for name in sorted(told_errors) if not is_exception(name)]
    assert not wrong, "\n".join(map(str, wrong))


def test_completion_offers_the_public_names_and_no_others() -> None:
    names = {name for name in monedula.__all__ if not name.startswith("_")}
    assert {name for name in dir(monedula) if not name.startswith("_")} == names


@pytest.mark.parametrize("module", MODULES[1:])
def test_a_module_needs_no_import_of_its_own(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import monedula; {module}.__name__"], check=True, timeout=60)
