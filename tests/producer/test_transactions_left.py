"""Transactions whose end is cancelled or interrupted: none is left open, and the consumer reads again."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from monedula import TopicPartition
from monedula.testing import Broker, Fault

from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory
from tests.producer.test_transactions import committed

PATIENCE_SECONDS = 60
VERBS = ["InitProducerId", "FindCoordinator", "AddPartitionsToTxn", "Produce", "TxnOffsetCommit", "EndTxn"]


@pytest.fixture
def orders() -> Iterator[Broker]:
    with Broker(topics=["orders", "in"], settings={"auto.create.topics.enable": False}) as broker:
        yield broker


def settings_of(broker: Broker, **more: Any) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": "id", **more}


def let_go_when_aborted(sender: monedula.Producer, held: Fault) -> None:
    """What is in flight is answered when the abort has begun, which waits for it."""
    for _ in range(6000):
        try:
            sender.send("orders", "part of it, or refused")
        except monedula.errors.TransactionError as error:
            if "aborted" in str(error):
                break
        threading.Event().wait(0.01)
    held.remove()


async def test_a_commit_that_is_cancelled_while_it_delivers_is_aborted(orders: Broker) -> None:
    async with monedula.AsyncProducer(**settings_of(orders)) as sender:

        async def send() -> None:
            async with sender.transaction():
                sender.send("orders", "cancelled")

        async with sender.transaction():
            sender.send("orders", "before")
        for _ in range(3):
            held = orders.fault(api="Produce", hold=True)
            task = asyncio.create_task(send())
            await asyncio.to_thread(held.wait, 1)
            task.cancel()
            # The abort, which has begun by then, waits for what is in flight.
            for _ in range(3):
                await asyncio.sleep(0)
            held.remove()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with sender.transaction():
            sender.send("orders", "after")
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["after", "before"]


@pytest.mark.parametrize("steps", range(4))
async def test_a_block_that_is_cancelled_while_it_begins_leaves_no_transaction_open(ground: Ground, steps: int) -> None:
    topic = ground.topic()
    async with monedula.AsyncProducer(bootstrap_servers=ground.bootstrap, transactional_id=ground.name("id")) as sender:

        async def send(value: str) -> None:
            async with sender.transaction():
                await sender.send(topic, value)

        await sender.init_transactions()
        for _ in range(5):
            task = asyncio.create_task(send("cancelled"))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await send("after that")
    assert await asyncio.to_thread(committed, ground.bootstrap, topic) == ["after that"]


def test_ctrl_c_while_a_block_begins_leaves_no_transaction_open(
    ground: Ground, producer: ProducerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, sender = ground.topic(), producer(transactional_id=ground.name("id"))
    begin = sender.begin_transaction

    def interrupted() -> None:
        begin()
        raise KeyboardInterrupt

    def send(value: str) -> None:
        with sender.transaction():
            sender.send(topic, value)

    monkeypatch.setattr(sender, "begin_transaction", interrupted)
    with pytest.raises(KeyboardInterrupt):
        send("interrupted")
    monkeypatch.undo()
    send("after that")
    assert committed(ground.bootstrap, topic) == ["after that"]


@pytest.mark.parametrize("api", VERBS)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("newest", [4, 5], ids=["version 1", "version 2"])
async def test_cancelled_wherever_it_waits(api: str, times: int, newest: int) -> None:
    topics = ["orders", "in"]
    with Broker(topics=topics, max_versions={"EndTxn": newest}) as broker:
        group: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap_servers,
            "group_id": "g",
            "enable_auto_commit": False,
        }
        async with (
            monedula.AsyncProducer(**settings_of(broker)) as sender,
            monedula.AsyncConsumer(**group) as consumer,
        ):

            async def send(value: str) -> None:
                async with sender.transaction() as transaction:
                    sender.send("orders", value)
                    await transaction.send_offsets(consumer, {("in", 0): len(value)})

            held = broker.fault(api=api, hold=True)
            task = asyncio.create_task(send("cancelled"))
            reached = asyncio.create_task(asyncio.to_thread(held.wait, 1, 2.0))
            await asyncio.wait([task, reached], return_when=asyncio.FIRST_COMPLETED)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            held.remove()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]
            await asyncio.gather(reached, return_exceptions=True)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await send("after that")
            place = TopicPartition("in", 0)
            found = (await consumer.committed([place]))[place]
        assert found is not None
        assert found.offset == len("after that")
        # Where EndTxn was under way it may have gone through; else it was aborted.
        there = await asyncio.to_thread(committed, broker.bootstrap_servers, "orders")
        assert there == ["after that"] or (there == ["after that", "cancelled"] and (api == "EndTxn" or not outcome))


def test_ctrl_c_while_a_commit_delivers(orders: Broker) -> None:
    consumer_settings: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    servers: dict[str, Any] = {"bootstrap_servers": orders.bootstrap_servers}
    with monedula.Producer(**servers) as plain:
        for number in range(5):
            plain.send("in", str(number))
    with (
        monedula.Producer(**settings_of(orders)) as sender,
        monedula.Consumer(**servers, **consumer_settings) as consumer,
    ):
        consumer.assign({("in", 0): "earliest"})

        def transform() -> list[str]:
            with sender.transaction(consumer):
                batch = consumer.poll(timeout=PATIENCE_SECONDS, max_rows=5)
                values = [(record.value or b"").decode() for record in batch.records()]
                for value in values:
                    sender.send("orders", value)
            return values

        sender.init_transactions()
        held = orders.fault(api="Produce", hold=True)

        def interrupt() -> None:
            held.wait(1)
            signal.raise_signal(signal.SIGINT)
            let_go_when_aborted(sender, held)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            transform()
        thread.join(PATIENCE_SECONDS)
        # The consumer reads it again.
        assert transform() == [str(number) for number in range(5)]
    assert committed(orders.bootstrap_servers, "orders") == [str(number) for number in range(5)]


def test_a_commit_whose_records_are_late_is_aborted(orders: Broker) -> None:
    with monedula.Producer(**settings_of(orders, max_block_ms=300)) as sender:
        sender.init_transactions()

        def send() -> None:
            with sender.transaction():
                sender.send("orders", "late")

        held = orders.fault(api="Produce", hold=True)

        def let_go() -> None:
            held.wait(1)
            let_go_when_aborted(sender, held)

        remover = threading.Thread(target=let_go)
        remover.start()
        with pytest.raises(monedula.errors.TransactionAbortedError, match="the transaction was aborted: "):
            send()
        remover.join(PATIENCE_SECONDS)
        with sender.transaction():
            sender.send("orders", "kept")
    assert committed(orders.bootstrap_servers, "orders") == ["kept"]


@pytest.mark.parametrize("steps", range(5))
async def test_a_commit_that_is_cancelled_once_more_is_not_read_again(orders: Broker, steps: int) -> None:
    """It was: the second cancellation came before it was known that the commit cannot be taken back."""
    values = [str(number) for number in range(5)]
    orders.append("in", values)
    group: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    async with (
        monedula.AsyncProducer(**settings_of(orders)) as sender,
        monedula.AsyncConsumer({"bootstrap.servers": orders.bootstrap_servers}, "in", **group) as consumer,
    ):

        async def transform(max_rows: int) -> int:
            batch = await consumer.poll(timeout=1, max_rows=max_rows)
            async with sender.transaction(consumer):
                for record in batch.records():
                    sender.send("orders", record.value)
            return batch.num_rows

        slow = orders.fault(api="EndTxn", delay_ms=300, on="answer", count=1)
        task = asyncio.create_task(transform(3))
        await asyncio.to_thread(slow.wait, 1)
        task.cancel()
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await transform(100):
                pass
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == values


def test_offsets_that_are_late_abort_the_transaction(orders: Broker) -> None:
    """It said that it may be committed, though it was aborted."""
    orders.append("in", ["a", "b"])
    group: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with (
        monedula.Producer(**settings_of(orders, max_block_ms=500)) as sender,
        monedula.Consumer({"bootstrap.servers": orders.bootstrap_servers}, "in", **group) as consumer,
    ):
        sender.init_transactions()

        def transform() -> int:
            batch = consumer.poll(timeout=PATIENCE_SECONDS)
            with sender.transaction(consumer):
                for record in batch.records():
                    sender.send("orders", record.value)
            return batch.num_rows

        held = orders.fault(api="TxnOffsetCommit", hold=True)

        def let_go() -> None:
            held.wait(1)
            let_go_when_aborted(sender, held)

        remover = threading.Thread(target=let_go)
        remover.start()
        with pytest.raises(monedula.errors.TransactionAbortedError, match="the transaction was aborted: send_offsets"):
            transform()
        remover.join(PATIENCE_SECONDS)
        assert transform() == 2
    assert committed(orders.bootstrap_servers, "orders") == ["a", "b"]


async def test_a_block_that_is_cancelled_twice_asks_for_the_abort(orders: Broker) -> None:
    async with monedula.AsyncProducer(**settings_of(orders)) as sender:

        async def send() -> None:
            async with sender.transaction():
                await sender.send("orders", "cancelled")
                begun.set()
                await asyncio.Event().wait()

        begun, ended = asyncio.Event(), orders.fault(api="EndTxn", delay_ms=1, on="answer")
        task = asyncio.create_task(send())
        await begun.wait()
        task.cancel()
        # The second one comes when the abort has not had its first step.
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(ended.wait, 1, float(PATIENCE_SECONDS))
