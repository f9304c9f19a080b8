"""Lookups by time on a real Kafka, where a condition must find what a single lookup would miss."""

import monedula
import pyarrow as pa

from tests.conftest import TopicFactory
from tests.interop import java
from tests.kafka import KafkaCluster

START_MS = 1_700_000_000_000


def test_a_record_is_found_behind_a_segment_whose_youngest_records_were_deleted(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """Kafka looks only into the first segment that has a record of the time, even if that record is deleted."""
    name = topic(1, config={"retention.ms": -1, "segment.ms": 1_000_000})
    # A segment ends at a record that is a million seconds younger than its first one.
    for value, seconds in (("deleted", 100), ("old", 0), ("rolls", 5_000), ("wanted", 90)):
        kafka.helper.produce(name, [{"value": value, "timestamp": START_MS + seconds * 1000}])
    settings = {"bootstrap.servers": kafka.bootstrap}
    with monedula.Admin(settings) as admin:
        admin.delete_records({(name, 0): 1})
    with monedula.Consumer(settings) as consumer:
        found = consumer.offsets_for_times({(name, 0): START_MS + 90_000})
    stream = monedula.read(settings, name, where=("timestamp", ">=", START_MS + 90_000))
    assert pa.table(stream)["value"].to_pylist() == [b"rolls", b"wanted"]
    # If this lookup finds the record, Kafka does better than it did, and the second lookup is not needed any more.
    assert found == {(name, 0): None}
    # A position is the broker's answer alone, as with Java's clients. docs/consumer.md says so.
    assert java.tool(java.OFFSETS, kafka.bootstrap, "--topic", name, "--time", str(START_MS + 90_000)).split() == []
    assert len(pa.table(monedula.read(settings, name, start=f"@{START_MS + 90_000}"))) == 0


def test_records_without_a_time_are_before_all_others(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(1, config={"retention.ms": -1})
    kafka.helper.produce(name, [{"value": "first", "timestamp": 0}, {"value": "next", "timestamp": 1}])
    settings = {"bootstrap.servers": kafka.bootstrap}
    stream = monedula.read(settings, name, where=[("timestamp", ">=", 0), ("timestamp", "<", 1)])
    assert pa.table(stream)["value"].to_pylist() == [b"first"]
