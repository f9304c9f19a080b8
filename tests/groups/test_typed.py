"""Members that decode values: records that cannot be decoded, with rebalances, failing brokers and several threads."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import monedula
import pyarrow as pa
import pytest
from monedula import Json
from monedula.testing import Broker

from tests.groups.ground import SETTINGS, TIMING

FIELDS: list[Any] = [("id", pa.int64()), ("pad", pa.string())]
SCHEMA = pa.schema(FIELDS)
PER_PARTITION = 400


def fill(broker: Broker, topic: str, partitions: int) -> tuple[set[int], Counter[bytes]]:
    """Sound records and broken ones by turns; returns the ids of the former and the values of the latter."""
    ids, broken = set(), Counter[bytes]()
    for partition in range(partitions):
        values: list[str] = []
        for number in range(partition * PER_PARTITION, (partition + 1) * PER_PARTITION):
            if number % 7 in (0, 3):
                values.append(f'{{"id": {number}, "pad": ')
                broken[values[-1].encode()] += 1
            else:
                values.append(json.dumps({"pad": "x" * (number % 50), "id": number}))
                ids.add(number)
        for first in range(0, PER_PARTITION, 50):
            broker.append(topic, values[first : first + 50], partition=partition)
    return ids, broken


def rows_of(batch: monedula.Batch) -> list[Any]:
    return list(batch.records())


def behind(error: monedula.DecodeError) -> int:
    assert error.next_offset is not None
    return error.next_offset


def letters_of(broker: Broker, topic: str) -> list[monedula.Record]:
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, topic, headers=True) as stream:
        return [record for batch in stream for record in batch.records()]


def settings_of(broker: Broker, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        **TIMING,
    }


@pytest.fixture
def orders() -> Iterator[Broker]:
    with Broker(topics={"orders": 1, "failed": 1}, settings=SETTINGS) as broker:
        yield broker


@pytest.mark.parametrize(
    "nodes", [1, 3, pytest.param(9, marks=pytest.mark.thorough), pytest.param(50, marks=pytest.mark.thorough)]
)
def test_nothing_is_lost_while_members_come_and_go(nodes: int) -> None:
    partitions = 12
    with Broker(nodes=nodes, topics={"orders": partitions, "failed": 1}, settings=SETTINGS) as broker:
        ids, broken = fill(broker, "orders", partitions)
        got: Counter[int] = Counter()
        lock = threading.Lock()

        def member(most_batches: int | None) -> None:
            value = Json(SCHEMA, dead_letter="failed")
            with monedula.Consumer(settings_of(broker, "etl"), ["orders"], value=value) as consumer:
                batches = consumer.batches(max_rows=100, max_wait=0.0, until="latest", timeout=60.0)
                for taken, batch in enumerate(batches, 1):
                    with lock:
                        got.update(record.value["id"] for record in rows_of(batch))
                    if taken == most_batches:
                        break

        leaving = [threading.Thread(target=member, args=(count,)) for count in (2, 5)]
        for thread in leaving:
            thread.start()
        for thread in leaving:
            thread.join()
        member(None)
        assert set(got) == ids
        letters = letters_of(broker, "failed")
        # A batch that a leaving member had not finished comes again, and so may its dead letters.
        assert {record.value for record in letters} == set(broken)
        with monedula.Consumer(settings_of(broker, "etl")) as watching:
            committed = watching.committed([("orders", partition) for partition in range(partitions)])
        assert {partition.partition: at and at.offset for partition, at in committed.items()} == dict.fromkeys(
            range(partitions), PER_PARTITION
        )


@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_dead_letter_that_cannot_be_written_is_raised_and_tried_again(orders: Broker, face: str) -> None:
    orders.append("orders", ['{"id": 1}', "broken", '{"id": 3}'])
    settings = settings_of(orders, "etl")
    value = Json(SCHEMA, dead_letter="failed")
    refused = orders.fault(api="Produce", topic="failed", error="MESSAGE_TOO_LARGE")
    if face == "sync":
        with monedula.Consumer(settings, ["orders"], value=value) as consumer:
            assert [record.offset for record in consumer.poll(timeout=30).records()] == [0]
            with pytest.raises(monedula.KafkaError):
                consumer.poll(timeout=30)
            assert consumer.commit() == {("orders", 0): 1}
            refused.remove()
            assert [record.offset for record in consumer.poll(timeout=30).records()] == [2]
            assert consumer.commit() == {("orders", 0): 3}
    else:

        async def main() -> None:
            async with monedula.AsyncConsumer(settings, ["orders"], value=value) as consumer:
                assert [record.offset for record in (await consumer.poll(timeout=30)).records()] == [0]
                with pytest.raises(monedula.KafkaError):
                    await consumer.poll(timeout=30)
                assert await consumer.commit() == {("orders", 0): 1}
                refused.remove()
                assert [record.offset for record in (await consumer.poll(timeout=30)).records()] == [2]
                assert await consumer.commit() == {("orders", 0): 3}

        asyncio.run(main())
    assert [record.value for record in letters_of(orders, "failed")] == [b"broken"]


def test_a_consumer_that_is_closed_before_its_dead_letter_is_written_commits_nothing(orders: Broker) -> None:
    orders.append("orders", ["broken", '{"id": 1}'])
    with orders.fault(api="Produce", topic="failed", error="MESSAGE_TOO_LARGE"):
        consumer = monedula.Consumer(settings_of(orders, "etl"), ["orders"], value=Json(SCHEMA, dead_letter="failed"))
        with pytest.raises(monedula.KafkaError):
            consumer.poll(timeout=30)
        consumer.close()
    with monedula.Consumer(settings_of(orders, "etl"), ["orders"], value=Json(SCHEMA, mode="drop")) as consumer:
        assert [at and at.offset for at in consumer.committed([("orders", 0)]).values()] == [0]
        assert [record.offset for record in consumer.poll(timeout=30).records()] == [1]


def test_a_thread_that_ends_before_its_dead_letter_is_written_holds_nothing_up(orders: Broker) -> None:
    orders.append("orders", ["broken", '{"id": 1}'])
    refused = orders.fault(api="Produce", topic="failed", error="MESSAGE_TOO_LARGE")
    value = Json(SCHEMA, dead_letter="failed")
    raised: list[monedula.KafkaError] = []

    def poll(consumer: monedula.Consumer) -> None:
        try:
            consumer.poll(timeout=30)
        except monedula.KafkaError as error:
            raised.append(error)

    with monedula.Consumer(settings_of(orders, "etl"), ["orders"], value=value) as consumer:
        thread = threading.Thread(target=poll, args=(consumer,))
        thread.start()
        thread.join()
        assert len(raised) == 1
        consumer.unsubscribe(timeout=30)
        refused.remove()
        with monedula.Consumer(settings_of(orders, "etl"), ["orders"], value=value) as other:
            assert [record.offset for record in other.poll(timeout=30).records()] == [1]


def test_another_thread_goes_on_where_a_dead_letter_could_not_be_written(orders: Broker) -> None:
    orders.append("orders", ['{"id": 0}', "broken", '{"id": 2}'])
    orders.append("orders", ['{"id": 3}'])
    refused = orders.fault(api="Produce", topic="failed", error="MESSAGE_TOO_LARGE")
    value = Json(SCHEMA, dead_letter="failed")
    with monedula.Consumer(settings_of(orders, "etl"), ["orders"], value=value) as consumer:
        got: list[int | None] = []
        raised: list[monedula.KafkaError] = []

        def poll() -> None:
            got.extend(record.offset for record in consumer.poll(timeout=30, max_rows=3).records())
            try:
                consumer.poll(timeout=30, max_rows=3)
            except monedula.KafkaError as error:
                raised.append(error)

        thread = threading.Thread(target=poll)
        thread.start()
        thread.join()
        assert (got, len(raised)) == ([0], 1)
        refused.remove()
        while len(got) < 3:
            got += [record.offset for record in consumer.poll(timeout=30).records()]
        assert got == [0, 2, 3]
        assert consumer.commit() == {("orders", 0): 4}
    assert [record.value for record in letters_of(orders, "failed")] == [b"broken"]


def test_another_task_goes_on_where_a_dead_letter_could_not_be_written(orders: Broker) -> None:
    orders.append("orders", ['{"id": 0}', "broken", '{"id": 2}'])
    refused = orders.fault(api="Produce", topic="failed", error="MESSAGE_TOO_LARGE")

    async def main() -> None:
        value = Json(SCHEMA, dead_letter="failed")
        async with monedula.AsyncConsumer(settings_of(orders, "etl"), ["orders"], value=value) as consumer:
            rows = await asyncio.create_task(consumer.poll(timeout=30))
            assert [record.offset for record in rows.records()] == [0]
            consumer.finish(rows)
            with pytest.raises(monedula.KafkaError):
                await asyncio.create_task(consumer.poll(timeout=30))
            refused.remove()
            assert [record.offset for record in (await consumer.poll(timeout=30)).records()] == [2]
            assert await consumer.commit() == {("orders", 0): 3}

    asyncio.run(main())
    assert [record.value for record in letters_of(orders, "failed")] == [b"broken"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_dead_letter_that_can_never_be_written_holds_no_rebalance_up(orders: Broker, protocol: str) -> None:
    orders.create_topic("wide", 2)
    orders.append("wide", ["broken"], partition=0)
    orders.append("wide", ["broken"], partition=1)
    settings = {**settings_of(orders, "etl"), "group.protocol": protocol}
    value = Json(SCHEMA, dead_letter="failed")
    with (
        orders.fault(api="Produce", topic="failed", error="MESSAGE_TOO_LARGE"),
        monedula.Consumer(settings, ["wide"], value=value) as first,
    ):
        with pytest.raises(monedula.KafkaError):
            first.poll(timeout=30)
        with monedula.Consumer(settings, ["wide"], value=Json(SCHEMA, mode="drop")) as second:
            while not second.assignment():
                second.poll(timeout=0.05)
                with pytest.raises(monedula.KafkaError):
                    first.poll(timeout=30)


@pytest.mark.parametrize("letters", [None, "failed"], ids=["dropped", "written"])
def test_a_partition_of_bad_records_alone_is_committed(orders: Broker, letters: str | None) -> None:
    orders.append("orders", ["broken"] * 30)
    value = Json(SCHEMA, mode="drop") if letters is None else Json(SCHEMA, dead_letter=letters)
    with monedula.Consumer(settings_of(orders, "etl"), ["orders"], value=value) as consumer:
        assert list(consumer.batches(until="latest", timeout=30.0)) == []
        assert consumer.commit() in ({("orders", 0): 30}, {})
        assert [at and at.offset for at in consumer.committed([("orders", 0)]).values()] == [30]
    assert len(letters_of(orders, "failed")) == (0 if letters is None else 30)


def test_a_seek_while_a_dead_letter_waits_is_obeyed(orders: Broker) -> None:
    orders.append("orders", ['{"id": 0}', "broken", '{"id": 2}', '{"id": 3}'])
    refused = orders.fault(api="Produce", topic="failed", error="MESSAGE_TOO_LARGE")
    with monedula.Consumer(
        settings_of(orders, "etl"), ["orders"], value=Json(SCHEMA, dead_letter="failed")
    ) as consumer:
        assert [record.offset for record in consumer.poll(timeout=30).records()] == [0]
        with pytest.raises(monedula.KafkaError):
            consumer.poll(timeout=30)
        consumer.seek(("orders", 0), 3)
        refused.remove()
        assert [record.offset for record in consumer.poll(timeout=30).records()] == [3]


@pytest.mark.parametrize(("columns", "max_rows"), [(["value"], 1000), (None, 1)])
def test_whoever_seeks_behind_each_letter_that_cannot_be_written_loses_that_record_alone(
    columns: list[str] | None, max_rows: int
) -> None:
    with Broker(topics={"orders": 3}) as broker:
        ids, broken = fill(broker, "orders", 3)
        seen, raised = Counter[int](), 0
        value = Json(SCHEMA, dead_letter="orders")
        settings = {**settings_of(broker, "etl"), "fetch.max.wait.ms": 5}
        with monedula.Consumer(settings, ["orders"], value=value, columns=columns) as consumer:
            while True:
                try:
                    for batch in consumer.batches(until="latest", timeout=30.0, max_rows=max_rows):
                        seen.update(row.value["id"] for row in rows_of(batch))
                    break
                except monedula.DecodeError as error:
                    consumer.seek(("orders", cast("int", error.partition)), behind(error))
                    raised += 1
            consumer.commit()
            committed = consumer.committed([("orders", partition) for partition in range(3)])
            assert [at and at.offset for at in committed.values()] == [PER_PARTITION] * 3
    assert set(seen) == ids
    assert raised == broken.total()
    assert set(seen.values()) == {1}


def test_rows_before_a_letter_that_cannot_be_written_are_committed_up_to_it(orders: Broker) -> None:
    orders.append("orders", ['{"id": 0}', "broken", '{"id": 2}', '{"id": 3}'])
    refused = orders.fault(api="Produce", topic="failed", error="MESSAGE_TOO_LARGE")
    settings, value = settings_of(orders, "etl"), Json(SCHEMA, dead_letter="failed")

    def committed(consumer: monedula.Consumer) -> list[int | None]:
        return [at and at.offset for at in consumer.committed([("orders", 0)]).values()]

    with monedula.Consumer(settings, ["orders"], value=value) as consumer:
        assert [record.offset for record in consumer.poll(timeout=30).records()] == [0]
        with pytest.raises(monedula.KafkaError):
            consumer.poll(timeout=30)
        consumer.commit()
        assert committed(consumer) == [1]
        refused.remove()
        assert [record.offset for record in consumer.poll(timeout=30).records()] == [2, 3]
        consumer.commit()
        assert committed(consumer) == [4]
    assert [letter.value for letter in letters_of(orders, "failed")] == [b"broken"]


def test_rows_before_such_a_letter_go_to_whoever_polls_next(orders: Broker) -> None:
    orders.append("orders", ['{"id": 0}', '{"id": 1}', "broken", '{"id": 3}'])
    refused = orders.fault(api="Produce", topic="failed", error="MESSAGE_TOO_LARGE")
    with monedula.Consumer(
        settings_of(orders, "etl"), ["orders"], value=Json(SCHEMA, dead_letter="failed")
    ) as consumer:
        assert [record.offset for record in consumer.poll(timeout=30, max_rows=1).records()] == [0]
        got: list[Any] = []

        def other() -> None:
            got.extend(consumer.poll(timeout=30).records())
            with pytest.raises(monedula.KafkaError) as raised:
                consumer.poll(timeout=30)
            got.append(raised.value)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert got[0].offset == 1
        assert isinstance(got[1], monedula.KafkaError)
        refused.remove()
        assert [record.offset for record in consumer.poll(timeout=30).records()] == [3]


def test_run_handles_decoded_records_and_their_keys(orders: Broker) -> None:
    orders.append("orders", [('{"id": 1}', '{"id": 10}'), ('{"id": 1}', "broken"), ('{"id": 2}', '{"id": 30}')])
    seen: list[tuple[Any, Any]] = []
    key, value = Json(pa.schema(FIELDS[:1])), Json(pa.schema(FIELDS[:1]), dead_letter="failed")
    with monedula.Consumer(settings_of(orders, "etl"), ["orders"], headers=True, key=key, value=value) as consumer:
        consumer.run(lambda record: seen.append((record.key, record.value)), until="latest")
        assert sorted(seen, key=repr) == [({"id": 1}, {"id": 10}), ({"id": 2}, {"id": 30})]
        with pytest.raises(monedula.ArgumentError, match="dead letters have the bytes of records"):
            consumer.run(lambda record: None, until="latest", dead_letter="failed")  # noqa: ARG005
    assert len(letters_of(orders, "failed")) == 1


@pytest.mark.parametrize("face", ["sync", "async"])
def test_run_to_the_latest_handles_what_waits_for_dead_letters(orders: Broker, face: str) -> None:
    orders.append("orders", ["broken", '{"id": 1}'])
    settings, value, seen = settings_of(orders, "etl"), Json(SCHEMA, dead_letter="failed"), list[Any]()
    with orders.fault(api="Produce", topic="failed", delay_ms=500):
        if face == "sync":
            with monedula.Consumer(settings, ["orders"], value=value) as consumer:
                consumer.run(lambda record: seen.append(record.offset), until="latest")
        else:

            async def main() -> None:
                async with monedula.AsyncConsumer(settings, ["orders"], value=value) as consumer:
                    await consumer.run(lambda record: seen.append(record.offset), until="latest")

            asyncio.run(main())
    assert seen == [1]


def test_run_handles_all_records_before_one_that_cannot_be_decoded(
    orders: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.append("orders", [*(f'{{"id": {number}}}' for number in range(10)), "broken", '{"id": 11}'])
    seen: list[Any] = []
    asked, real = threading.Event(), monedula.Consumer._next

    def handle(record: Any) -> None:
        # The reader has come to the broken record by now.
        assert asked.wait(30)
        seen.append(record.offset)

    with monedula.Consumer(settings_of(orders, "etl"), ["orders"], value=Json(SCHEMA)) as consumer:

        def next_batch(*arguments: Any) -> Any:
            had_rows = consumer.position(("orders", 0)) == 10 if consumer.assignment() else False
            try:
                return real(consumer, *arguments)
            finally:
                if had_rows:
                    asked.set()

        monkeypatch.setattr(consumer, "_next", next_batch)
        with pytest.raises(monedula.DecodeError) as raised:
            consumer.run(handle, concurrency=2, order="none")
        assert (sorted(seen), raised.value.offset) == (list(range(10)), 10)
        assert consumer.position(("orders", 0)) == 10
        committed = consumer.committed()[monedula.TopicPartition("orders", 0)]
        assert committed is not None
        assert committed.offset == 10
        consumer.seek(("orders", 0), behind(raised.value))
        consumer.run(handle, until="latest")
        assert seen[10:] == [11]


def test_async_run_handles_all_records_before_one_that_cannot_be_decoded(
    orders: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.append("orders", [*(f'{{"id": {number}}}' for number in range(10)), "broken", '{"id": 11}'])
    seen: list[Any] = []
    real = monedula.AsyncConsumer._step

    async def main() -> None:
        asked = asyncio.Event()

        async def handle(record: Any) -> None:
            await asyncio.wait_for(asked.wait(), 30)
            seen.append(record.offset)

        settings = settings_of(orders, "etl")
        async with monedula.AsyncConsumer(settings, ["orders"], value=Json(SCHEMA)) as consumer:

            async def step(*arguments: Any) -> Any:
                had_rows = consumer.position(("orders", 0)) == 10 if consumer.assignment() else False
                try:
                    return await real(consumer, *arguments)
                finally:
                    if had_rows:
                        asked.set()

            monkeypatch.setattr(consumer, "_step", step)
            with pytest.raises(monedula.DecodeError) as raised:
                await consumer.run(handle, concurrency=2, order="none")
            assert (sorted(seen), raised.value.offset) == (list(range(10)), 10)
            consumer.seek(("orders", 0), behind(raised.value))
            await consumer.run(handle, until="latest")
            assert seen[10:] == [11]

    asyncio.run(main())


@pytest.mark.parametrize("face", ["sync", "async"])
def test_rows_that_were_given_back_are_not_skipped_by_the_seek_behind_an_error(orders: Broker, face: str) -> None:
    orders.append("orders", [*(f'{{"id": {number}}}' for number in range(10)), "broken", '{"id": 11}'])
    settings, value, offsets = settings_of(orders, "etl"), Json(SCHEMA), list[Any]()
    if face == "sync":
        with monedula.Consumer(settings, ["orders"], value=value) as consumer:
            while 11 not in offsets:
                try:
                    for record in consumer.records(timeout=20):
                        offsets.append(record.offset)
                        if record.offset in (3, 11):
                            break
                except monedula.DecodeError as error:
                    consumer.seek(("orders", 0), behind(error))
            assert consumer.commit() == {("orders", 0): 12}
    else:

        async def main() -> None:
            async with monedula.AsyncConsumer(settings, ["orders"], value=value) as consumer:
                while 11 not in offsets:
                    try:
                        async for record in consumer.records(timeout=20):
                            offsets.append(record.offset)
                            if record.offset in (3, 11):
                                break
                    except monedula.DecodeError as error:
                        consumer.seek(("orders", 0), behind(error))
                assert await consumer.commit() == {("orders", 0): 12}

        asyncio.run(main())
    assert offsets == [*range(10), 11]
