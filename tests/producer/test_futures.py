"""Futures: waiting, callbacks, awaiting, failing, and forgetting them."""

import asyncio
import copy
import ctypes
import gc
import logging
import pickle
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import monedula
import pyarrow
import pytest
from monedula.testing import Broker

from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored

PATIENCE = 30.0

CopyMaker = Callable[[monedula.RecordMetadata], monedula.RecordMetadata]


@pytest.mark.parametrize("again", [lambda place: pickle.loads(pickle.dumps(place)), copy.copy, copy.deepcopy])
def test_where_a_record_is_can_be_pickled_and_copied(
    broker: Broker, producer: ProducerFactory, again: CopyMaker
) -> None:
    broker.create_topic("orders", 2)
    for settings in ({}, {"acks": 0}):
        place = producer(**settings).send("orders", "x", partition=1, timestamp=7).result(PATIENCE)
        made = again(place)
        assert (made, type(made)) == (place, monedula.RecordMetadata)
        assert (made.topic, made.partition, made.offset, made.timestamp) == ("orders", 1, place.offset, 7)


@pytest.mark.req("S077")
def test_send_returns_a_future_at_once_which_tells_partition_and_offset_or_error(
    broker: Broker, producer: ProducerFactory
) -> None:
    broker.create_topic("orders", 2)
    broker.create_topic("denied")
    broker.fault(api="Produce", topic="denied", error="TOPIC_AUTHORIZATION_FAILED")
    sender = producer()
    assert isinstance(sender.send("denied", "x").exception(PATIENCE), monedula.errors.AuthorizationError)
    held = broker.fault(api="Produce", topic="orders", hold=True)
    fine = sender.send("orders", "x", partition=1)
    held.wait(1)
    assert not fine.done()
    held.remove()
    assert (fine.result(PATIENCE).partition, fine.result().offset) == (1, 0)
    assert fine.exception() is None


def test_a_wait_ends_in_its_time_and_the_record_goes_on(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    fault = broker.fault(api="Produce", hold=True)
    future = producer().send("orders", "x")
    with pytest.raises(monedula.KafkaTimeoutError, match=r"the record is still in flight after 0\.1 s"):
        future.result(timeout=0.1)
    with pytest.raises(monedula.KafkaTimeoutError):
        future.exception(timeout=0.0)
    assert not future.done()
    assert repr(future) == "<monedula.SendFuture in flight>"
    fault.remove()
    assert future.result(PATIENCE).offset == 0
    assert repr(future) == "<monedula.SendFuture <monedula.RecordMetadata orders-0 @0>>"


def test_a_negative_timeout_is_a_mistake(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    with broker.fault(api="Produce", hold=True), pytest.raises(monedula.ArgumentError, match="timeout=-1"):
        producer().send("orders", "x").result(timeout=-1)


def test_metadata_compare_by_value(ground: Ground, producer: ProducerFactory) -> None:
    sender, topic = producer(), ground.topic()
    first, second = sender.send(topic, "x", timestamp=1), sender.send(topic, "x", timestamp=1)
    assert first.result(PATIENCE) == first.result()
    assert hash(first.result()) == hash(first.result())
    assert first.result() != second.result(PATIENCE)
    assert first.result() != "another thing"


def test_a_missing_topic_is_named(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    sender = producer(retry_backoff_ms=10, retry_backoff_max_ms=20)
    missing, fine = sender.send("ordres", "x"), sender.send("orders", "x")
    error = missing.exception(PATIENCE)
    assert isinstance(error, monedula.UnknownTopicError)
    assert error.topic == "ordres"
    assert "ordres" in str(error)
    with pytest.raises(monedula.UnknownTopicError):
        missing.result()
    assert fine.result(PATIENCE).offset == 0


def test_a_missing_partition_is_named(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders", 2)
    sender = producer(retry_backoff_ms=10, retry_backoff_max_ms=20)
    # While the topic is not known yet, and when it is: the partition may have been added a moment ago.
    for _ in range(2):
        error = sender.send("orders", "x", partition=7).exception(PATIENCE)
        assert isinstance(error, monedula.UnknownTopicError)
        assert (error.topic, error.partition) == ("orders", 7)
        assert "0 to 1" in str(error)


def test_a_partition_that_was_just_added_is_waited_for(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders", 1)
    sender = producer()
    sender.send("orders", "x").result(PATIENCE)
    broker.add_partitions("orders", 3)
    assert sender.send("orders", "x", partition=2).result(PATIENCE).partition == 2
    rows = pyarrow.table({"value": ["a", "b"], "partition": pyarrow.array([1, 2], pyarrow.int32())})
    assert sender.send_batch(rows, "orders").result(PATIENCE).acknowledged == 2


def test_health_says_what_is_under_way(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    sender = producer(linger_ms=0)
    sender.send("orders", "x").result(PATIENCE)
    held = broker.fault(api="Produce", hold=True)
    future = sender.send("orders", "x")
    held.wait(timeout=PATIENCE)
    health = sender.health()
    assert (health["records_unfinished"], health["requests_in_flight"], health["batches_in_flight"]) == (1, 1, 1)
    assert (list(health["batches_in_flight_by_broker"].values()), health["topics"]) == ([1], 1)
    held.release()
    future.result(PATIENCE)
    assert sender.health()["records_unfinished"] == 0


def test_a_denied_topic_is_an_error_of_its_own_kind(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    broker.fault(api="Produce", topic="orders", error="TOPIC_AUTHORIZATION_FAILED")
    error = producer().send("orders", "x").exception(PATIENCE)
    assert isinstance(error, monedula.errors.AuthorizationError)
    assert (error.topic, error.partition, error.code) == ("orders", 0, "TOPIC_AUTHORIZATION_FAILED")


def test_a_delivery_that_takes_too_long_says_so(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    fault = broker.fault(api="Produce", hold=True)
    sender = producer(delivery_timeout_ms=300, request_timeout_ms=200, linger_ms=0)
    error = sender.send("orders", "x").exception(PATIENCE)
    assert isinstance(error, monedula.errors.DeliveryTimeoutError)
    assert isinstance(error, TimeoutError)
    assert error.in_doubt
    assert (error.topic, error.partition) == ("orders", 0)
    assert "delivery.timeout.ms=300" in str(error)
    fault.remove()


def test_a_record_that_is_too_large_is_refused_at_once(producer: ProducerFactory) -> None:
    sender = producer(bootstrap_servers="127.0.0.1:1", max_request_size=1000)
    with pytest.raises(monedula.errors.RecordTooLargeError, match="1000"):
        sender.send("orders", b"x" * 1001)


def test_a_record_that_the_broker_finds_too_large_fails(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    sender = producer(max_request_size=8 << 20, batch_size=4 << 20)
    error = sender.send(topic, b"x" * (3 << 20)).exception(PATIENCE)
    assert isinstance(error, monedula.errors.RecordTooLargeError)
    assert topic in str(error)


def test_callbacks_run_on_one_thread_that_is_not_the_callers(ground: Ground, producer: ProducerFactory) -> None:
    called: list[tuple[int, monedula.SendFuture]] = []
    sender, topic = producer(), ground.topic()
    futures = [
        sender.send(topic, "x", on_delivery=lambda future: called.append((threading.get_ident(), future)))
        for _ in range(100)
    ]
    futures[0].result(PATIENCE)
    futures[0].add_done_callback(lambda future: called.append((threading.get_ident(), future)))
    sender.flush(PATIENCE)
    assert len(called) == 101
    threads = {thread for thread, _ in called}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}
    assert {id(future) for _, future in called} == {id(future) for future in futures}
    assert all(future.done() for _, future in called)


def test_a_callback_that_raises_is_logged_and_the_next_is_called(
    ground: Ground, producer: ProducerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no good")

    sender, topic, called = producer(), ground.topic(), threading.Event()
    sender.send(topic, "x", on_delivery=fail)
    sender.send(topic, "x", on_delivery=lambda _: called.set())
    with caplog.at_level(logging.ERROR, "monedula"):
        sender.flush(PATIENCE)
    assert called.is_set()
    (record,) = [record for record in caplog.records if record.name == "monedula.producer"]
    assert "a callback raised" in record.getMessage()
    assert record.exc_info is not None
    assert "no good" in str(record.exc_info[1])


class NoException(BaseException):
    """As `pytest.fail` raises."""


def test_a_callback_of_another_client_is_told_what_it_is_called_with(
    ground: Ground, producer: ProducerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def delivered(error: object, message: object) -> None:
        raise AssertionError((error, message))

    sender = producer()
    sender.send(ground.topic(), b"a", on_delivery=delivered)  # type: ignore[arg-type]
    sender.flush(timeout=30)
    (record,) = [record for record in caplog.records if "a callback raised" in record.getMessage()]
    assert "it is called with the future alone" in record.getMessage()


@pytest.mark.parametrize(
    "raised", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit, NoException, MemoryError]
)
def test_whatever_a_callback_raises_the_next_is_called(
    ground: Ground, producer: ProducerFactory, caplog: pytest.LogCaptureFixture, raised: type[BaseException]
) -> None:
    called: list[int] = []

    def wrong(_: monedula.SendFuture) -> None:
        raise raised

    def note(number: int, _: monedula.SendFuture) -> None:
        called.append(number)

    sender, topic = producer(), ground.topic()
    for number in range(20):
        sender.send(topic, "x", on_delivery=wrong)
        sender.send(topic, "x", on_delivery=partial(note, number))
    sender.flush(30)
    assert called == list(range(20))
    assert sum("a callback raised" in record.getMessage() for record in caplog.records) == 20
    sender.close(30)


def raise_in(thread: threading.Thread, error: type[BaseException]) -> None:
    """As code does that stops threads from outside."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(error))


def test_an_error_thrown_into_the_thread_for_callbacks_does_not_end_it(
    ground: Ground, producer: ProducerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[int] = []
    sender, topic, first = producer(), ground.topic(), threading.Event()
    before = set(threading.enumerate())

    def note(number: int, _: monedula.SendFuture) -> None:
        called.append(number)
        first.set()

    sender.send(topic, "x", on_delivery=partial(note, 0))
    assert first.wait(PATIENCE)
    (thread,) = [one for one in set(threading.enumerate()) - before if one.name == "monedula-callbacks"]
    for number in range(1, 4):
        raise_in(thread, SystemExit)
        for _ in range(2):
            sender.send(topic, "x", on_delivery=partial(note, number))
        sender.flush(PATIENCE)
    assert thread.is_alive()
    # Each error hit one callback, and no other.
    assert sum("a callback raised" in record.getMessage() for record in caplog.records) == 3
    assert called == [0, 1, 2, 3]


def test_a_thread_for_callbacks_that_ended_says_so_and_holds_nobody_up(
    ground: Ground, producer: ProducerFactory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[object] = []
    sender, topic = producer(), ground.topic()
    with monkeypatch.context() as patch:
        # It lets go of its desk, and calls nothing.
        patch.setattr(
            "monedula.producer._callback_thread.start", lambda desk: threading.Thread(target=id, args=(desk,)).start()
        )
        for _ in range(3):
            sender.send(topic, "x", on_delivery=called.append)
        sender.flush(PATIENCE)
    assert called == []
    assert any("thread that runs callbacks ended" in record.getMessage() for record in caplog.records)
    # The next callback has a thread of its own.
    sender.send(topic, "x", on_delivery=called.append)
    sender.flush(PATIENCE)
    assert len(called) == 1
    sender.close(PATIENCE)


def test_a_callback_may_send_and_flush(ground: Ground, producer: ProducerFactory) -> None:
    sender, topic, done = producer(), ground.topic(), threading.Event()

    def again(_: object) -> None:
        sender.send(topic, "second")
        sender.flush(PATIENCE)
        done.set()

    sender.send(topic, "first", on_delivery=again)
    assert done.wait(PATIENCE)
    assert [record.value for record in stored(ground.bootstrap, topic)] == [b"first", b"second"]


def test_the_thread_for_callbacks_ends_with_the_producer(ground: Ground) -> None:
    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "monedula-callbacks"]

    before = set(threads())
    sender = monedula.Producer(bootstrap_servers=ground.bootstrap)
    sender.send(ground.topic(), "x", on_delivery=lambda _: None).result(PATIENCE)
    (thread,) = set(threads()) - before
    sender.close()
    del sender
    gc.collect()
    thread.join(PATIENCE)
    assert not thread.is_alive()


async def test_a_future_can_be_awaited_in_any_loop(ground: Ground, producer: ProducerFactory) -> None:
    sender, topic = producer(), ground.topic()
    places = await asyncio.wait_for(asyncio.gather(*(sender.send(topic, str(n)) for n in range(1000))), PATIENCE)
    assert [place.offset for place in places] == list(range(1000))
    future = sender.send(topic, "x")
    assert await future == await future


async def test_a_future_goes_where_asyncios_own_do(broker: Broker, producer: ProducerFactory) -> None:
    """`asyncio.wait` was called back in another thread, and woke when something else did."""
    broker.create_topic("orders")
    sender = producer()
    sends: list[Any] = [sender.send("orders", str(number)) for number in range(10)]
    rows: Any = sender.send_batch(pyarrow.table({"value": ["a", "b"]}), "orders")
    done, pending = await asyncio.wait([*sends, rows], timeout=PATIENCE)
    assert (done, pending) == ({*sends, rows}, set())
    held = broker.fault(api="Produce", hold=True)
    late: Any = sender.send("orders", "late")
    done, pending = await asyncio.wait([late], timeout=0.01)
    assert (done, pending, late.cancelled()) == (set(), {late}, False)
    unwanted: list[object] = []
    called: asyncio.Future[threading.Thread] = asyncio.get_running_loop().create_future()
    late.add_done_callback(unwanted.append)
    late.add_done_callback(lambda _: called.set_result(threading.current_thread()))
    assert (late.remove_done_callback(unwanted.append), late.remove_done_callback(unwanted.append)) == (1, 0)
    held.remove()
    assert await asyncio.wait_for(called, PATIENCE) is threading.current_thread()
    assert not unwanted


async def test_awaiting_raises_what_went_wrong(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    broker.fault(api="Produce", error="TOPIC_AUTHORIZATION_FAILED", topic="orders")
    with pytest.raises(monedula.errors.AuthorizationError):
        await asyncio.wait_for(_of(producer().send("orders", "x")), PATIENCE)


async def test_a_cancelled_wait_does_not_end_the_sending(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    fault = broker.fault(api="Produce", hold=True)
    future = producer().send("orders", "x")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(_of(future), 0.1)
    fault.remove()
    place = await asyncio.wait_for(_of(future), PATIENCE)
    assert place.offset == 0


async def _of(future: monedula.SendFuture) -> monedula.RecordMetadata:
    return await future


def test_loops_that_come_and_go_leave_nothing(ground: Ground, producer: ProducerFactory) -> None:
    sender, topic = producer(), ground.topic()
    loops = []

    async def send() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await _of(sender.send(topic, "x"))

    for _ in range(3):
        asyncio.run(send())
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3


def test_forgotten_futures_are_not_kept(ground: Ground, producer: ProducerFactory) -> None:
    class Callback:
        def __call__(self, future: monedula.SendFuture) -> None:
            self.future = future

    sender, topic, callback = producer(), ground.topic(), Callback()
    gone = weakref.ref(callback)
    sender.send(topic, "x", on_delivery=callback)
    sender.flush(PATIENCE)
    del callback
    # The callback has the future, and the future nothing: no cycle is left for the collector.
    deadline = time.monotonic() + PATIENCE
    while gone() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_flush_waits_for_what_was_sent_and_raises_nothing_of_it(
    broker: Broker, producer: ProducerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("orders")
    broker.create_topic("denied")
    broker.fault(api="Produce", topic="denied", error="TOPIC_AUTHORIZATION_FAILED")
    sender = producer(linger_ms=60_000, delivery_timeout_ms=120_000)
    fine, failed = sender.send("orders", "x"), sender.send("denied", "x")
    with caplog.at_level(logging.WARNING, "monedula"):
        sender.flush(PATIENCE)
    assert fine.done()
    assert failed.done()
    assert "denied" in caplog.text
    assert sender.metrics()["records_failed"] == 1


def test_flush_is_bounded(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    fault = broker.fault(api="Produce", hold=True)
    sender = producer()
    future = sender.send("orders", "x")
    with pytest.raises(monedula.KafkaTimeoutError, match="flush"):
        sender.flush(timeout=0.2)
    fault.remove()
    sender.flush(PATIENCE)
    assert future.done()


def test_flush_without_time_says_whether_anything_is_left(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    sender = producer(linger_ms=0)
    for number in range(200):
        sender.send("orders", str(number)).result(PATIENCE)
        sender.flush(0)
    fault = broker.fault(api="Metadata", hold=True)
    sender.send("unknown", "x")
    with pytest.raises(monedula.KafkaTimeoutError, match="flush"):
        sender.flush(0)
    fault.remove()


def test_closing_delivers_and_is_an_end(ground: Ground) -> None:
    topic = ground.topic()
    sender = monedula.Producer(bootstrap_servers=ground.bootstrap, linger_ms=60_000, delivery_timeout_ms=120_000)
    future = sender.send(topic, "x")
    sender.close()
    assert future.result().offset == 0
    with pytest.raises(monedula.errors.ClosedError, match="the producer is closed"):
        sender.send(topic, "y")
    sender.flush()
    sender.close()
    assert sender.metrics()


def test_what_is_not_done_when_closing_is_over_fails(broker: Broker) -> None:
    broker.create_topic("orders")
    fault = broker.fault(api="Produce", hold=True)
    sender = monedula.Producer(bootstrap_servers=broker.bootstrap_servers)
    future = sender.send("orders", "x")
    fault.wait(1)
    sender.close(timeout=0.1)
    assert isinstance(future.exception(PATIENCE), monedula.errors.ClosedError)
    fault.remove()


def test_leaving_the_with_block_by_an_exception_delivers_too(ground: Ground) -> None:
    topic = ground.topic()

    def fail() -> None:
        with monedula.Producer(bootstrap_servers=ground.bootstrap, linger_ms=1000) as sender:
            sender.send(topic, "x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert len(stored(ground.bootstrap, topic)) == 1
