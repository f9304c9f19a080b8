"""Coroutines that a transaction's block made and nobody awaits: it is not committed without them."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import monedula
import pyarrow
import pytest
from monedula import TopicPartition
from monedula.testing import Broker

from tests.producer.test_transactions import committed

PATIENCE_SECONDS = 60
PLACE = TopicPartition("in", 0)


def rows(*values: str) -> pyarrow.Table:
    return pyarrow.table({"value": list(values)})


@pytest.fixture
def orders() -> Iterator[Broker]:
    with Broker(topics=["orders", "in"], settings={"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
async def sender(orders: Broker) -> AsyncIterator[monedula.AsyncProducer]:
    async with monedula.AsyncProducer(bootstrap_servers=orders.bootstrap_servers, transactional_id="id") as sender:
        yield sender


@pytest.fixture
async def consumer(orders: Broker) -> AsyncIterator[monedula.AsyncConsumer]:
    settings: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with monedula.Producer(bootstrap_servers=orders.bootstrap_servers) as plain:
        plain.send("in", "read")
    async with monedula.AsyncConsumer(bootstrap_servers=orders.bootstrap_servers, **settings) as consumer:
        consumer.assign([PLACE])
        yield consumer


async def read_once(consumer: monedula.AsyncConsumer) -> str:
    (record,) = (await consumer.poll(PATIENCE_SECONDS)).records()
    return (record.value or b"").decode()


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
async def test_a_batch_that_nobody_awaits_aborts(
    orders: Broker, sender: monedula.AsyncProducer, consumer: monedula.AsyncConsumer
) -> None:
    async def transform(value: str) -> None:
        async with sender.transaction(consumer):
            sender.send("orders", "beside it")
            sender.send_batch(rows(value), "orders")  # type: ignore[unused-coroutine]

    value = await read_once(consumer)
    with pytest.raises(
        monedula.errors.TransactionAbortedError, match=r"send_batch\(\) was called in it and never awaited"
    ):
        await transform(value)
    gc.collect()
    assert (await consumer.committed([PLACE]))[PLACE] is None
    # Nothing of it is in the next one, and the consumer reads again.
    value = await read_once(consumer)
    async with sender.transaction(consumer):
        await sender.send_batch(rows(value), "orders")
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["read"]
    found = (await consumer.committed([PLACE]))[PLACE]
    assert found is not None
    assert found.offset == 1


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.parametrize("verb", ["send_offsets", "abort_transaction"])
async def test_other_calls_that_nobody_awaits(
    orders: Broker, sender: monedula.AsyncProducer, consumer: monedula.AsyncConsumer, verb: str
) -> None:
    calls: dict[str, Callable[[], object]] = {
        "send_offsets": lambda: sender.send_offsets(consumer, {PLACE: 1}),
        "abort_transaction": sender.abort_transaction,
    }

    async def send() -> None:
        async with sender.transaction():
            sender.send("orders", "lost")
            calls[verb]()

    with pytest.raises(
        monedula.errors.TransactionAbortedError, match=rf"{verb}\(\) was called in it and never awaited"
    ):
        await send()
    async with sender.transaction():
        sender.send("orders", "after")
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["after"]


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
async def test_the_verbs_one_by_one(orders: Broker, sender: monedula.AsyncProducer) -> None:
    await sender.init_transactions()
    await sender.begin_transaction()
    dropped = sender.send_batch(rows("late"), "orders")
    for _ in range(2):
        with pytest.raises(monedula.errors.TransactionAbortedError, match="never awaited"):
            await sender.commit_transaction()
    await sender.abort_transaction()
    await sender.begin_transaction()
    with pytest.raises(monedula.errors.TransactionAbortedError, match=r"in which send_batch\(\) was called is over"):
        await dropped
    await sender.send_batch(rows("next"), "orders")
    await sender.commit_transaction()
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["next"]


async def test_a_task_that_nobody_awaits_is_waited_for(orders: Broker, sender: monedula.AsyncProducer) -> None:
    """One that has not begun by the end of the block too, and one for which no thread is free."""
    threads, free = ThreadPoolExecutor(1), threading.Event()
    asyncio.get_running_loop().set_default_executor(threads)
    for number in range(3):
        free.clear()
        threads.submit(free.wait, PATIENCE_SECONDS)
        async with sender.transaction():
            task = asyncio.create_task(sender.send_batch(rows(str(number)), "orders"))
            for _ in range(number):
                await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.01, free.set)
        await task
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["0", "1", "2"]


async def test_a_task_that_fails_after_the_block_aborts(orders: Broker, sender: monedula.AsyncProducer) -> None:
    tasks = []

    async def send() -> None:
        async with sender.transaction():
            sender.send("orders", "beside it")
            tasks.append(asyncio.create_task(sender.send_batch(5, "orders")))

    with pytest.raises(monedula.errors.TransactionAbortedError, match=r"send_batch\(\): int is no Arrow data"):
        await send()
    with pytest.raises(monedula.ArgumentError):
        await tasks[0]
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == []


async def test_a_batch_whose_wait_is_cancelled_is_sent(orders: Broker, sender: monedula.AsyncProducer) -> None:
    threads, free = ThreadPoolExecutor(1), threading.Event()
    asyncio.get_running_loop().set_default_executor(threads)
    threads.submit(free.wait, PATIENCE_SECONDS)
    async with sender.transaction():
        task = asyncio.create_task(sender.send_batch(rows("sent"), "orders"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        free.set()
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["sent"]


async def test_outside_of_a_transaction_python_warns(orders: Broker) -> None:
    async with monedula.AsyncProducer(bootstrap_servers=orders.bootstrap_servers) as plain:
        told = r"coroutine 'AsyncProducer\.send_batch' was never awaited"
        with pytest.warns(RuntimeWarning, match=told):
            plain.send_batch(rows("never"), "orders")  # type: ignore[unused-coroutine]
