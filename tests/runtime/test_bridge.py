"""The bridge between the core and an event loop: clients that are closed while tasks wait, or that nobody has."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import monedula
import pytest
from monedula import TopicPartition
from monedula.testing import Broker

from tests.runtime.script import run


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.append("orders", ["1", "2", "3"])
        yield broker


def settings(broker: Broker) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}


@pytest.mark.parametrize("kind", ["producer", "consumer", "admin", "closed producer", "closed consumer"])
def test_clients_that_nobody_has_any_more_leave_no_sockets_in_a_running_loop(broker: Broker, kind: str) -> None:
    code = """
from contextlib import suppress

settings = {"bootstrap.servers": sys.argv[1], "auto.offset.reset": "earliest"}

def sockets():
    gc.collect()
    return sum("socket:" in link for link in map(read_link, os.listdir("/proc/self/fd")))

def read_link(descriptor):
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return ""

async def use(kind):
    if kind == "admin":
        await monedula.AsyncAdmin(settings).list_topics()
    elif kind.endswith("producer"):
        producer = monedula.AsyncProducer(settings)
        await producer.send("orders", "x")
        await producer.flush()
        if kind == "closed producer":
            await producer.close()
            with suppress(monedula.errors.ClosedError):
                await producer.flush()
    else:
        consumer = monedula.AsyncConsumer(settings)
        consumer.assign("orders")
        assert await consumer.poll(timeout=20)
        if kind == "closed consumer":
            await consumer.close()
            with suppress(monedula.errors.ClosedError):
                await consumer.poll()

async def main():
    before = sockets() + 2  # a loop in which a record was awaited keeps a pair of its own
    for _ in range(5):
        await use(sys.argv[2])
    deadline = time.monotonic() + 20
    while sockets() > before:
        assert time.monotonic() < deadline, (before, sockets())
        await asyncio.sleep(0.01)

asyncio.run(main())
"""
    run(code, broker.bootstrap_servers, kind)


async def test_a_task_that_nobody_holds_goes_on_while_it_waits(broker: Broker) -> None:
    import gc

    seen: list[int] = []

    async def read() -> None:
        consumer = monedula.AsyncConsumer(settings(broker))
        consumer.assign("orders")
        while len(seen) < 4:
            batch = await consumer.poll(timeout=20)
            seen.extend(int(record.value or b"") for record in batch.records())
        await consumer.close()
        ended.set()

    ended = asyncio.Event()
    asyncio.create_task(read())  # noqa: RUF006 - which is what is tested
    while len(seen) < 3:
        await asyncio.sleep(0)
        gc.collect()
    broker.append("orders", ["4"])
    async with asyncio.timeout(20):
        await ended.wait()
    assert seen == [1, 2, 3, 4]


async def test_closing_ends_a_poll_that_waits_for_a_callback(broker: Broker) -> None:
    consumer, began = monedula.AsyncConsumer(settings(broker), group_id="etl"), asyncio.Event()

    async def assigned(_: set[TopicPartition]) -> None:
        began.set()
        await asyncio.Event().wait()

    consumer.subscribe("orders", on_assigned=assigned)
    poll = asyncio.create_task(consumer.poll(timeout=30))
    await began.wait()
    await consumer.close(timeout=0)
    with pytest.raises(monedula.errors.ClosedError, match="closed"):
        await poll


async def test_several_tasks_may_close_a_client(broker: Broker) -> None:
    for number in range(10):
        consumer = monedula.AsyncConsumer(settings(broker), "orders", group_id=f"etl-{number}")
        assert await consumer.poll(timeout=20)
        waits = [asyncio.create_task(consumer.poll(timeout=30)) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.gather(*(consumer.close() for _ in range(3)))
        await asyncio.gather(*waits, return_exceptions=True)
    for _ in range(10):
        producer = monedula.AsyncProducer(settings(broker), linger_ms=20)
        futures = [producer.send("orders", "x") for _ in range(10)]
        await asyncio.gather(*(producer.close() for _ in range(3)))
        assert all(future.exception() is None for future in futures)


@pytest.mark.parametrize(
    "start",
    [
        lambda call: asyncio.wait_for(call, 20),
        lambda call: asyncio.gather(call),
        lambda call: asyncio.create_task(call),
    ],
    ids=["wait_for", "gather", "create_task"],
)
async def test_what_a_callback_starts_must_not_poll_while_it_runs(
    broker: Broker, start: Callable[[Any], Awaitable[object]]
) -> None:
    refused: list[BaseException] = []
    later: list[asyncio.Task[monedula.Batch]] = []

    async def assigned(_: set[TopicPartition]) -> None:
        with pytest.raises(monedula.ArgumentError, match="inside of a rebalance callback") as caught:
            await start(consumer.poll(timeout=30))
        refused.append(caught.value)
        # This one begins when the callback has ended.
        later.append(asyncio.create_task(consumer.poll(timeout=0)))

    async with monedula.AsyncConsumer(settings(broker), group_id="etl") as consumer, asyncio.timeout(20):
        consumer.subscribe("orders", on_assigned=assigned)
        while not later:
            await consumer.poll(timeout=0.05)
        await later[0]
    assert len(refused) == 1
