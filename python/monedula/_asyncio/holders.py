"""Numbers by which the core knows tasks as holders of batches."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from monedula._monedula import new_holder

_O = TypeVar("_O")

_HOLDERS: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()


def holder() -> int:
    """The number by which the core knows the current task as a holder of batches; 0 outside of a task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs
        return 0
    if task is None:
        return 0
    if task not in _HOLDERS:
        _HOLDERS[task] = new_holder()  # unlike id(), a number is never used twice
    return _HOLDERS[task]


def when_task_ends(owner: "ref[_O]", holder: int, call: Callable[[_O, int], object]) -> None:
    """Call `call(owner, holder)` when the current task ends, unless the owner was collected before."""
    task = asyncio.current_task()

    def ended(_: asyncio.Task[Any]) -> None:
        there = owner()
        if there is not None:
            call(there, holder)

    if task is not None:
        task.add_done_callback(ended)
