from datetime import UTC, datetime, timedelta

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.consumer.conftest import ConsumerFactory
from tests.consumer.test_assign import fill
from tests.kafka import KafkaCluster

START = 1_700_000_000


@pytest.fixture
def name(kafka: KafkaCluster, topic: TopicFactory) -> str:
    """Two partitions: 0 holds offsets 2 to 4, 1 is empty."""
    made = topic(2)
    fill(kafka, made, 1)
    kafka.helper.delete_records(made, {0: 2})
    return made


def test_both_ends_of_the_log(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    partitions = [(name, 0), (name, 1)]
    assert reader.beginning_offsets(partitions) == {(name, 0): 2, (name, 1): 0}
    assert reader.end_offsets(partitions) == {(name, 0): 5, (name, 1): 0}
    assert reader.end_offsets((name, 0)) == {(name, 0): 5}


def test_left_out_they_are_those_of_all_that_is_assigned(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer(name)
    assert reader.end_offsets() == {(name, 0): 5, (name, 1): 0}
    assert reader.beginning_offsets() == {(name, 0): 2, (name, 1): 0}
    assert consumer().end_offsets() == {}


def test_results_are_named_pairs(name: str, consumer: ConsumerFactory) -> None:
    (partition,) = consumer().end_offsets([(name, 1)])
    assert (partition.topic, partition.partition) == (name, 1)


def test_under_read_committed_the_end_is_the_last_stable_offset(
    kafka: KafkaCluster, topic: TopicFactory, consumer: ConsumerFactory
) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": "plain"}])
    kafka.helper.produce(name, [{"value": "open"}], transaction="open", transactional_id=name)
    assert consumer(isolation_level="read_committed").end_offsets([(name, 0)]) == {(name, 0): 1}
    assert consumer().end_offsets([(name, 0)]) == {(name, 0): 2}
    kafka.helper.end_transaction(name, "abort")


def test_the_first_record_at_least_as_young(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    at = datetime.fromtimestamp(START, UTC) + timedelta(seconds=2, milliseconds=500)
    found = reader.offsets_for_times({(name, 0): at, (name, 1): at})
    assert found == {(name, 0): (3, START * 1000 + 3000), (name, 1): None}
    assert found[(name, 0)].offset == 3
    assert found[(name, 0)].timestamp == START * 1000 + 3000
    assert reader.offsets_for_times({(name, 0): START * 1000 + 4000}) == {(name, 0): (4, START * 1000 + 4000)}
    assert reader.offsets_for_times({(name, 0): START * 1000 + 4001}) == {(name, 0): None}


def test_a_naive_time_is_refused(consumer: ConsumerFactory) -> None:
    with pytest.raises(monedula.ArgumentError, match="has no time zone"):
        consumer(bootstrap_servers="localhost:1").offsets_for_times({("orders", 0): datetime(2024, 1, 1)})


def test_partitions_of_topics(name: str, topic: TopicFactory, consumer: ConsumerFactory) -> None:
    other = topic()
    found = consumer().partitions_of(name, other)
    assert sorted(found) == sorted([(name, 0), (name, 1), (other, 0)])


def test_an_unknown_topic_or_partition_is_named(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer()
    with pytest.raises(monedula.UnknownTopicError, match="no-such-topic") as caught:
        reader.end_offsets([("no-such-topic", 0)])
    assert (caught.value.topic, caught.value.code) == ("no-such-topic", "UNKNOWN_TOPIC_OR_PARTITION")
    with pytest.raises(monedula.UnknownTopicError, match="partition") as caught:
        reader.beginning_offsets([(name, 7)])
    assert (caught.value.topic, caught.value.partition) == (name, 7)
    with pytest.raises(monedula.UnknownTopicError, match="no-such-topic"):
        reader.partitions_of("no-such-topic")


@pytest.mark.parametrize("wrong", ["orders", ("orders", "0"), [("orders", "0")], ["orders"], 5])
def test_what_is_no_partition_is_refused(consumer: ConsumerFactory, wrong: object) -> None:
    with pytest.raises(monedula.ArgumentError, match="partition"):
        consumer(bootstrap_servers="localhost:1").end_offsets(wrong)
