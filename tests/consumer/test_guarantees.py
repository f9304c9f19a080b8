"""What the guides say of commits after exceptions, of concurrency in transactions, and of reads that are repeated."""

import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any

import monedula
import polars as pl
import pytest
from monedula.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    topics = {"orders": 3, "output": 1}
    with Broker(topics=topics, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


def settings(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}


def polled(consumer: monedula.Consumer) -> monedula.Batch:
    while not (batch := consumer.poll(timeout=10.0, max_rows=2)):
        pass
    return batch


def committed(broker: Broker) -> int | None:
    return broker.group("etl").offsets.get(("orders", 0))


def test_an_exception_behind_a_poll_commits_what_came_before_its_batch(broker: Broker) -> None:
    broker.append("orders", [str(number) for number in range(6)])
    group = {**settings(broker), "group.id": "etl"}
    for first in (0, 2):
        with suppress(ZeroDivisionError), monedula.Consumer(group, topics=["orders"]) as consumer:
            assert polled(consumer).offsets == {("orders", 0): first + 2}
            assert polled(consumer).offsets == {("orders", 0): first + 4}
            raise ZeroDivisionError
        assert committed(broker) == first + 2


def test_a_batch_whose_exception_is_caught_is_finished_by_the_next_poll(broker: Broker) -> None:
    broker.append("orders", [str(number) for number in range(4)])
    group = {**settings(broker), "group.id": "etl"}
    with suppress(ZeroDivisionError), monedula.Consumer(group, topics=["orders"]) as consumer:
        first = polled(consumer).offsets
        with suppress(ZeroDivisionError):
            raise ZeroDivisionError
        polled(consumer)
        raise ZeroDivisionError
    assert (first, committed(broker)) == ({("orders", 0): 2}, 2)


def test_a_rewind_before_the_next_poll_reads_the_batch_again(broker: Broker) -> None:
    broker.append("orders", [str(number) for number in range(4)])
    group = {**settings(broker), "group.id": "etl"}
    with suppress(ZeroDivisionError), monedula.Consumer(group, topics=["orders"]) as consumer:
        first = polled(consumer)
        consumer.rewind()
        assert polled(consumer).offsets == first.offsets
        raise ZeroDivisionError
    assert committed(broker) in (None, 0)


def test_a_transaction_takes_what_a_pool_sends_in_the_order_of_each_key(broker: Broker) -> None:
    random = Random(0)
    keys = [random.choice("abcdefgh") for _ in range(400)]
    broker.append("orders", [(key, f"{number}") for number, key in enumerate(keys)])
    group = {**settings(broker), "group.id": "etl", "enable.auto.commit": False}
    lanes = [ThreadPoolExecutor(1) for _ in range(4)]
    failed = False
    with (
        monedula.Consumer(group, topics=["orders"]) as consumer,
        monedula.Producer({**settings(broker), "transactional.id": "etl-1"}) as producer,
    ):

        def handle(record: monedula.Record) -> None:
            time.sleep(random.random() / 1000)  # work of different length: the lanes overtake each other
            producer.send("output", record.value, record.key)

        for batch in consumer.batches(max_rows=100, until="latest"):
            try:
                with producer.transaction(consumer):
                    done = [lanes[zlib.crc32(each.key or b"") % 4].submit(handle, each) for each in batch.records()]
                    for each in done:
                        each.result()
                    if not failed:
                        failed = True
                        raise ZeroDivisionError
            except ZeroDivisionError:
                continue
    for lane in lanes:
        lane.shutdown()
    assert failed
    by_key: dict[bytes, list[int]] = defaultdict(list)
    reader = {**settings(broker), "isolation.level": "read_committed"}
    for batch in monedula.read(reader, "output"):
        for record in batch.records():
            by_key[record.key].append(int(record.value))  # type: ignore[index, arg-type]
    assert sorted(number for numbers in by_key.values() for number in numbers) == list(range(400))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert committed(broker) == 400


def test_the_same_offsets_have_the_same_records_in_the_order_of_each_partition(broker: Broker) -> None:
    for partition in range(3):
        broker.append("orders", [f"{partition} {number}" for number in range(1000)], partition=partition)
    with monedula.read(settings(broker), "orders", start=100) as stream:
        ranges, first = stream.ranges, stream.to_polars()
    broker.append("orders", ["more"], partition=1)
    ends: list[Any] = [{at: offsets[side] for at, offsets in ranges.items()} for side in (0, 1)]
    again = monedula.read(settings(broker), [*ranges], start=ends[0], end=ends[1], max_rows=7).to_polars()
    for partition in range(3):
        assert again.filter(pl.col("partition") == partition).equals(first.filter(pl.col("partition") == partition))
    assert again.sort("partition", "offset").equals(first.sort("partition", "offset"))
