"""Records that wait when their transaction ends: for room, for their topic, in a thread that is held up."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

from tests.groups.ground import Ground
from tests.producer.test_transactions import GoneWrong, committed

PATIENCE_SECONDS = 60
SMALL: dict[str, Any] = {"buffer_memory": 200_000, "batch_size": 20_000, "max_request_size": 100_000}


@pytest.fixture
def orders() -> Iterator[Broker]:
    with Broker(topics=["orders:2"], settings={"auto.create.topics.enable": False}) as broker:
        yield broker


def first_partition(*_: Any) -> int:
    return 0


def errors_of(futures: list[monedula.SendFuture]) -> list[BaseException]:
    """The errors of those that failed; every one of them has come to an end."""
    found = (future.exception(PATIENCE_SECONDS) for future in futures)
    return [error for error in found if error is not None]


async def test_what_an_aborted_transaction_has_in_line_is_in_no_other(ground: Ground) -> None:
    topic, name = ground.topic(), ground.name("id")
    futures: list[monedula.SendFuture] = []

    async def fail(sender: monedula.AsyncProducer, number: int) -> None:
        async with sender.transaction():
            futures.extend(sender.send(topic, b"aborted" * 1500) for _ in range(100 * number))
            raise GoneWrong

    async with monedula.AsyncProducer(
        bootstrap_servers=ground.bootstrap, transactional_id=name, buffer_memory=2_000_000
    ) as sender:
        for number in (30, 1, 7):
            with pytest.raises(GoneWrong):
                await fail(sender, number)
            async with sender.transaction():
                sender.send(topic, f"kept {number}")
    errors = errors_of(futures)
    # How many stand in line depends on the machine.
    assert {type(error) for error in errors} == {monedula.errors.TransactionAbortedError}
    assert await asyncio.to_thread(committed, ground.bootstrap, topic) == ["kept 1", "kept 30", "kept 7"]


async def test_an_abort_takes_back_all_that_finds_no_room(orders: Broker) -> None:
    held = orders.fault(api="Produce", hold=True)
    futures: list[monedula.SendFuture] = []
    releases: list[asyncio.Task[None]] = []

    async def release() -> None:
        """Let Produce through once the last record was taken back: the abort waits for batches in flight."""
        await asyncio.to_thread(futures[-1].exception, PATIENCE_SECONDS)
        held.remove()

    async def fail(sender: monedula.AsyncProducer) -> None:
        async with sender.transaction():
            futures.extend(sender.send("orders", b"aborted" * 200) for _ in range(2000))
            releases.append(asyncio.create_task(release()))
            raise GoneWrong

    settings: dict[str, Any] = {"bootstrap_servers": orders.bootstrap_servers, "transactional_id": "id"}
    async with monedula.AsyncProducer(**settings, **SMALL) as sender:
        with pytest.raises(GoneWrong):
            await fail(sender)
        await asyncio.gather(*releases)
        async with sender.transaction():
            sender.send("orders", "kept")
    errors = errors_of(futures)
    assert {type(error) for error in errors} == {monedula.errors.TransactionAbortedError}
    # `buffer_memory` has room for fewer than 200 of them.
    assert len(errors) > 1800
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["kept"]


async def test_a_commit_takes_in_what_stands_in_line(orders: Broker) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": orders.bootstrap_servers, "transactional_id": "id"}
    async with monedula.AsyncProducer(**settings, **SMALL) as sender:
        for block in range(3):
            async with sender.transaction():
                futures = [sender.send("orders", b"%d %04d" % (block, number) * 200) for number in range(500)]
            assert not errors_of(futures)
    assert len(await asyncio.to_thread(committed, orders.bootstrap_servers, "orders")) == 1500


async def test_a_record_that_finds_no_room_takes_its_transaction_with_it(orders: Broker) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": orders.bootstrap_servers, "transactional_id": "id"}

    async def overfill(sender: monedula.AsyncProducer) -> None:
        async with sender.transaction():
            with orders.fault(api="Produce", hold=True):
                futures = [sender.send("orders", b"lost" * 500) for _ in range(300)]
                error = await asyncio.to_thread(futures[-1].exception, PATIENCE_SECONDS)
                assert isinstance(error, monedula.KafkaError)

    async with monedula.AsyncProducer(**settings, **SMALL, max_block_ms=300) as sender:
        with pytest.raises(monedula.errors.TransactionAbortedError, match=r"max\.block\.ms"):
            await overfill(sender)
        async with sender.transaction():
            sender.send("orders", "kept")
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "orders") == ["kept"]


@pytest.mark.parametrize("flavour", ["sync", "asyncio"])
async def test_what_waits_for_its_partitioner_is_taken_back(orders: Broker, flavour: str) -> None:
    orders.create_topic("later")
    settings: dict[str, Any] = {
        "bootstrap_servers": orders.bootstrap_servers,
        "transactional_id": "id",
        "partitioner": first_partition,
    }
    held = orders.fault(api="Metadata", topic="later", hold=True)
    if flavour == "sync":

        def transactions(sender: monedula.Producer) -> list[monedula.SendFuture]:
            sender.init_transactions()
            sender.begin_transaction()
            waiting = [sender.send("later", "aborted") for _ in range(3)]
            sender.abort_transaction()
            errors = errors_of(waiting)
            assert [type(error) for error in errors] == [monedula.errors.TransactionAbortedError] * 3
            held.remove()
            with sender.transaction():
                sender.send("later", "kept")
            return waiting

        def run() -> None:
            with monedula.Producer(None, **settings) as sender:
                transactions(sender)

        await asyncio.to_thread(run)
    else:
        async with monedula.AsyncProducer(None, **settings) as sender:
            await sender.init_transactions()
            await sender.begin_transaction()
            waiting = [sender.send("later", "aborted") for _ in range(3)]
            await sender.abort_transaction()
            errors = errors_of(waiting)
            assert [type(error) for error in errors] == [monedula.errors.TransactionAbortedError] * 3
            held.remove()
            async with sender.transaction():
                sender.send("later", "kept")
    assert await asyncio.to_thread(committed, orders.bootstrap_servers, "later") == ["kept"]


def test_a_producer_that_is_closed_while_many_send(orders: Broker) -> None:
    sent: list[monedula.SendFuture] = []
    raised: list[BaseException] = []
    settings: dict[str, Any] = {
        "bootstrap_servers": orders.bootstrap_servers,
        **SMALL,
        "buffer_memory": 65_536,
        "max_request_size": 50_000,
    }
    sender = monedula.Producer(**settings)
    enough = threading.Event()

    def work() -> None:
        try:
            while True:
                sent.append(sender.send("orders", b"x" * 3000))
                if len(sent) > 200:
                    enough.set()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    assert enough.wait(PATIENCE_SECONDS)
    sender.close()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert {type(error) for error in raised} == {monedula.errors.ClosedError}
    # What was taken was delivered, by the time that `close` returned.
    assert all(future.done() for future in sent)
    assert not errors_of(sent)
