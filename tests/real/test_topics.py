"""Topics that grow, go, and come back as others while a consumer reads."""

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.real.reading import consumer, offsets, poll_until, take, values


@pytest.mark.req("S084")
def test_added_partitions_are_found_and_start_at_their_smallest_offset(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": "old"}])
    # The first partition starts at its end; one that comes later must not.
    with consumer(kafka.bootstrap, auto_offset_reset="latest", metadata_max_age_ms=300) as reader:
        reader.assign(name)
        poll_until(reader, lambda: (name, 0) in reader.assignment() and reader.position((name, 0)) == 1)
        kafka.helper.add_partitions(name, 3)
        kafka.helper.produce(name, [{"value": str(partition), "partition": partition} for partition in (0, 1, 2)])
        found = take(reader, 3)
        assert reader.assignment() == {(name, 0), (name, 1), (name, 2)}
    assert set(values(found)) == {b"0", b"1", b"2"}


def test_a_deleted_topic_is_a_typed_error(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, other = topic(), topic()
    kafka.helper.produce(name, [{"value": "x"}])
    with consumer(kafka.bootstrap) as reader:
        reader.assign([(name, 0), (other, 0)])
        take(reader, 1)
        kafka.helper.delete_topic(name)
        with pytest.raises(monedula.UnknownTopicError) as raised:
            poll_until(reader, lambda: False)
        assert (raised.value.topic, raised.value.partition) == (name, 0)
        # The other partition goes on.
        kafka.helper.produce(other, [{"value": "still there"}])
        assert values(take(reader, 1)) == [b"still there"]


def test_a_recreated_topic_is_an_error_and_a_seek_goes_on(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, other = topic(), topic()
    kafka.helper.produce(name, [{"value": f"old {number}"} for number in range(5)])
    with consumer(kafka.bootstrap) as reader:
        reader.assign([(name, 0), (other, 0)])
        take(reader, 5)
        kafka.helper.delete_topic(name)
        kafka.helper.create_topic(name)
        kafka.helper.produce(name, [{"value": f"new {number}"} for number in range(9)])
        # Deletion is seen first if it lasts for long enough: both are errors that name the partition.
        with pytest.raises((monedula.errors.TopicRecreatedError, monedula.UnknownTopicError)) as raised:
            poll_until(reader, lambda: False)
        assert (raised.value.topic, raised.value.partition) == (name, 0)
        reader.seek((name, 0), 3)
        found = take(reader, 6)
    assert (values(found), offsets(found)) == ([f"new {number}".encode() for number in range(3, 9)], list(range(3, 9)))


def test_a_topic_recreated_unseen_is_no_silent_jump(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": f"old {number}"} for number in range(5)])
    with consumer(kafka.bootstrap) as reader:
        reader.assign({(name, 0): 0})
        take(reader, 5)
        reader.pause((name, 0))
        reader.poll(0.6)
        kafka.helper.delete_topic(name)
        kafka.helper.create_topic(name)
        kafka.helper.produce(name, [{"value": f"new {number}"} for number in range(9)])
        reader.resume((name, 0))
        with pytest.raises(monedula.errors.TopicRecreatedError):
            poll_until(reader, lambda: False)


def test_a_missing_topic_is_an_error_that_names_it_and_creation_mends_it(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic() + "-later"
    with consumer(kafka.bootstrap) as reader:
        reader.assign(name)
        with pytest.raises(monedula.UnknownTopicError, match=name):
            poll_until(reader, lambda: False)
        kafka.helper.create_topic(name)
        kafka.helper.produce(name, [{"value": "there"}])
        reader.assign(name)
        assert values(take(reader, 1)) == [b"there"]


def test_the_same_partitions_assigned_again_are_read_again(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(partitions=2)
    kafka.helper.produce(name, [{"value": str(number), "partition": number % 2} for number in range(10)])
    with consumer(kafka.bootstrap) as reader:
        for _ in range(3):
            reader.assign({(name, 0): 0, (name, 1): 0})
            assert len(take(reader, 10)) == 10
