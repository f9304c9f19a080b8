"""Advice for users of other clients: the equivalents of their settings, methods and arguments.

`settings` and `calls` are the tables; `docs/migration/` shows the same in full. They are imported on the first unknown
name, so nobody else pays for them.
"""

import re
from collections.abc import Callable, Iterable
from functools import update_wrapper, wraps
from sys import modules
from types import CellType, FunctionType
from typing import Any, NoReturn, TypeVar, cast

from monedula.errors import ConfigError

T = TypeVar("T")

CO_COROUTINE = 0x80
"""`inspect.CO_COROUTINE`, without the import of `inspect`, which takes longer than all of this package."""

_CAMEL = re.compile(r"(?<=[a-z])([A-Z])")


_ARGUMENTS = {
    "acknowledge": "ShareConsumer(settings, acknowledge='explicit')",
    "assignors": "Consumer(settings, assignors=[...])",
    "columns": "Consumer(settings, columns=['key', 'value'])",
    "headers": "Consumer(settings, headers=True)",
    "key": "Consumer(settings, key=monedula.Json(schema))",
    "on_event": "Consumer(settings, on_event=f)",
    "value": "Consumer(settings, value=monedula.Json(schema))",
}
"""Arguments of our own clients, for users who put them into the dict of settings."""


def refuse_settings(names: Iterable[str], client: str = "Consumer") -> None:
    """Refuse settings of other clients that this one does not have."""
    from monedula._migration_hints.settings import OF_SHARE_CONSUMER

    is_share = client == "ShareConsumer"
    for name in names:
        dotted = name.strip().replace("_", ".")
        if is_share and dotted in OF_SHARE_CONSUMER:
            raise ConfigError(f"{name} is no setting of a share consumer; here: {OF_SHARE_CONSUMER[dotted]}", key=name)
        if name in _ARGUMENTS:
            advice = _of_client(_ARGUMENTS[name], is_share)
            raise ConfigError(f"{name} is no setting, but an argument beside the settings: {advice}", key=name)
        told = advice_for(dotted)
        if told is not None:
            raise ConfigError(f"{name} is a setting of other clients; here: {_of_client(told, is_share)}", key=name)


def _of_client(advice: str, is_share: bool) -> str:
    return re.sub(r"\bConsumer\(", "ShareConsumer(", advice) if is_share else advice


def advice_for(name: str) -> str | None:
    """Return the replacement for a setting of another client, by its dotted name; `None` if no client has it."""
    from monedula._migration_hints.settings import PREFIXES, SETTINGS

    return SETTINGS.get(name) or next((told for prefix, told in PREFIXES.items() if name.startswith(prefix)), None)


def no_attribute(of: object, name: str, kind: type | None = None) -> AttributeError:
    """Make the error of an attribute that our object does not have, with the replacement if another client has it."""
    kind = kind or type(of)
    plain = f"{type(of).__name__!r} object has no attribute {name!r}"
    advice = None if name.startswith("_") else _advice_on(kind, name)
    if advice is not None:
        return AttributeError(f"{plain}; here: {advice}")
    # Python suggests the attribute with the most similar name if it gets these arguments.
    return AttributeError(plain, name=name, obj=of)


def _advice_on(kind: type, name: str) -> str | None:
    from monedula._migration_hints.calls import CALLS

    table = CALLS.get(kind.__name__.removeprefix("Async"), {})
    snake = _CAMEL.sub(lambda letter: f"_{letter[1].lower()}", name)
    if snake != name and hasattr(kind, snake):
        return snake  # a method of Java's client
    return table.get(name) or table.get(snake)


def no_name(module: str, name: str, *, is_imported: bool, elsewhere: Iterable[str] = ()) -> Exception:
    """Make the error of a name that our module does not have, with the replacement if another client has it.

    Args:
        module: the module.
        name: the name.
        is_imported: true for `from monedula import name`, which replaces an `AttributeError` by an error without the
            hint.
        elsewhere: full names of the objects in other modules.
    """
    plain = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(plain)
    from monedula._migration_hints.names import NAMES

    advice = NAMES.get(name) or (f"{elsewhere}.{name}" if elsewhere else None)
    if advice is None:
        # Python suggests the most similar name if it gets these arguments.
        return AttributeError(plain, name=name, obj=modules[module])
    if is_imported:
        return ImportError(f"cannot import name {name!r} from {module!r}; here: {advice}", name=module)
    return AttributeError(f"{plain}; here: {advice}")


def no_argument(method: str, keywords: Iterable[str], foreign: dict[str, str] | None = None) -> TypeError:
    """Make the error of keywords that a method does not take, of which there is at least one.

    Args:
        method: its name.
        keywords: the keywords.
        foreign: the replacements, by keyword; those of all methods of this name if left out.
    """
    from monedula._migration_hints.arguments import ARGUMENTS

    name = next(iter(keywords))
    advice = (ARGUMENTS.get(method, {}) if foreign is None else foreign).get(name)
    if advice is None:
        return TypeError(f"{method}() got an unexpected keyword argument {name!r}")
    return TypeError(f"{method}() takes no argument {name!r}; here: {advice}")


def tells(kind: type[T]) -> type[T]:
    """Decorate a class so that attributes and arguments of other clients raise an error with the replacement.

    Attributes raise `AttributeError` and arguments raise `TypeError`, as other unknown ones do. Neither is in `dir()`
    or in a signature. A `TypeError` about an inherited method names this class.
    """
    from monedula._migration_hints.arguments import ARGUMENTS, OF_SHARE_CONSUMER

    of_kind = OF_SHARE_CONSUMER if kind.__name__.removeprefix("Async") == "ShareConsumer" else {}
    _own_methods(kind)

    def missing(self: object, name: str) -> Any:
        raise no_attribute(self, name, kind)

    if (arguments := ARGUMENTS.get(kind.__name__)) is not None:
        setattr(kind, "__init__", _made(kind, arguments))  # noqa: B010
    if hasattr(kind, "__aenter__"):
        for name in ("__enter__", "__exit__"):
            setattr(kind, name, _refusal("supports no `with`; here: use `async with`"))
    setattr(kind, "__getattr__", missing)  # noqa: B010 - unseen by type checkers, which would accept any attribute then
    for each in kind.__mro__[:-1]:
        if not each.__module__.startswith("monedula."):
            continue
        for name in ARGUMENTS.keys() | of_kind.keys():
            method = vars(each).get(name)
            if isinstance(method, FunctionType) and getattr(kind, name) is method:
                setattr(kind, name, _checked(method, ARGUMENTS.get(name, {}) | of_kind.get(name, {})))
    return kind


def _own_methods(kind: type) -> None:
    """Give a class copies of the methods of its bases, which users do not know, under its own name."""
    for base in kind.__mro__[1:]:
        if not base.__module__.startswith("monedula."):
            continue
        for name, method in vars(base).items():
            if (name in ("__init__", "__new__") or not name.startswith("_")) and getattr(kind, name) is _plain(method):
                named = named_by(kind, _plain(method)) if isinstance(_plain(method), FunctionType) else None
                if named is not None:
                    setattr(kind, name, staticmethod(named) if isinstance(method, staticmethod) else named)


def _plain(method: Any) -> Any:
    return method.__func__ if isinstance(method, staticmethod) else method


def named_by(kind: type, function: Callable[..., Any]) -> Callable[..., Any]:
    """Copy a function, and those that it wraps, so that errors of Python's name them as methods of a class."""
    plain: Any = function
    inner = getattr(function, "__wrapped__", None)

    def copied(cell: CellType) -> CellType:
        return CellType(named_by(kind, inner)) if inner is not None and cell.cell_contents is inner else cell

    closure = tuple(map(copied, plain.__closure__ or ())) or None
    copy: Any = FunctionType(plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, closure)
    copy.__kwdefaults__ = plain.__kwdefaults__
    update_wrapper(copy, function)
    copy.__dict__.pop("__wrapped__")
    if inner is not None:
        copy.__wrapped__ = inner
    copy.__qualname__ = f"{kind.__qualname__}.{plain.__name__}"
    return cast("Callable[..., Any]", copy)


def asynchronous(kind: type[T]) -> type[T]:
    """Decorate an asynchronous iterator so that a plain `for` raises an error with advice."""
    setattr(kind, "__iter__", _refusal("is for asyncio; here: use `async for`"))  # noqa: B010 - unseen by type checkers
    return kind


def _refusal(reason: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *_arguments: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__.removeprefix('_')!r} object {reason}")

    return refuse


def _made(kind: type, foreign: dict[str, str]) -> Callable[..., None]:
    method: Callable[..., None] = kind.__init__  # type: ignore[misc]

    @wraps(method)
    def init(self: object, *arguments: Any, **keywords: Any) -> None:
        try:
            if named := keywords.keys() & foreign.keys():
                raise no_argument(kind.__name__, named)
            method(self, *arguments, **keywords)
        finally:
            keywords.clear()  # keeps passwords out of tracebacks that show locals

    return init


def _checked(method: FunctionType, foreign: dict[str, str]) -> Callable[..., Any]:
    from monedula._migration_hints.arguments import ALONE

    def check(keywords: dict[str, Any]) -> None:
        if named := keywords.keys() & foreign.keys():
            raise no_argument(method.__name__, named, foreign)

    if method.__code__.co_flags & CO_COROUTINE:

        @wraps(method)
        async def awaited(*arguments: Any, **keywords: Any) -> Any:
            check(keywords)
            return await method(*arguments, **keywords)

        return awaited

    alone = ALONE.get(method.__name__)

    @wraps(method)
    def called(*arguments: Any, **keywords: Any) -> Any:
        if keywords:
            check(keywords)
        elif alone is not None and len(arguments) == 2:  # self, and one more
            raise TypeError(f"{method.__name__}() takes no partition with its offset in one; here: {alone}")
        return method(*arguments, **keywords)

    return called
