"""`Admin` and `AsyncAdmin` have the same methods: the same signatures, docstrings and types."""

import inspect
import pydoc
from collections.abc import Callable, Coroutine
from typing import Any, assert_type

import pytest
from monedula import Admin, AsyncAdmin, TopicPartition
from monedula.admin import ClusterDescription, GroupOffsets, Results, Topics
from monedula.admin.calls import Method
from monedula.admin.methods import AdminMethods

METHODS = sorted(name for base in AdminMethods.__mro__ for name, each in vars(base).items() if isinstance(each, Method))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_the_same_in_both(name: str) -> None:
    blocking, awaited = getattr(Admin, name), getattr(AsyncAdmin, name)
    assert inspect.signature(blocking) == inspect.signature(awaited)
    assert not inspect.iscoroutinefunction(blocking)
    assert inspect.iscoroutinefunction(awaited)
    assert blocking.__doc__ == awaited.__doc__
    assert (blocking.__qualname__, awaited.__qualname__) == (f"Admin.{name}", f"AsyncAdmin.{name}")


def test_help_shows_arguments_result_and_docstring() -> None:
    shown = pydoc.plain(pydoc.render_doc(Admin.delete_topics))
    assert "missing_ok: bool = False" in shown
    assert "-> monedula.admin.results.Results[str, None]" in shown
    assert "UnknownTopicError: if a topic does not exist." in shown
    assert "Methods defined here" in pydoc.plain(pydoc.render_doc(AsyncAdmin)).split("list_topics(")[0]


async def _types(admin: Admin, in_loop: AsyncAdmin) -> None:  # judged by mypy, not run
    assert_type(admin.describe_cluster(), ClusterDescription)
    assert_type(await in_loop.list_topics(timeout=1.0), Topics)
    assert_type(admin.list_group_offsets("etl", [("orders", 0)]), GroupOffsets)
    assert_type(admin.delete_records({("orders", 0): 1}), Results[TopicPartition, int])
    assert_type(await in_loop.delete_records({TopicPartition("orders", 0): 1}), Results[TopicPartition, int])
    admin.delete_records({"orders": 1})  # type: ignore[type-var]
    in_loop.list_topics(internal=1.5)  # type: ignore[arg-type, unused-coroutine]
    _unbound: Callable[[Admin], Topics] = Admin.list_topics
    _unbound_in_loop: Callable[[AsyncAdmin], Coroutine[Any, Any, Topics]] = AsyncAdmin.list_topics
