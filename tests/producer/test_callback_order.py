"""The order of callbacks: that of a partition's records, whichever way and from whichever thread these were sent."""

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator

import monedula
import pytest
from monedula.producer import _callback_thread
from monedula.testing import Broker

from tests.producer.conftest import ProducerFactory

PATIENCE = 30.0


class Deliveries:
    """Notes the offsets of delivered records by partition, in the order of the callbacks."""

    def __init__(self) -> None:
        self.offsets: dict[int, list[int]] = {}

    def __call__(self, future: monedula.SendFuture) -> None:
        place = future.result()
        assert place.offset is not None
        self.offsets.setdefault(place.partition, []).append(place.offset)

    def count(self) -> int:
        """How many callbacks were called."""
        return sum(map(len, self.offsets.values()))

    def out_of_order(self) -> dict[int, list[int]]:
        """By partition, the offsets around the first one that was not called back in its turn."""
        wrong = {}
        for partition, offsets in self.offsets.items():
            at = next((at for at, offset in enumerate(offsets) if at != offset), None)
            if at is not None:
                wrong[partition] = offsets[max(0, at - 3) : at + 100]
        return wrong


@pytest.fixture
def hasty() -> Iterator[None]:
    """Python's threads change as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def by_number(_topic: str, _key: bytes | None, value: bytes | None, partitions: int) -> int:
    """A partitioner."""
    return int(value or b"0") % partitions


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("partitioner", [None, by_number], ids=["partition", "function"])
@pytest.mark.parametrize("linger_ms", [0, 5])
def test_callbacks_of_many_threads_are_in_the_order_of_the_records(
    producer: ProducerFactory, partitioner: object, linger_ms: int
) -> None:
    with Broker(nodes=3) as broker:
        broker.create_topic("orders", 3)
        # Connections break before a request: batches in flight are sent again, all of them. If an answer were lost,
        # the batches behind its batch could be acknowledged first, and called back first.
        broker.fault(api="Produce", close=True, skip=5, count=4)
        sender = producer(
            bootstrap_servers=broker.bootstrap_servers,
            linger_ms=linger_ms,
            batch_size=500,
            retry_backoff_ms=1,
            partitioner=partitioner,
        )
        delivered = Deliveries()

        def send(first: int) -> None:
            for number in range(first, first + 500):
                partition = None if partitioner else number % 3
                sender.send("orders", str(number), partition=partition, on_delivery=delivered)

        threads = [threading.Thread(target=send, args=(first,)) for first in range(0, 4000, 500)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sender.flush(PATIENCE)
        assert delivered.count() == 4000
        assert delivered.out_of_order() == {}


def test_a_record_that_is_sent_while_the_thread_starts_is_called_back_in_its_order(
    broker: Broker, producer: ProducerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("orders")
    sender, delivered, start = producer(linger_ms=60_000), Deliveries(), _callback_thread.start
    sender.send("orders", "the topic is known from now on")
    sender.flush(PATIENCE)

    def start_late(runner: monedula._monedula.CallbackRunner) -> None:
        sender.send("orders", "of another thread", on_delivery=delivered)
        start(runner)

    monkeypatch.setattr(_callback_thread, "start", start_late)
    sender.send("orders", "x", on_delivery=delivered)
    sender.flush(PATIENCE)
    assert delivered.offsets == {0: [1, 2]}


def test_a_record_that_the_garbage_collector_has_sent_is_called_back_in_its_order(
    broker: Broker, producer: ProducerFactory
) -> None:
    """To make a future may run Python code, or other threads: PyO3 released the GIL for the first one of a process."""
    broker.create_topic("orders")
    sender, delivered = producer(linger_ms=60_000), Deliveries()
    kept = [sender.send("orders", "x") for _ in range(5000)]  # no freed future is left to be used again
    sender.flush(PATIENCE)

    def send_another(phase: str, _info: object) -> None:
        if phase == "start":
            sender.send("orders", "of the collector", on_delivery=delivered)

    threshold = gc.get_threshold()
    gc.callbacks.append(send_another)
    gc.set_threshold(1)
    try:
        for _ in range(20):
            sender.send("orders", "x", on_delivery=delivered)
    finally:
        gc.callbacks.remove(send_another)
        gc.set_threshold(*threshold)
    sender.flush(PATIENCE)
    first, last = len(kept), len(kept) + delivered.count()
    assert delivered.count() > 20
    assert delivered.offsets == {0: list(range(first, last))}


def test_nothing_is_sent_with_a_callback_that_cannot_be_called(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    for sender in (producer(), producer(partitioner=by_number)):
        with pytest.raises(monedula.ArgumentError, match="5 cannot be called"):
            sender.send("orders", "1", on_delivery=5)  # type: ignore[arg-type]
        assert sender.health()["records_unfinished"] == 0


async def test_callbacks_of_records_that_wait_for_room_run_in_the_same_thread(broker: Broker) -> None:
    """They ran in the event loop, and those of records that had found room did not."""
    broker.create_topic("orders")
    held = broker.fault(api="Produce", hold=True)
    threads: list[str] = []
    delivered = Deliveries()

    def note(future: monedula.SendFuture) -> None:
        threads.append(threading.current_thread().name)
        delivered(future)

    settings = {"bootstrap.servers": broker.bootstrap_servers, "buffer.memory": 100_000, "linger.ms": 0}
    async with monedula.AsyncProducer(settings) as sender:
        for _ in range(50):
            sender.send("orders", b"x" * 5000, on_delivery=note)
        assert sender.health()["waiting_for_room"] or len(sender._queued) > 0
        held.remove()
        await asyncio.wait_for(sender.flush(), PATIENCE)
    assert delivered.offsets == {0: list(range(50))}
    assert set(threads) == {"monedula-callbacks"}
