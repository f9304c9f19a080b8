"""Offsets committed to a consumer group by someone who is no member of it, and read back by others."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import confluent_kafka
import confluent_kafka.admin
import monedula
import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster, jars
from tests.real.reading import TIMEOUT_SECONDS, committed, core


def seen_by_others(cluster: KafkaCluster, group: str) -> dict[tuple[str, int], int]:
    """What confluent-kafka's admin client says is committed."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    request = confluent_kafka.ConsumerGroupTopicPartitions(group)
    listed = admin.list_consumer_group_offsets([request])[group].result(TIMEOUT_SECONDS)
    return {(found.topic, found.partition): found.offset for found in listed.topic_partitions}


@contextmanager
def member(cluster: KafkaCluster, group: str, topic: str, protocol: str) -> Iterator[confluent_kafka.Consumer]:
    """A running consumer that is a member of the group and has its partitions."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": protocol}
    with closing(confluent_kafka.Consumer({**settings, "enable.auto.commit": False})) as running:
        assigned: list[confluent_kafka.TopicPartition] = []
        running.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
        for _ in range(600):
            if assigned:
                break
            running.poll(0.1)
        assert assigned, "no partitions assigned in 60 s"
        yield running


def test_offsets_committed_without_membership_are_seen_by_others(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, group = topic(2), "lone-committer"
    with core(kafka.bootstrap) as client:
        outcome = client.commit_group_offsets(group, [((name, 0), 23), ((name, 1), 0)], TIMEOUT_SECONDS)
    assert outcome == {(name, 0): None, (name, 1): None}
    assert seen_by_others(kafka, group) == {(name, 0): 23, (name, 1): 0}


def test_a_later_commit_replaces_an_earlier_one_and_leaves_other_partitions(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name, group = topic(2), "again-committer"
    with core(kafka.bootstrap) as client:
        client.commit_group_offsets(group, [((name, 0), 23), ((name, 1), 7)], TIMEOUT_SECONDS)
        client.commit_group_offsets(group, [((name, 0), 5)], TIMEOUT_SECONDS)
    assert seen_by_others(kafka, group) == {(name, 0): 5, (name, 1): 7}


def test_offsets_that_others_committed_are_found(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, group = topic(3), "committed-by-others"
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": group}
    with closing(confluent_kafka.Consumer(settings)) as other:
        place = confluent_kafka.TopicPartition(name, 1, 42, metadata="a note")
        other.commit(offsets=[place], asynchronous=False)
    # confluent-kafka ends the text with a zero byte.
    at = monedula.OffsetAndMetadata(42, "a note\0")
    assert committed(kafka.bootstrap, group, [(name, 0), (name, 1)]) == {(name, 0): None, (name, 1): at}
    assert committed(kafka.bootstrap, group) == {(name, 1): at}


def test_a_group_that_nobody_used_has_committed_nothing(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    assert committed(kafka.bootstrap, "never-used", [(name, 0)]) == {(name, 0): None}
    assert committed(kafka.bootstrap, "never-used") == {}


def test_a_partition_that_does_not_exist_is_told_apart(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, group = topic(), "half-committer"
    with core(kafka.bootstrap) as client:
        outcome = client.commit_group_offsets(group, [((name, 0), 1), ((name, 9), 1)], TIMEOUT_SECONDS)
    assert outcome == {(name, 0): None, (name, 9): "UNKNOWN_TOPIC_OR_PARTITION"}
    assert seen_by_others(kafka, group) == {(name, 0): 1}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_running_members_is_a_typed_error(kafka: KafkaCluster, topic: TopicFactory, protocol: str) -> None:
    if protocol == "consumer" and not jars.speaks("4.0"):
        pytest.skip("KIP-848 is there from Kafka 4.0 on")
    name, group = topic(), f"busy-{protocol}"
    with core(kafka.bootstrap) as client, member(kafka, group, name, protocol):
        with pytest.raises(monedula.errors.GroupInUseError, match=f"{group} is in use by running consumers") as raised:
            client.commit_group_offsets(group, [((name, 0), 1)], TIMEOUT_SECONDS)
        assert raised.value.code is not None
        assert not raised.value.retriable
    assert seen_by_others(kafka, group) == {}


def test_the_restart_of_the_coordinator_is_ridden_out(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, group = topic(), "patient-committer"
    with core(kafka.bootstrap) as client:
        client.commit_group_offsets(group, [((name, 0), 1)], TIMEOUT_SECONDS)
        kafka.kill(1)
        try:
            # The node is down, and the connection to it gone: the time ends the call, and the error says why.
            with pytest.raises(monedula.KafkaTimeoutError, match="the commit of offsets to group patient-committer"):
                client.commit_group_offsets(group, [((name, 0), 2)], 0.5)
        finally:
            kafka.start(1)
        assert client.commit_group_offsets(group, [((name, 0), 3)], TIMEOUT_SECONDS) == {(name, 0): None}
    assert committed(kafka.bootstrap, group) == {(name, 0): monedula.OffsetAndMetadata(3)}


def test_a_coordinator_that_dies_is_found_anew(kafka3: KafkaCluster, topic: TopicFactory) -> None:
    name, group = topic(cluster=kafka3, replication=3), "homeless-committer"
    with core(kafka3.bootstrap) as client:
        client.commit_group_offsets(group, [((name, 0), 1)], TIMEOUT_SECONDS)
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka3.bootstrap})
        coordinator = admin.describe_consumer_groups([group])[group].result(TIMEOUT_SECONDS).coordinator.id
        kafka3.kill(coordinator)
        try:
            assert client.commit_group_offsets(group, [((name, 0), 2)], TIMEOUT_SECONDS) == {(name, 0): None}
            found = committed(kafka3.bootstrap, group, [(name, 0)])
        finally:
            kafka3.start(coordinator)
    assert found == {(name, 0): monedula.OffsetAndMetadata(2)}


def test_a_group_without_a_name_is_refused(kafka: KafkaCluster) -> None:
    with core(kafka.bootstrap) as client, pytest.raises(monedula.ArgumentError, match="must not be empty"):
        client.commit_group_offsets("", [(("t", 0), 1)], 5.0)
