"""Beginners' mistakes are reported by argument, and duplicates count once."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import monedula
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from monedula.testing import Broker


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, Any]]:
    with Broker(topics={"orders": 2, "sent": 1}) as broker:
        for partition in range(2):
            broker.append("orders", ["a", "b", "c"], partition=partition)
        yield {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "auto.offset.reset": "earliest"}


@pytest.fixture
def consumer(settings: dict[str, Any]) -> Iterator[monedula.Consumer]:
    with monedula.Consumer(settings) as consumer:
        yield consumer


ZERO = ("orders", 0)


def test_a_partition_that_is_named_twice_is_looked_up_once(consumer: monedula.Consumer) -> None:
    assert consumer.end_offsets([ZERO, monedula.TopicPartition(*ZERO), ("orders", 1)]) == {ZERO: 3, ("orders", 1): 3}
    assert consumer.beginning_offsets([ZERO, ZERO]) == {ZERO: 0}


def test_a_topic_that_is_named_twice_has_each_partition_once(consumer: monedula.Consumer) -> None:
    assert consumer.partitions_of("orders", "orders") == [ZERO, ("orders", 1)]


@pytest.mark.parametrize("topics", [["orders", "orders"], ["orders", ZERO, ("orders", 1)], [ZERO, ("orders", 1), ZERO]])
def test_what_is_named_twice_is_read_once(settings: dict[str, Any], topics: list[Any]) -> None:
    assert pa.table(monedula.read(settings, topics)).num_rows == 6


@pytest.mark.parametrize("make", [np.array, pl.Series, tuple, set, iter], ids=lambda make: make.__name__)
def test_topics_are_given_by_any_iterable_of_names(
    consumer: monedula.Consumer, make: Callable[[list[str]], Iterable[str]]
) -> None:
    consumer.subscribe(make(["orders", "sent"]))
    assert consumer.subscription() == {"orders", "sent"}


@pytest.mark.parametrize("kind", [monedula.Consumer, monedula.AsyncConsumer])
def test_a_dict_is_no_subscription(settings: dict[str, Any], kind: Any) -> None:
    with pytest.raises(monedula.ArgumentError, match="takes names alone"):
        kind(settings, topics={ZERO: 2})


def test_the_topics_that_an_admin_lists_are_names(settings: dict[str, Any], consumer: monedula.Consumer) -> None:
    with monedula.Admin(settings) as admin:
        topics = admin.list_topics()
        consumer.subscribe(topics)
        assert consumer.subscription() == {"orders", "sent"}
        assert pa.table(monedula.read(settings, topics)).num_rows == 6
        with pytest.raises(monedula.ArgumentError, match="start= and end="):
            monedula.read(settings, admin.list_offsets({ZERO: "latest"}))


async def listen(partitions: set[monedula.TopicPartition]) -> None:
    raise AssertionError(partitions)


class Listens:
    async def __call__(self, partitions: set[monedula.TopicPartition]) -> None:
        raise AssertionError(partitions)


MISTAKES: dict[str, tuple[Callable[[monedula.Consumer], Any], str]] = {
    "a negative max_rows": (lambda consumer: consumer.poll(max_rows=-1), "max_rows=-1: expected a whole number"),
    "a max_rows of 0": (lambda consumer: next(consumer.batches(max_rows=0)), "max_rows=0: expected a whole number"),
    "a max_bytes beyond 64 bits": (lambda consumer: consumer.poll(max_bytes=2**70), f"max_bytes={2**70}: expected"),
    "a text for max_rows": (lambda consumer: consumer.poll(max_rows="9"), "max_rows='9': expected"),  # type: ignore[arg-type]
    "an offset beyond 64 bits": (lambda consumer: consumer.assign({ZERO: 2**80}), f"{2**80} is no position"),
    "an array of offsets": (
        lambda consumer: consumer.assign({ZERO: np.array([1, 2])}),
        r"array\(\[1, 2\]\) is no position",
    ),
    "a class for an offset": (lambda consumer: consumer.assign({ZERO: int}), "<class 'int'> is no position"),
    "an array of partitions": (
        lambda consumer: consumer.assign([("orders", np.array([0, 1]))]),  # type: ignore[arg-type]
        "the partition must be a whole number",
    ),
    "a commit beyond 64 bits": (lambda consumer: consumer.commit({ZERO: 2**80}), f"{2**80} cannot be committed"),
    "a list of topics for one": (
        lambda consumer: consumer.partitions_of(["orders"]),  # type: ignore[arg-type]
        r"\['orders'\] is no topic's name; partitions_of\(\) takes names one by one",
    ),
    "bytes for a topic": (lambda consumer: consumer.subscribe(b"orders"), "b'orders' is no topic's name"),  # type: ignore[arg-type]
    "several topics in a text": (lambda consumer: consumer.subscribe("orders,returns"), "several in a list"),
    "a name that no topic has": (lambda consumer: consumer.subscribe(["orders", "a b"]), "'a b' is no topic's name"),
    "a name that is too long": (
        lambda consumer: consumer.subscribe("x" * 250),
        "is no topic's name: expected 1 to 249",
    ),
    "a directory for a topic": (lambda consumer: consumer.partitions_of(".."), "'..' is no topic's name"),
    "a dict for a subscription": (
        lambda consumer: consumer.subscribe({"orders": 2}),
        r"topics=\{'orders': 2\}: subscribe\(\) takes names alone.*assign\(\{\('orders', 0\): 2\}\) takes positions",
    ),
    "a reason that is none": (
        lambda consumer: consumer.enforce_rebalance(5),  # type: ignore[arg-type]
        r"reason=5 \(int\): expected a text",
    ),
    "a callback that is none": (
        lambda consumer: consumer.commit_async({ZERO: 1}).add_done_callback(5),  # type: ignore[arg-type]
        "5 cannot be called: give a function that takes the future",
    ),
    "a coroutine function that nobody awaits": (
        lambda consumer: consumer.subscribe("orders", on_assigned=listen),
        "on_assigned=.*is a coroutine function, which nobody awaits here; the client for asyncio awaits it",
    ),
    "a part of a coroutine function": (
        lambda consumer: consumer.subscribe("orders", on_lost=partial(listen)),
        "on_lost=.*is a coroutine function",
    ),
    "an object that is called and awaited": (
        lambda consumer: consumer.subscribe("orders", on_revoked=Listens()),
        "on_revoked=.*is a coroutine function",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_an_argument_error_that_names_what_was_given(consumer: monedula.Consumer, mistake: str) -> None:
    verb, told = MISTAKES[mistake]
    with pytest.raises(monedula.ArgumentError, match=told):
        verb(consumer)
    assert consumer.subscription() == set()


TIMEOUTS: dict[str, Callable[[monedula.Consumer, Any], Any]] = {
    "poll": lambda consumer, timeout: consumer.poll(timeout),
    "batches": lambda consumer, timeout: next(consumer.batches(timeout=timeout)),
    "records": lambda consumer, timeout: next(consumer.records(timeout=timeout)),
    "end_offsets": lambda consumer, timeout: consumer.end_offsets([ZERO], timeout=timeout),
    "commit": lambda consumer, timeout: consumer.commit({ZERO: 1}, timeout=timeout),
    "committed": lambda consumer, timeout: consumer.committed([ZERO], timeout=timeout),
    "unsubscribe": lambda consumer, timeout: consumer.unsubscribe(timeout),
    "close": lambda consumer, timeout: consumer.close(timeout),
}


@pytest.mark.parametrize(
    "timeout",
    ["1", b"1", timedelta(seconds=1), [1], object(), np.datetime64("2026-01-01"), Decimal("sNaN")],
    ids=lambda given: type(given).__name__,
)
@pytest.mark.parametrize("verb", TIMEOUTS)
def test_a_timeout_is_a_number_of_seconds(consumer: monedula.Consumer, verb: str, timeout: Any) -> None:
    told = rf"timeout={re.escape(repr(timeout))} \({type(timeout).__name__}\): expected seconds, a number such as 1\.5"
    with pytest.raises(monedula.ArgumentError, match=told):
        TIMEOUTS[verb](consumer, timeout)
    consumer.assign("orders")  # it is neither closed nor told to leave
    assert consumer.assignment() or consumer.poll(30)


@pytest.mark.parametrize("verb", TIMEOUTS)
def test_a_very_long_timeout_is_one(settings: dict[str, Any], verb: str) -> None:
    for timeout in (1.5e19, 1e300, float("inf")):
        with monedula.Consumer(settings) as consumer:
            consumer.assign({ZERO: "earliest"})
            TIMEOUTS[verb](consumer, timeout)


@pytest.mark.parametrize("timeout", [-1, float("-inf"), float("nan")])
def test_a_timeout_is_no_less_than_none(consumer: monedula.Consumer, timeout: float) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"timeout=(-1|-inf|nan): expected seconds, 0 or more"):
        consumer.poll(timeout)


def test_other_times_are_numbers_too(consumer: monedula.Consumer) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"max_wait='1' \(str\): expected seconds"):
        next(consumer.batches(max_wait="1"))  # type: ignore[arg-type]
    with pytest.raises(monedula.ArgumentError, match=r"after='1' \(str\): expected seconds"):
        consumer.enforce_rebalance("now", after="1")  # type: ignore[arg-type]


async def test_timeouts_of_the_other_classes(settings: dict[str, Any]) -> None:
    told = r"timeout='1' \(str\): expected seconds"
    wrong: Any = "1"
    async with monedula.AsyncConsumer(settings) as consumer:
        for waiting in (
            lambda: consumer.poll(wrong),
            lambda: consumer.close(wrong),
            lambda: consumer.unsubscribe(wrong),
        ):
            with pytest.raises(monedula.ArgumentError, match=told):
                await waiting()
    with monedula.Producer(bootstrap_servers=settings["bootstrap.servers"]) as producer:
        future = producer.send("sent", "d")
        for verb in (
            producer.flush,
            producer.close,
            future.result,
            lambda timeout: producer.partitions_for("orders", timeout),
        ):
            with pytest.raises(monedula.ArgumentError, match=told):
                verb(wrong)
    with (
        monedula.Admin(bootstrap_servers=settings["bootstrap.servers"]) as admin,
        pytest.raises(monedula.ArgumentError, match=told),
    ):
        admin.describe_cluster(timeout=wrong)


def test_whole_topics_of_a_closed_consumer(settings: dict[str, Any]) -> None:
    consumer = monedula.Consumer(settings)
    consumer.assign("orders")
    consumer.close()
    for verb in (consumer.pause, consumer.resume):
        with pytest.raises(monedula.errors.ClosedError, match="the consumer is closed"):
            verb()


@pytest.mark.parametrize("columns", ["value", b"value", [1], 5, {"value": "v"}])
def test_columns_are_a_list_of_names(settings: dict[str, Any], columns: Any) -> None:
    for make in (monedula.Consumer, partial(monedula.read, topics="orders")):
        with pytest.raises(monedula.ArgumentError, match=r"columns=.*: expected a list of names, such as \['key'"):
            make(settings, columns=columns)


@pytest.mark.parametrize("hook", [listen, 5])
@pytest.mark.parametrize("kind", [monedula.Consumer, monedula.AsyncConsumer])
def test_a_hook_is_a_plain_function(settings: dict[str, Any], kind: Any, hook: Any) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"on_event=.*(plain function|cannot be called)"):
        kind(settings, on_event=hook)


def test_whoever_subscribes_without_a_group_hears_of_both_ways_out(settings: dict[str, Any]) -> None:
    alone = {key: value for key, value in settings.items() if key != "group.id"}
    with pytest.raises(monedula.ArgumentError, match=r"set group\.id; without one, assign\(\) reads"):
        monedula.Consumer(alone, topics="orders")


def test_a_closed_subscriber_says_that_it_is_closed(settings: dict[str, Any]) -> None:
    consumer = monedula.Consumer(settings, "orders")
    consumer.close()
    with pytest.raises(monedula.errors.ClosedError):
        consumer.assign("orders")
    with pytest.raises(monedula.errors.ClosedError):
        consumer.enforce_rebalance("now")


def test_a_subscriber_is_not_advised_to_assign(settings: dict[str, Any]) -> None:
    with (
        monedula.Consumer(settings, "orders") as consumer,
        pytest.raises(monedula.ArgumentError, match="orders-9 is not among what the group assigned to this consumer"),
    ):
        consumer.seek(("orders", 9), 0)


def test_a_commit_beside_the_members_of_a_group_says_that_it_is_in_use(settings: dict[str, Any]) -> None:
    with monedula.Consumer(settings, "orders") as member, monedula.Consumer(settings) as alone:
        assert member.poll(timeout=20)
        alone.assign([ZERO])
        with pytest.raises(monedula.errors.GroupInUseError, match="in use by running consumers"):
            alone.commit({ZERO: 1})
