"""Transactions: what read_committed shows, where it stops, and ranges that end in markers."""

from typing import Any

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.real.reading import consumer, offsets, rows, table, take, values

COMMITTED = {"isolation.level": "read_committed"}


def transactions(kafka: KafkaCluster, name: str) -> None:
    """Offsets 0 committed, 1 its marker, 2 aborted, 3 its marker, 4 plain, 5-6 committed, 7 its marker."""
    helper = kafka.helper
    helper.produce(name, [{"value": "committed"}], transaction="commit")
    helper.produce(name, [{"value": "aborted"}], transaction="abort")
    helper.produce(name, [{"value": "plain"}])
    helper.produce(name, [{"value": "more"}, {"value": "last"}], transaction="commit", codec="lz4")


def test_read_committed_hides_aborted_records(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    transactions(kafka, name)
    with consumer(kafka.bootstrap, isolation_level="read_committed") as reader:
        reader.assign(name)
        found = take(reader, 4)
        found += rows(reader.poll(0.5))
        assert reader.position((name, 0)) == 8
    assert values(found) == [b"committed", b"plain", b"more", b"last"]
    assert offsets(found) == [0, 4, 5, 6]


def test_read_uncommitted_shows_every_record_and_no_marker(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    transactions(kafka, name)
    assert offsets(table(kafka.bootstrap, name)) == [0, 2, 4, 5, 6]


def test_an_open_transaction_stops_read_committed_until_it_ends(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    helper = kafka.helper
    helper.produce(name, [{"value": "before"}])
    helper.produce(name, [{"value": "open"}], transaction="open", transactional_id=name)
    helper.produce(name, [{"value": "behind"}])
    with consumer(kafka.bootstrap, isolation_level="read_committed") as reader:
        reader.assign(name)
        assert values(take(reader, 1)) == [b"before"]
        assert rows(reader.poll(1.0)) == []
        assert reader.end_offsets() == {(name, 0): 1}
        helper.end_transaction(name, "commit")
        assert values(take(reader, 2)) == [b"open", b"behind"]


def test_bounded_reads_end_at_markers_and_at_the_last_stable_offset(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    transactions(kafka, name)
    assert values(table(kafka.bootstrap, name, COMMITTED)) == [b"committed", b"plain", b"more", b"last"]
    kafka.helper.produce(name, [{"value": "open"}], transaction="open", transactional_id=name)
    try:
        assert offsets(table(kafka.bootstrap, name, COMMITTED)) == [0, 4, 5, 6]
        assert offsets(table(kafka.bootstrap, name)) == [0, 2, 4, 5, 6, 8]
    finally:
        kafka.helper.end_transaction(name, "abort")


def test_ranges_within_aborted_records_and_markers_are_empty_and_end(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    transactions(kafka, name)
    partition = (name, 0)

    def between(start: int, end: int, settings: dict[str, Any]) -> list[int]:
        found = table(kafka.bootstrap, [partition], settings, start={partition: start}, end={partition: end})
        return offsets(found)

    assert between(1, 2, {}) == []
    assert between(2, 4, COMMITTED) == []
    assert between(3, 5, COMMITTED) == [4]
    assert between(5, 8, COMMITTED) == [5, 6]
    assert between(6, 7, COMMITTED) == [6]
