"""Errors of Spark's Python workers that begin with what happened, in place of a traceback of this package.

A worker writes the exception that ends it, with its traceback, to the JVM, which puts that into the message of its own
exception. Spark's environment variable for workers without tracebacks is set when an error of ours is on its way: it
says what is wrong by itself, and the worker ends with it. Other exceptions keep their traceback.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from typing import Any, TypeVar

from monedula.errors import KafkaError

T = TypeVar("T")

_HIDE = "SPARK_HIDE_TRACEBACK"
_ONLY_IN_WORKERS = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR")


def errors_first(kind: type[T]) -> type[T]:
    """A class decorator: errors of this package that leave a method of the class are shown without a traceback."""
    for name, method in list(vars(kind).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _watched_iterator(method) if isgeneratorfunction(method) else _watched(method))
    return kind


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        with without_traceback():
            return method(*arguments, **keywords)

    return call


def _watched_iterator(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @wraps(method)
    def iterate(*arguments: Any, **keywords: Any) -> Iterator[Any]:
        with without_traceback():
            yield from method(*arguments, **keywords)

    return iterate


@contextmanager
def without_traceback() -> Iterator[None]:
    """Show errors of this package that leave the block without a traceback."""
    try:
        yield
    except KafkaError:
        if any(name in os.environ for name in _ONLY_IN_WORKERS):
            os.environ[_HIDE] = "1"
        raise
