"""`buffer.memory`: a bound, a wait, and an error in the end."""

import asyncio
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import monedula
import pyarrow
import pytest
from monedula.testing import Broker

from tests.producer.conftest import ProducerFactory, stored
from tests.producer.real.load import until

PATIENCE = 30.0
SMALL: dict[str, Any] = {"buffer_memory": 100_000, "batch_size": 10_000, "max_request_size": 50_000}


@pytest.fixture
def orders(broker: Broker) -> Broker:
    broker.create_topic("orders")
    return broker


def fill(sender: monedula.Producer) -> tuple[list[monedula.SendFuture], monedula.errors.BufferFullError]:
    """Sends until there is no room; what was sent, and what the next one raised."""
    futures: list[monedula.SendFuture] = []
    try:
        futures.extend(sender.send("orders", b"x" * 1000) for _ in range(1000))
    except monedula.errors.BufferFullError as error:
        return futures, error
    pytest.fail("there was room for everything")


def test_a_full_buffer_is_waited_for_and_then_an_error(orders: Broker, producer: ProducerFactory) -> None:
    with orders.fault(api="Produce", hold=True):
        sender = producer(**SMALL, max_block_ms=200)
        started = time.monotonic()
        futures, error = fill(sender)
        assert time.monotonic() - started >= 0.2
        assert isinstance(error, TimeoutError)
        assert error.retriable
        for word in ("buffer.memory (100000)", "200 ms (max.block.ms)"):
            assert word in str(error)
        # Of 100 kB, records of 1000 bytes: the bound holds, and is used.
        assert 50 <= len(futures) <= 100
    sender.flush(PATIENCE)
    assert sender.send("orders", b"the end").result(PATIENCE).offset == len(futures)


def test_what_lingers_is_sent_for_each_record_that_waits(broker: Broker, producer: ProducerFactory) -> None:
    settings: dict[str, Any] = {"buffer_memory": 1 << 20, "batch_size": 1 << 20, "max_block_ms": 5_000}
    lingering = {"linger_ms": 600_000, "delivery_timeout_ms": 900_000}
    # Compressed, a batch frees its memory before its request is sent.
    sender = producer(**settings, **lingering, compression_type="zstd")
    broker.create_topic("many", 10)
    futures = [sender.send("many", b"x" * 900_000, partition=partition) for partition in range(10)]
    sender.flush(PATIENCE)
    assert [future.result(PATIENCE).partition for future in futures] == list(range(10))


def test_room_that_comes_ends_the_wait(orders: Broker, producer: ProducerFactory) -> None:
    fault = orders.fault(api="Produce", hold=True)
    sender = producer(**SMALL, max_block_ms=100)
    count = len(fill(sender)[0])
    waiting = producer(**SMALL, max_block_ms=60_000)
    sent: list[monedula.SendFuture] = []

    def send() -> None:
        sent.extend(waiting.send("orders", b"%d" % number + b"x" * 1000) for number in range(200))

    thread = threading.Thread(target=send)
    thread.start()
    fault.wait(2)
    while not waiting.health()["waiting_for_room"]:
        assert thread.is_alive(), "it did not wait"
    fault.remove()
    thread.join(PATIENCE)
    waiting.flush(PATIENCE)
    sender.flush(PATIENCE)
    assert len(sent) == 200
    offsets = [future.result(0).offset or 0 for future in sent]
    assert offsets == sorted(offsets)
    assert len(stored(orders.bootstrap_servers, "orders")) == count + 200


async def test_the_loop_goes_on_while_records_stand_in_line(orders: Broker) -> None:
    fault = orders.fault(api="Produce", hold=True)
    async with monedula.AsyncProducer(bootstrap_servers=orders.bootstrap_servers, **SMALL) as sender:
        futures = [sender.send("orders", b"%04d" % number + b"x" * 1000) for number in range(500)]
        turns = 0
        for _ in range(50):
            await asyncio.sleep(0)
            turns += 1
        assert turns == 50
        fault.remove()
        places = await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
        # In the order of sending, those included that had to wait.
        assert [place.offset for place in places] == list(range(500))
        assert (await sender.send("orders", "the end")).offset == 500


@pytest.mark.parametrize("verb", ["send_many", "send_batch"])
async def test_rows_stand_in_line_too(orders: Broker, verb: str) -> None:
    """They overtook the records that waited for room."""
    async with monedula.AsyncProducer(bootstrap_servers=orders.bootstrap_servers, **SMALL) as sender:
        futures = [sender.send("orders", b"x" * 1000) for _ in range(500)]
        values = [b"y" * 1000] * 500
        if verb == "send_many":
            report = await asyncio.wait_for(sender.send_many("orders", values), PATIENCE)
        else:
            report = await asyncio.wait_for(sender.send_batch(pyarrow.table({"value": values}), "orders"), PATIENCE)
        assert report.offsets == {("orders", 0): [(500, 999)]}
        await asyncio.gather(*futures)


async def test_rows_that_stand_in_line_belong_to_their_transaction(orders: Broker) -> None:
    settings = {"bootstrap.servers": orders.bootstrap_servers, "transactional.id": "orders"}
    async with monedula.AsyncProducer(settings, **SMALL) as sender, asyncio.timeout(PATIENCE):
        async with sender.transaction():
            futures = [sender.send("orders", b"x" * 1000) for _ in range(500)]
            sending = asyncio.create_task(sender.send_many("orders", [b"y" * 1000] * 500))
        assert (await sending).offsets == {("orders", 0): [(500, 999)]}
        await asyncio.gather(*futures)


async def test_the_line_is_no_way_around_the_wait(orders: Broker) -> None:
    with orders.fault(api="Produce", hold=True):
        sender = monedula.AsyncProducer(bootstrap_servers=orders.bootstrap_servers, **SMALL, max_block_ms=200)
        futures = [sender.send("orders", b"x" * 1000) for _ in range(200)]
        error = await asyncio.to_thread(futures[-1].exception, PATIENCE)
        assert isinstance(error, monedula.errors.BufferFullError)
        # All stood there for the time of one: the wait counts from each one's own send.
        assert all(future.done() for future in futures[100:])
        with pytest.raises(monedula.ArgumentError, match="value=5"):
            sender.send("orders", 5)
        await sender.close(timeout=0.1)


async def test_what_stands_in_line_is_flushed(orders: Broker) -> None:
    fault = orders.fault(api="Produce", hold=True)
    async with monedula.AsyncProducer(bootstrap_servers=orders.bootstrap_servers, **SMALL) as sender:
        value = bytearray(b"x" * 1000)
        futures = [sender.send("orders", value, headers={"a": "1"}) for _ in range(300)]
        value[:] = b"y" * 1000
        with pytest.raises(monedula.KafkaTimeoutError, match="flush"):
            await sender.flush(timeout=0.1)
        fault.remove()
        await asyncio.wait_for(sender.flush(), PATIENCE)
        assert all(future.done() for future in futures)
    records = stored(orders.bootstrap_servers, "orders")
    assert [record.value for record in records] == [b"x" * 1000] * 300
    assert all(record.headers == [("a", b"1")] for record in records)


def many(sender: Any, verb: str) -> Any:
    """What a call gives that sends 500 rows, for which there is no room."""
    values = ["x" * 1000] * 500
    if verb == "send_many":
        return sender.send_many("orders", values)
    # In several batches: what is behind the one that waits is not sent either.
    return sender.send_batch(pyarrow.table({"value": pyarrow.chunked_array([values[:30], values[30:]])}), "orders")


def check_closed_amid(broker: Broker, report: monedula.BatchReport | None) -> None:
    assert report is not None
    assert 0 < report.acknowledged == len(stored(broker.bootstrap_servers, "orders"))
    assert report.acknowledged + report.failed == report.num_rows == 500
    assert {type(error.error) for error in report.errors} == {monedula.errors.ClosedError}
    assert [error.row for error in report.errors] == list(range(report.acknowledged, 500))


@pytest.mark.parametrize("verb", ["send_many", "send_batch"])
def test_what_was_sent_before_a_close_is_in_the_report(orders: Broker, producer: ProducerFactory, verb: str) -> None:
    """The call raised `ClosedError`, though some of its rows were delivered, and nobody knew which."""
    fault = orders.fault(api="Produce", hold=True)
    sender = producer(**SMALL)
    with ThreadPoolExecutor(2) as pool:
        sending = pool.submit(many, sender, verb)
        until(lambda: sender.health()["waiting_for_room"] > 0, "a wait for room")
        closing = pool.submit(sender.close)
        future = sending.result(PATIENCE)
        fault.remove()
        closing.result(PATIENCE)
    check_closed_amid(orders, future.report(PATIENCE))
    with pytest.raises(monedula.errors.BatchSendError, match="the producer is closed"):
        future.result()


@pytest.mark.parametrize("verb", ["send_many", "send_batch"])
async def test_it_is_in_a_loop_as_well(orders: Broker, verb: str) -> None:
    fault = orders.fault(api="Produce", hold=True)
    sender = monedula.AsyncProducer(bootstrap_servers=orders.bootstrap_servers, **SMALL)
    async with asyncio.timeout(PATIENCE):
        sending = asyncio.create_task(many(sender, verb))
        while not sender.health()["waiting_for_room"]:
            await asyncio.sleep(0.001)
        closing = asyncio.create_task(sender.close())
        while sender.health()["ok"]:
            await asyncio.sleep(0.001)
        fault.remove()
        await closing
        with pytest.raises(monedula.errors.BatchSendError) as failed:
            await sending
    check_closed_amid(orders, failed.value.report)


def send_for_ever(sender: monedula.Producer, size: int) -> None:
    while True:
        sender.send("orders", b"x" * size)


def test_a_wait_for_room_is_over_in_its_time_whatever_the_size(orders: Broker, producer: ProducerFactory) -> None:
    """A record that its topic's share had no place for was tried again without an end, with a whole core."""
    sender = producer(buffer_memory=100_000, max_request_size=100_000, batch_size=10_000, max_block_ms=300)
    sender.send("orders", b"x").result(PATIENCE)
    assert sender.send("orders", b"x" * 95_000).result(PATIENCE).offset == 1
    with orders.fault(api="Produce", hold=True):
        for size in (1000, 20_000, 5000, 40_000):
            with pytest.raises(monedula.errors.BufferFullError):
                send_for_ever(sender, size)


def test_ctrl_c_ends_a_wait_for_room(orders: Broker, producer: ProducerFactory) -> None:
    sender = producer(buffer_memory=100_000, max_request_size=100_000, batch_size=10_000, max_block_ms=60_000)
    sender.send("orders", b"x").result(PATIENCE)
    with orders.fault(api="Produce", hold=True) as held:

        def interrupt() -> None:
            held.wait(1)
            until(lambda: sender.health()["waiting_for_room"] > 0, "a wait for room")
            signal.raise_signal(signal.SIGINT)

        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            send_for_ever(sender, 20_000)
        interrupter.join(PATIENCE)
