"""Brokers that move, stop, die and come back while a consumer reads."""

import logging
import os
import re
from typing import Any

import pytest

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.real.reading import consumer, read_all_of, rows, take, values, writing

PARTITIONS = 3
REPLICATED = {"min.insync.replicas": 1}
ENOUGH = 300
"""Rows that show that reading goes on."""


@pytest.fixture
def replicated(kafka3: KafkaCluster, topic: TopicFactory) -> str:
    """A topic on all three nodes, each of which leads one partition."""
    assignment = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
    return topic(cluster=kafka3, assignment=assignment, config=REPLICATED)


@pytest.mark.req("S071")
def test_moved_leaders_lose_nothing_and_repeat_nothing(kafka3: KafkaCluster, replicated: str) -> None:
    with writing(kafka3.bootstrap, replicated, PARTITIONS) as writer, consumer(kafka3.bootstrap) as reader:
        reader.assign(replicated)
        found = take(reader, ENOUGH)
        for leader in (2, 3, 1):
            kafka3.helper.move_leader(replicated, 0, leader)
            found += take(reader, ENOUGH)
        read_all_of(reader, writer, found)
        assert reader.metrics()["positions_lost"] == 0


def test_a_restarted_broker_loses_nothing_and_repeats_nothing(kafka3: KafkaCluster, replicated: str) -> None:
    with writing(kafka3.bootstrap, replicated, PARTITIONS) as writer, consumer(kafka3.bootstrap) as reader:
        reader.assign(replicated)
        found = take(reader, ENOUGH)
        kafka3.restart(2)
        found += take(reader, ENOUGH)
        kafka3.wait_in_sync(replicated)
        read_all_of(reader, writer, found)


def test_a_killed_leader_loses_nothing_and_repeats_nothing(kafka3: KafkaCluster, replicated: str) -> None:
    with writing(kafka3.bootstrap, replicated, PARTITIONS) as writer, consumer(kafka3.bootstrap) as reader:
        reader.assign(replicated)
        found = take(reader, ENOUGH)
        leader = kafka3.metadata().topics[replicated][0].leader
        kafka3.kill(leader)
        try:
            found += partitions_go_on(reader)
        finally:
            kafka3.start(leader)
            kafka3.wait_in_sync(replicated)
        read_all_of(reader, writer, found)


def partitions_go_on(reader: Any) -> list[dict[str, Any]]:
    """Reads until every partition brought something new."""
    found: list[dict[str, Any]] = []
    while len({row["partition"] for row in found}) < PARTITIONS:
        found += take(reader, ENOUGH)
    return found


@pytest.mark.thorough
def test_with_every_broker_down_reading_waits_and_goes_on_afterwards(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": str(number)} for number in range(10)])
    with consumer(kafka.bootstrap) as reader:
        reader.assign(name)
        before = take(reader, 10)
        kafka.kill(1)
        try:
            while reader.health()["failing_for"] is None:
                assert rows(reader.poll(0.2)) == []
        finally:
            kafka.start(1)
        kafka.helper.produce(name, [{"value": "after"}])
        (after,) = take(reader, 1)
    assert [row["offset"] for row in before] == list(range(10))
    assert (after["offset"], after["value"]) == (10, b"after")


@pytest.mark.req("S089")
def test_the_closest_replica_is_fetched_from(
    kafka3: KafkaCluster, topic: TopicFactory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "monedula")
    name = topic(cluster=kafka3, assignment={0: [1, 2, 3]})
    sent = [os.urandom(1000) for _ in range(100)]
    kafka3.helper.produce(name, [{"value": value} for value in sent])
    with consumer(kafka3.bootstrap, client_rack="rack-3") as reader:
        reader.assign(name)
        found = take(reader, 100)
        reader.poll(0.1)
    assert values(found) == sent
    assert [row["partition"] for row in found] == [0] * 100
    answers = re.findall(r"(\S+): answer to Fetch, #\d+, (\d+) bytes", caplog.text)
    # Leaders that name another replica send no records beside its name.
    brought = {address for address, size in answers if int(size) > 1000}
    assert brought == {kafka3.nodes[3].address}
