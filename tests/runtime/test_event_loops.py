"""Clients in event loops: closed while tasks wait, left to nobody, used by many tasks, in loops of several kinds."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import monedula
import pytest
from monedula import TopicPartition
from monedula._asyncio.futures import _WAKERS
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
    before = sockets() + 2  # a loop in which something was awaited keeps a pair of its own
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


class LoopThatReadsAlone(asyncio.SelectorEventLoop):
    """As Windows' proactor loop, it watches no descriptor, but reads sockets."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


async def use_all(broker: Broker) -> None:
    """Each kind of client, with a thousand calls that wait at once."""
    consumer = monedula.AsyncConsumer(settings(broker), group_id="etl")
    producer, admin = monedula.AsyncProducer(settings(broker)), monedula.AsyncAdmin(settings(broker))
    async with asyncio.timeout(60), consumer, producer, admin:
        consumer.subscribe("orders")
        found = await asyncio.gather(*(producer.partitions_for("orders") for _ in range(1000)))
        assert found == [[0, 1]] * 1000
        assert await consumer.poll(timeout=20)
        assert await consumer.commit()
        assert await consumer.end_offsets([("orders", 0), ("orders", 1)])
        sent = await asyncio.gather(*(producer.send("orders", "x") for _ in range(100)))
        assert len({(place.partition, place.offset) for place in sent}) == 100
        assert "orders" in await admin.list_topics()


@pytest.mark.parametrize("kind", [asyncio.SelectorEventLoop, LoopThatReadsAlone])
def test_each_kind_of_loop_awaits_all_clients(broker: Broker, kind: Callable[[], asyncio.AbstractEventLoop]) -> None:
    for _ in range(2):
        with asyncio.Runner(loop_factory=kind) as runner:
            runner.run(use_all(broker))


def test_a_loop_that_reads_alone_closes_its_consumer_at_its_end(broker: Broker) -> None:
    async def leave_open() -> monedula.AsyncConsumer:
        consumer = monedula.AsyncConsumer(settings(broker), "orders", group_id="etl")
        assert await consumer.poll(timeout=20)
        return consumer

    with asyncio.Runner(loop_factory=LoopThatReadsAlone) as runner:
        consumer = runner.run(leave_open())
    with pytest.raises(monedula.errors.ClosedError):
        consumer.assignment()


def test_a_loop_that_reads_alone_has_a_descriptor_of_its_own(broker: Broker) -> None:
    """The collector may close it before the core does: that aborted a process at its exit."""
    read: set[int] = set()

    class Noting(LoopThatReadsAlone):
        async def sock_recv(self, sock: Any, n: int) -> bytes:
            read.add(sock.fileno())
            return await super().sock_recv(sock, n)

    async def core() -> int:
        async with monedula.AsyncAdmin(settings(broker)) as admin:
            await admin.list_topics()
        return _WAKERS[asyncio.get_running_loop()]._core.fileno()

    with asyncio.Runner(loop_factory=Noting) as runner:
        descriptor = runner.run(core())
    assert read
    assert descriptor not in read


def test_loops_of_several_threads_are_woken_each_by_its_own_socket(broker: Broker) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: asyncio.run(use_all(broker)), range(4)))


def test_a_client_refuses_another_loop(broker: Broker) -> None:
    consumer, producer = monedula.AsyncConsumer(settings(broker)), monedula.AsyncProducer(settings(broker))
    consumer.assign("orders")
    admin = monedula.AsyncAdmin(settings(broker))
    calls: list[Callable[[], Any]] = [
        lambda: consumer.poll(timeout=20),
        lambda: consumer.end_offsets([("orders", 0)]),
        lambda: producer.flush(),
        lambda: producer.partitions_for("orders"),
        lambda: admin.list_topics(),
    ]

    async def all_calls() -> list[object]:
        return [(await asyncio.gather(call(), return_exceptions=True))[0] for call in calls]

    with asyncio.Runner() as first, asyncio.Runner() as second:
        assert not [outcome for outcome in first.run(all_calls()) if isinstance(outcome, BaseException)]
        for outcome in second.run(all_calls()):
            assert isinstance(outcome, monedula.ArgumentError), outcome
            assert "another event loop" in str(outcome)
        first.run(producer.close())
