"""A transaction with a consumer whose records were taken by another thread or task: its offsets are never left out."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

from tests.producer.test_transactions import committed

PATIENCE_SECONDS = 60
GROUP: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest"}


@pytest.fixture
def orders() -> Iterator[Broker]:
    with Broker(topics=["orders", "in"], settings={"auto.create.topics.enable": False}) as broker:
        broker.append("in", ["a", "b"])
        yield broker


@pytest.fixture
def producer(orders: Broker) -> Iterator[monedula.Producer]:
    with monedula.Producer(bootstrap_servers=orders.bootstrap_servers, transactional_id="id") as producer:
        yield producer


@pytest.fixture
def consumer(orders: Broker) -> Iterator[monedula.Consumer]:
    with monedula.Consumer({"bootstrap.servers": orders.bootstrap_servers}, "in", **GROUP) as consumer:
        yield consumer


@pytest.fixture
async def async_producer(orders: Broker) -> AsyncIterator[monedula.AsyncProducer]:
    async with monedula.AsyncProducer(bootstrap_servers=orders.bootstrap_servers, transactional_id="id") as producer:
        yield producer


@pytest.fixture
async def async_consumer(orders: Broker) -> AsyncIterator[monedula.AsyncConsumer]:
    async with monedula.AsyncConsumer({"bootstrap.servers": orders.bootstrap_servers}, "in", **GROUP) as consumer:
        yield consumer


def transform(producer: monedula.Producer, consumer: monedula.Consumer, batch: monedula.Batch) -> None:
    with producer.transaction(consumer):
        producer.send_batch(batch, "orders")


async def transform_async(
    producer: monedula.AsyncProducer, consumer: monedula.AsyncConsumer, batch: monedula.Batch
) -> None:
    async with producer.transaction(consumer):
        await producer.send_batch(batch, "orders")


def test_a_block_in_another_thread_is_refused_and_its_records_are_read_again(
    orders: Broker, producer: monedula.Producer, consumer: monedula.Consumer
) -> None:
    batch = consumer.poll(timeout=PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as pool:
        wrong = pool.submit(transform, producer, consumer, batch)
        with pytest.raises(monedula.ArgumentError, match=r"in-0 before offset 2.*send_offsets"):
            wrong.result(PATIENCE_SECONDS)
    again = consumer.poll(timeout=PATIENCE_SECONDS)
    assert again.num_rows == 2
    transform(producer, consumer, again)
    assert committed(orders.bootstrap_servers, "orders") == ["a", "b"]
    assert consumer.committed() == {("in", 0): monedula.OffsetAndMetadata(2, "", 0)}


def test_a_batch_that_is_given_may_come_from_another_thread(
    orders: Broker, producer: monedula.Producer, consumer: monedula.Consumer
) -> None:
    batch = consumer.poll(timeout=PATIENCE_SECONDS)

    def transform_given() -> None:
        with producer.transaction() as transaction:
            producer.send_batch(batch, "orders")
            transaction.send_offsets(consumer, batch)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(transform_given).result(PATIENCE_SECONDS)
    assert committed(orders.bootstrap_servers, "orders") == ["a", "b"]
    assert consumer.committed()[monedula.TopicPartition("in", 0)].offset == 2  # type: ignore[union-attr]


def test_a_thread_whose_poll_was_empty_may_commit_beside_one_that_holds_records(
    orders: Broker, producer: monedula.Producer, consumer: monedula.Consumer
) -> None:
    held = consumer.poll(timeout=PATIENCE_SECONDS)
    done = threading.Event()

    def other() -> None:
        batch = consumer.poll(timeout=0)
        assert batch.num_rows == 0
        transform(producer, consumer, batch)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert done.is_set()
    transform(producer, consumer, held)
    assert committed(orders.bootstrap_servers, "orders") == ["a", "b"]


async def test_a_block_in_another_task_is_refused_and_its_records_are_read_again(
    orders: Broker, async_producer: monedula.AsyncProducer, async_consumer: monedula.AsyncConsumer
) -> None:
    batch = await async_consumer.poll(timeout=PATIENCE_SECONDS)
    with pytest.raises(monedula.ArgumentError, match=r"in-0 before offset 2.*send_offsets"):
        await asyncio.create_task(transform_async(async_producer, async_consumer, batch))
    again = await async_consumer.poll(timeout=PATIENCE_SECONDS)
    assert again.num_rows == 2
    await transform_async(async_producer, async_consumer, again)
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["a", "b"]


async def test_records_of_a_task_that_ended_are_not_committed_without_their_offsets(
    orders: Broker, async_producer: monedula.AsyncProducer, async_consumer: monedula.AsyncConsumer
) -> None:
    async def take() -> monedula.Batch:
        return await async_consumer.poll(timeout=PATIENCE_SECONDS)

    batch = await asyncio.create_task(take())
    with pytest.raises(monedula.ArgumentError, match="in-0 before offset 2"):
        await transform_async(async_producer, async_consumer, batch)
    again = await take()
    await transform_async(async_producer, async_consumer, again)
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["a", "b"]
