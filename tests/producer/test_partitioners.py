"""Partitioners: by name, and as functions of the user's."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import monedula
import pyarrow
import pytest
from monedula.errors import ClosedError
from monedula.testing import Broker

from tests.groups.ground import Ground, until
from tests.producer.conftest import ProducerFactory, stored

PATIENCE = 30.0


def last_digit(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:  # noqa: ARG001
    assert key is not None
    return int(key) % partitions


def test_a_function_chooses(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic(5)
    with producer(partitioner=last_digit) as sender:
        # The first of these are sent before anybody knows how many partitions there are.
        futures = [sender.send(topic, str(number), key=str(number)) for number in range(200)]
        places = [future.result(PATIENCE) for future in futures]
        assert sender.send(topic, "x", key="1", partition=4).result(PATIENCE).partition == 4
        assert sender.send(topic, "x", key="7").result(PATIENCE).partition == 2
    assert [place.partition for place in places] == [number % 5 for number in range(200)]
    assert [place.offset for place in places] == [number // 5 for number in range(200)]


def test_a_record_with_a_partition_does_not_overtake_those_that_a_function_gets(
    broker: Broker, producer: ProducerFactory
) -> None:
    broker.create_topic("orders")
    with producer(partitioner=lambda *_: 0) as sender:
        # The first ones wait for the number of partitions, which the others do not need.
        futures = [sender.send("orders", str(number), partition=0 if number % 3 else None) for number in range(30)]
        assert [future.result(PATIENCE).offset for future in futures] == list(range(30))


async def test_nor_in_a_loop(broker: Broker) -> None:
    broker.create_topic("orders")
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    async with monedula.AsyncProducer(settings, partitioner=lambda *_: 0) as sender, asyncio.timeout(PATIENCE):
        futures = [sender.send("orders", str(number), partition=0 if number % 3 else None) for number in range(30)]
        assert [(await future).offset for future in futures] == list(range(30))


def numbered(numbers: range) -> pyarrow.Table:
    return pyarrow.table({"value": [str(number) for number in numbers], "partition": [0] * len(numbers)})


@pytest.mark.parametrize("verb", ["send_many", "send_batch"])
def test_nor_do_many_records_and_rows(broker: Broker, producer: ProducerFactory, verb: str) -> None:
    broker.create_topic("orders")
    with producer(partitioner=lambda *_: 0) as sender:
        with broker.fault(api="Metadata", hold=True):
            for number in range(300):
                sender.send("orders", str(number))
        if verb == "send_many":
            report = sender.send_many("orders", map(str, range(300, 400))).result(PATIENCE)
        else:
            report = sender.send_batch(numbered(range(300, 400)), "orders").result(PATIENCE)
    assert report.offsets == {("orders", 0): [(300, 399)]}


@pytest.mark.parametrize("verb", ["send_many", "send_batch"])
async def test_nor_do_they_in_a_loop(broker: Broker, verb: str) -> None:
    broker.create_topic("orders")
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    async with monedula.AsyncProducer(settings, partitioner=lambda *_: 0) as sender, asyncio.timeout(PATIENCE):
        with broker.fault(api="Metadata", hold=True):
            futures = [sender.send("orders", str(number)) for number in range(3000)]
        if verb == "send_many":
            report = await sender.send_many("orders", map(str, range(100)))
        else:
            report = await sender.send_batch(numbered(range(100)), "orders")
        assert report.offsets == {("orders", 0): [(3000, 3099)]}
        await asyncio.gather(*futures)


def test_rows_do_not_wait_for_another_topic(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("known")
    broker.create_topic("new")
    sender = producer(partitioner=lambda *_: 0)
    sender.send("known", "x").result(PATIENCE)
    held = broker.fault(api="Metadata", hold=True)
    waiting = sender.send("new", "x")
    held.wait(1)
    assert sender.send_batch(numbered(range(3)), "known").result(PATIENCE).acknowledged == 3
    assert not waiting.done()
    held.remove()
    waiting.result(PATIENCE)


def test_a_function_must_not_send_rows_behind_its_own_record(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    sender: monedula.Producer = producer(
        partitioner=lambda *_: sender.send_batch(numbered(range(3)), "orders").result(PATIENCE).failed
    )
    with pytest.raises(monedula.ArgumentError, match=r"send_batch\(\) cannot be called by a partitioner"):
        sender.send("orders", "x").result(PATIENCE)


@pytest.mark.parametrize("verb", ["flush", "close"])
def test_a_function_must_not_wait_for_its_own_record(broker: Broker, producer: ProducerFactory, verb: str) -> None:
    broker.create_topic("orders")
    sender: monedula.Producer = producer(partitioner=lambda *_: getattr(sender, verb)() or 0)
    with pytest.raises(monedula.ArgumentError, match=rf"{verb}\(\) cannot be called by a partitioner"):
        sender.send("orders", "x").result(PATIENCE)


def test_it_is_given_bytes(ground: Ground, producer: ProducerFactory) -> None:
    given: list[tuple[Any, ...]] = []

    def note(*arguments: Any) -> int:
        given.append(arguments)
        return 0

    topic = ground.topic(2)
    with producer(partitioner=note) as sender:
        sender.partitions_for(topic, PATIENCE)
        sender.send(topic, bytearray(b"a value"), key="a key").result(PATIENCE)
        sender.send(topic).result(PATIENCE)
    assert given == [(topic, b"a key", b"a value", 2), (topic, None, None, 2)]


def test_the_wait_for_partitions_is_part_of_the_delivery(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    broker.create_topic("known")
    sender = producer(partitioner=lambda *_: 0, delivery_timeout_ms=1000)
    # Connected: without a connection that would be what the futures tell of.
    sender.partitions_for("known", PATIENCE)
    held = broker.fault(api="Metadata", hold=True)
    # The lookup alone would have default.api.timeout.ms, a minute.
    errors = [future.exception(PATIENCE) for future in [sender.send("orders", "x") for _ in range(3)]]
    assert [type(error) for error in errors] == [monedula.errors.DeliveryTimeoutError] * 3
    assert "delivery.timeout.ms=1000" in str(errors[0])
    held.remove()


@pytest.mark.parametrize("chosen", [2, -1, None, "0", 0.0])
def test_a_choice_that_does_not_do(ground: Ground, producer: ProducerFactory, chosen: Any) -> None:
    topic = ground.topic(2)
    sender = producer(partitioner=lambda *_: chosen)
    told = f"the partitioner chose {chosen!r} for {topic}: expected 0 to 1"
    # Not known yet: the future has it. Known: whoever sends.
    with pytest.raises(monedula.ArgumentError, match=told):
        sender.send(topic, "x").result(PATIENCE)
    sender.flush(PATIENCE)
    with pytest.raises(monedula.ArgumentError, match=told):
        sender.send(topic, "x")


def test_a_function_that_raises(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic(2)
    sender = producer(partitioner=last_digit)
    with pytest.raises(ValueError, match="invalid literal"):
        sender.send(topic, "x", key="no number").result(PATIENCE)
    assert sender.send(topic, "x", key="1").result(PATIENCE).partition == 1


def test_a_topic_that_is_not_known_keeps_neither_caller_nor_other_topics_waiting(
    broker: Broker, producer: ProducerFactory
) -> None:
    broker.create_topic("known")
    broker.create_topic("new")
    for partitioner in ("murmur2", last_digit):
        sender = producer(partitioner=partitioner)
        sender.send("known", "x", key="0").result(PATIENCE)
        held = broker.fault(api="Metadata", hold=True)
        waiting = sender.send("new", "x", key="0")
        held.wait(1)
        assert sender.send("known", "y", key="0").result(PATIENCE).partition == 0
        assert not waiting.done()
        held.remove()
        assert waiting.result(PATIENCE).topic == "new"


def test_a_missing_topic_fails_and_no_other(broker: Broker, producer: ProducerFactory) -> None:
    broker.create_topic("orders")
    sender = producer(partitioner=last_digit, retry_backoff_ms=10, retry_backoff_max_ms=20)
    missing = [sender.send("ordres", "x", key="0") for _ in range(3)]
    assert sender.send("orders", "x", key="0").result(PATIENCE).offset == 0
    for future in missing:
        assert isinstance(future.exception(PATIENCE), monedula.UnknownTopicError)


def test_rows_are_not_given_to_a_function(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic(2)
    sender = producer(partitioner=last_digit)
    table = pyarrow.table({"value": ["x"]})
    with pytest.raises(monedula.ArgumentError, match='rows have no column "partition"'):
        sender.send_batch(table, topic)
    table = table.append_column("partition", pyarrow.array([1], pyarrow.int32()))
    assert sender.send_batch(table, topic).result(PATIENCE).offsets == {(topic, 1): [(0, 0)]}


def test_threads_send_at_once(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic(4)
    sender = producer(partitioner=last_digit, linger_ms=1)
    futures: dict[int, list[monedula.SendFuture]] = {}

    def send(number: int) -> None:
        futures[number] = [sender.send(topic, f"{number} {n}", key=str(number)) for n in range(500)]

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    sender.flush(PATIENCE)
    assert sum(len(sent) for sent in futures.values()) == 4000
    records = stored(ground.bootstrap, topic)
    for number in range(8):
        mine = [record for record in records if (record.value or b"").split()[0] == str(number).encode()]
        assert {record.partition for record in mine} == {number % 4}
        assert [int((record.value or b"").split()[1]) for record in mine] == list(range(500))


async def test_closing_ends_the_wait_for_partitions_and_leaves_no_future_open(broker: Broker) -> None:
    broker.fault(api="Metadata", drop=True)
    sender = monedula.AsyncProducer(bootstrap_servers=broker.bootstrap_servers, partitioner=lambda *_: 0)
    futures = [sender.send("orders", b"x") for _ in range(20)]
    asked = asyncio.create_task(sender.partitions_for("orders"))
    await asyncio.sleep(0)
    await sender.close(0.2)
    assert all(future.done() for future in futures)
    for future in futures:
        with pytest.raises(ClosedError, match="the producer is closed"):
            await future
    with pytest.raises(ClosedError, match="the producer is closed"):
        await asked


def test_closing_ends_the_wait_for_partitions_of_other_threads(broker: Broker) -> None:
    broker.fault(api="Metadata", drop=True)
    sender = monedula.Producer(bootstrap_servers=broker.bootstrap_servers, partitioner=lambda *_: 0)
    future = sender.send("orders", b"x")
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(sender.partitions_for, "orders")
        until(lambda: len(sender._lookups) == 2)
        sender.close(0.2)
        assert future.done()
        for wait in (future, asked):
            with pytest.raises(ClosedError, match="the producer is closed"):
                wait.result(PATIENCE)


async def test_a_function_chooses_in_a_loop_too(ground: Ground) -> None:
    topic = ground.topic(5)
    async with monedula.AsyncProducer(bootstrap_servers=ground.bootstrap, partitioner=last_digit) as sender:
        places = await asyncio.gather(*(sender.send(topic, "x", key=str(number)) for number in range(50)))
        assert [place.partition for place in places] == [number % 5 for number in range(50)]
        assert await sender.partitions_for(topic) == list(range(5))


@pytest.mark.parametrize(
    "name", ["murmur2", "consistent", "consistent_random", "murmur2_random", "fnv1a", "fnv1a_random"]
)
def test_partitioners_by_name(ground: Ground, producer: ProducerFactory, name: str) -> None:
    topic = ground.topic(5)
    sender = producer(partitioner=name)
    places = [sender.send(topic, "x", key=f"key {number % 20}").result(PATIENCE).partition for number in range(40)]
    assert places[:20] == places[20:]
    assert len(set(places)) > 1
