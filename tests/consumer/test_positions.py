from datetime import UTC, datetime
from typing import Any

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.consumer.conftest import ConsumerFactory
from tests.consumer.test_assign import await_position, fill
from tests.consumer.uniform import Uniform, values
from tests.kafka import KafkaCluster


@pytest.fixture
def name(kafka: KafkaCluster, topic: TopicFactory) -> str:
    """A topic of two partitions with five records each, `partition/number`."""
    made = topic(2)
    fill(kafka, made, 2)
    return made


@pytest.mark.parametrize(
    ("position", "expected"),
    [(2, 3), ("earliest", 5), (datetime.fromtimestamp(1_700_000_003, UTC), 2)],
)
def test_seek_goes_on_elsewhere(name: str, consumer: ConsumerFactory, position: Any, expected: int) -> None:
    reader = consumer(name)
    reader.take(10)
    reader.seek((name, 1), position)
    assert values(reader.take(expected)) == [f"1/{n}".encode() for n in range(5 - expected, 5)]


def test_seek_drops_what_was_fetched_before_it(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign([(name, 0)])
    assert reader.poll(timeout=20, max_rows=1).num_rows == 1
    reader.seek((name, 0), 4)
    assert values(reader.take(1)) == [b"0/4"]


def test_seek_to_latest_skips_to_the_end(kafka: KafkaCluster, name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign([(name, 0)])
    reader.seek((name, 0), "latest")
    assert await_position(reader, (name, 0)) == 5
    kafka.helper.produce(name, [{"value": "later", "partition": 0}])
    assert values(reader.take(1)) == [b"later"]


def test_seeks_in_a_row_are_one_lookup(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign([(name, 0)])
    assert reader.poll(timeout=20), "its leader is known"
    # Brokers answer INVALID_REQUEST for a partition that stands twice in a ListOffsets.
    for _ in range(300):
        reader.seek((name, 0), "latest")
    assert await_position(reader, (name, 0)) == 5


def test_seek_to_beginning_reads_all_again(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer(name)
    first = reader.take(10)
    reader.seek_to_beginning()
    assert set(values(reader.take(10))) == set(values(first))


def test_seek_to_beginning_of_one_partition_leaves_the_other(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer(name)
    reader.take(10)
    reader.seek_to_beginning((name, 1))
    assert values(reader.take(5)) == [f"1/{n}".encode() for n in range(5)]
    assert reader.position((name, 0)) == 5


def test_seek_to_end_skips_all(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign([(name, 0), (name, 1)])
    reader.seek_to_end()
    assert {await_position(reader, (name, p)) for p in (0, 1)} == {5}


def test_seek_to_beginning_right_after_assigning_a_topic_is_not_lost(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer(auto_offset_reset="latest")
    reader.assign(name)
    reader.seek_to_beginning()
    assert len(reader.take(10)) == 10


def test_a_seek_before_the_partitions_are_known_says_what_to_do(consumer: ConsumerFactory) -> None:
    reader = consumer("orders", bootstrap_servers="localhost:1")
    with pytest.raises(monedula.ArgumentError, match="the partitions of orders are not known yet: poll first"):
        reader.seek(("orders", 0), 5)
    with pytest.raises(monedula.ArgumentError, match="not known yet"):
        reader.pause()


@pytest.mark.parametrize("verb", ["seek", "seek_to_beginning", "seek_to_end", "pause", "resume", "position", "lag"])
def test_a_partition_that_is_not_assigned_is_named(name: str, consumer: ConsumerFactory, verb: str) -> None:
    reader = consumer()
    reader.assign([(name, 0)])
    more = (0,) if verb == "seek" else ()
    with pytest.raises(monedula.ArgumentError, match=f"{name}-1 is not assigned"):
        getattr(reader, verb)((name, 1), *more)


def test_a_paused_partition_waits_and_the_other_goes_on(
    kafka: KafkaCluster, name: str, consumer: ConsumerFactory
) -> None:
    reader = consumer()
    reader.assign([(name, 0), (name, 1)])
    reader.pause((name, 0))
    assert reader.paused() == {(name, 0)}
    assert values(reader.take(5)) == [f"1/{n}".encode() for n in range(5)]
    kafka.helper.produce(name, [{"value": "more", "partition": 1}])
    assert values(reader.take(1)) == [b"more"]
    reader.resume((name, 0))
    assert reader.paused() == set()
    assert values(reader.take(5)) == [f"0/{n}".encode() for n in range(5)]


def test_pausing_keeps_what_was_fetched(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign([(name, 0)])
    assert reader.poll(timeout=20, max_rows=2).num_rows == 2
    reader.pause()
    assert not reader.poll(timeout=0.2)
    bytes_before = reader.metrics()["bytes_received"]
    reader.resume()
    assert reader.poll(timeout=20, max_rows=1).num_rows == 1
    assert reader.metrics()["bytes_received"] == bytes_before


def test_position_is_the_next_record_to_be_handed_out(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign({(name, 0): 1})
    batch = reader.poll(timeout=20, max_rows=2)
    assert reader.position((name, 0)) == 3 == batch.offsets[(name, 0)]


def test_an_offset_asked_for_is_the_position_at_once(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign({(name, 0): 1})
    assert reader.position((name, 0)) == 1
    reader.seek((name, 0), 3)
    assert reader.position((name, 0)) == 3
    reader.seek((name, 0), "earliest")
    assert reader.take(5)[0].offset == 0


def test_the_offsets_of_a_batch_can_be_assigned(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign([(name, 0)])
    batch = reader.poll(timeout=20, max_rows=2)
    other = consumer()
    other.assign(batch.offsets)
    assert values(other.take(3)) == [b"0/2", b"0/3", b"0/4"]


def test_lag_is_what_is_left_to_read(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign([(name, 0), (name, 1)])
    assert set(reader.lag().values()) <= {None, 5}, "not known before a broker answered"
    rest = 10
    while rest:
        rest -= reader.poll(timeout=20, max_rows=3).num_rows
        lags = [lag for lag in reader.lag().values() if lag is not None]
        assert sum(lags) == rest or len(lags) < 2
    assert reader.lag() == {(name, 0): 0, (name, 1): 0}
    assert reader.lag((name, 1)) == {(name, 1): 0}


def test_leaving_records_early_gives_back_what_was_read_ahead(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign([(name, 0)])
    assert step(reader, 2) == [b"0/0", b"0/1"]
    assert reader.position((name, 0)) == 2
    assert step(reader, 1) == [b"0/2"]
    assert values(reader.take(2)) == [b"0/3", b"0/4"]


def test_records_without_an_offset_column_are_given_back_too(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer(columns=["value"])
    reader.assign([(name, 0), (name, 1)])
    seen = [value for _ in range(5) for value in step(reader, 2)]
    assert sorted(map(str, seen)) == sorted(str(f"{p}/{n}".encode()) for p in (0, 1) for n in range(5))


def test_a_seek_inside_the_loop_over_records_holds(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    reader.assign([(name, 0)])
    for record in reader.records(timeout=20):
        assert record.offset == 0
        reader.seek((name, 0), 4)
        break
    assert values(reader.take(1)) == [b"0/4"]


def step(reader: Uniform, count: int) -> list[bytes | None]:
    taken: list[bytes | None] = []
    for record in reader.records(timeout=20):
        taken.append(record.value)
        if len(taken) == count:
            break
    return taken
