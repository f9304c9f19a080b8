import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import monedula
import numpy as np
import pytest

from tests.conftest import TopicFactory
from tests.consumer.conftest import ConsumerFactory
from tests.consumer.uniform import values
from tests.kafka import KafkaCluster
from tests.kafka.tools import Record


def fill(kafka: KafkaCluster, topic: str, partitions: int, each: int = 5) -> None:
    records: list[Record] = [
        {"value": f"{partition}/{n}", "partition": partition, "timestamp": 1_700_000_000_000 + n * 1000}
        for n in range(each)
        for partition in range(partitions)
    ]
    kafka.helper.produce(topic, records)


@pytest.mark.parametrize("form", ["topic", "list", "set", "generator"])
def test_a_topic_stands_for_all_of_its_partitions(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory, form: str
) -> None:
    name = topic(3)
    fill(kafka, name, 3)
    reader = consumer()
    forms: dict[str, Any] = {"topic": name, "list": [name], "set": {name}, "generator": (n for n in [name])}
    reader.assign(forms[form])
    assert set(values(reader.take(15))) == {f"{p}/{n}".encode() for p in range(3) for n in range(5)}
    assert reader.assignment() == {(name, 0), (name, 1), (name, 2)}


@pytest.mark.req("S082", "S154")
@pytest.mark.parametrize("form", ["pairs", "topic_partitions", "one pair", "numpy index"])
def test_single_partitions_are_read_alone(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory, form: str
) -> None:
    name = topic(3)
    fill(kafka, name, 3)
    forms: dict[str, Any] = {
        "pairs": [(name, 1)],
        "topic_partitions": [monedula.TopicPartition(name, 1)],
        "one pair": (name, 1),
        "numpy index": [(name, np.int64(1))],
    }
    reader = consumer()
    reader.assign(forms[form])
    assert values(reader.take(5)) == [f"1/{n}".encode() for n in range(5)]
    assert reader.poll(timeout=0).num_rows == 0
    assert reader.assignment() == {(name, 1)}


@pytest.mark.req("S082")
def test_each_partition_starts_where_the_dict_says(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic(5)
    fill(kafka, name, 5)
    reader = consumer()
    reader.assign(
        {
            (name, 0): 3,
            (name, 1): "earliest",
            (name, 2): "latest",
            (name, 3): datetime.fromtimestamp(1_700_000_002, UTC),
            (name, 4): np.int64(4),
        }
    )
    expected = ["0/3", "0/4", *(f"1/{n}" for n in range(5)), "3/2", "3/3", "3/4", "4/4"]
    assert set(values(reader.take(len(expected)))) == {text.encode() for text in expected}
    kafka.helper.produce(name, [{"value": "later", "partition": 2}])
    assert values(reader.take(1)) == [b"later"]


def test_a_time_after_the_last_record_starts_at_the_end(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic()
    fill(kafka, name, 1)
    reader = consumer()
    reader.assign({(name, 0): datetime.now(UTC) + timedelta(days=1)})
    assert not reader.poll(timeout=1.0)
    kafka.helper.produce(name, [{"value": "later"}])
    assert values(reader.take(1)) == [b"later"]


@pytest.mark.parametrize(("policy", "expected"), [("earliest", [b"0/0"]), ("latest", [b"later"])])
def test_without_a_position_the_policy_says_where_to_start(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory, policy: str, expected: list[bytes]
) -> None:
    name = topic()
    fill(kafka, name, 1, each=1)
    reader = consumer(name, auto_offset_reset=policy)
    if policy == "latest":
        await_position(reader, (name, 0))
        kafka.helper.produce(name, [{"value": "later"}])
    assert values(reader.take(1)) == expected


def await_position(reader: Any, partition: tuple[str, int]) -> int:
    """Poll until the partition's position is known; nothing may come meanwhile."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert not reader.poll(timeout=0.05)
        position = reader.position(partition) if partition in reader.assignment() else None
        if position is not None:
            return int(position)
    raise AssertionError(f"no position of {partition} in time")


def test_assigning_anew_replaces_what_was_read(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    first, second = topic(), topic()
    fill(kafka, first, 1)
    fill(kafka, second, 1)
    reader = consumer(first)
    reader.take(5)
    reader.assign([(second, 0)])
    kafka.helper.produce(first, [{"value": "unwanted"}])
    assert {r.topic for r in reader.take(5)} == {second}
    assert reader.assignment() == {(second, 0)}


def test_waiting_with_nothing_assigned_is_an_error_not_a_hang(consumer: ConsumerFactory) -> None:
    reader = consumer(bootstrap_servers="localhost:1")
    with pytest.raises(monedula.ArgumentError, match=re.escape("call subscribe() or assign() first")):
        reader.poll()
    for iterator in (reader.batches(), reader.records()):
        with pytest.raises(monedula.ArgumentError, match=re.escape("call subscribe() or assign() first")):
            next(iterator)


def test_nothing_is_assigned_any_more_after_unassign(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic(2)
    fill(kafka, name, 2)
    reader = consumer(name)
    reader.take(10)
    reader.unassign()
    assert reader.assignment() == set()
    with pytest.raises(monedula.ArgumentError):
        reader.poll()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("orders", "0"), "the partition must be a whole number"),
        ([("orders", "0")], "the partition must be a whole number"),
        ({("orders", "0"): 5}, "the partition must be a whole number"),
        ([("orders", -1)], "the partition must be a whole number, 0 or more"),
        ([("orders", True)], "the partition must be a whole number"),
        ([("", 0)], "the topic must be a name"),
        ("", "'' is no topic's name"),
        ([0, 1], r"0 is no partition: expected \(topic, partition\)"),
        (["orders", ("other", 0)], "not both at once"),
        ({"orders": 5}, "'orders' is no partition: expected"),
        ({("orders", 0): -1}, 'use "earliest" or "latest"'),
        (
            {("orders", 0): "newest"},
            "expected an offset, 'earliest', 'latest', 'committed', or a time: an aware datetime, or a text",
        ),
        ({("orders", 0): None}, "is no position"),
        ({("orders", 0): datetime(2024, 1, 1)}, "has no time zone; use datetime.now"),
        ({("orders", 0): datetime(1969, 1, 1, tzinfo=UTC)}, "is before 1970"),
        (None, "None cannot be assigned: expected a topic"),
        (7, "7 cannot be assigned: expected a topic"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_does(consumer: ConsumerFactory, wrong: Any, message: str) -> None:
    reader = consumer(bootstrap_servers="localhost:1")
    with pytest.raises(monedula.ArgumentError, match=message):
        reader.assign(wrong)
