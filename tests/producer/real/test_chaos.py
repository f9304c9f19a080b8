"""Leaders move, nodes die and come back, connections break, all under load: every record is there once, in order."""

import random

import pytest
from monedula.testing import Broker

from tests.groups.behaviour.stage import NODES, EmbeddedStage, Stage
from tests.producer.real.checker import check, in_words
from tests.producer.real.conftest import MakeTopic
from tests.producer.real.load import Load, log_of

PARTITIONS = 6
ROUNDS = 3
SLOW_SECONDS = 400
"""Nodes of a real Kafka take their time to die and to come back."""


def judge(stage: Stage, topic: str, load: Load) -> None:
    """Stop the load; no record may have failed, and the log has each once, in order, at the offset of its future."""
    sent = load.stop()
    findings = check(sent, log_of(stage.bootstrap, topic, sum(map(len, sent.values()))))
    assert not findings, in_words(findings)
    assert min(map(len, sent.values())) > 100, "the load was none"


@pytest.mark.req("S164")
@pytest.mark.also_on_kafka
@pytest.mark.thorough_on_kafka
def test_leaders_move_under_load(stage: Stage, make_topic: MakeTopic) -> None:
    topic = make_topic(PARTITIONS)
    with Load(stage.bootstrap, topic, PARTITIONS) as load:
        load.flows()
        for number in range(ROUNDS):
            for partition in range(PARTITIONS):
                others = stage.others(stage.leader(topic, partition))
                stage.move_leader(topic, partition, others[(number + partition) % len(others)])
            load.flows()
        judge(stage, topic, load)


@pytest.mark.req("S122")
@pytest.mark.also_on_kafka
def test_a_leader_dies_suddenly_under_load(stage: Stage, make_topic: MakeTopic) -> None:
    topic = make_topic(PARTITIONS)
    with Load(stage.bootstrap, topic, PARTITIONS) as load:
        load.flows()
        dead = stage.leader(topic, 0)
        stage.kill(dead)
        load.flows()
        stage.start(dead)
        load.flows()
        judge(stage, topic, load)


@pytest.mark.timeout(SLOW_SECONDS)
def test_every_node_dies_and_comes_back_in_turn(stage: Stage, make_topic: MakeTopic) -> None:
    topic = make_topic(PARTITIONS)
    with Load(stage.bootstrap, topic, PARTITIONS) as load:
        for node in range(1, NODES + 1):
            load.flows()
            stage.kill(node)
            load.flows()
            stage.start(node)
        load.flows()
        judge(stage, topic, load)


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("way", ["close", "reset", "answers lost"])
def test_connections_break_under_load(
    stage: Stage, broker: Broker, make_topic: MakeTopic, way: str, codec: str
) -> None:
    """Before a request is carried out, and after: records that are sent again must not be in the log twice."""
    topic = make_topic(PARTITIONS)
    effects = {"close": {"close": True}, "reset": {"reset": True}, "answers lost": {"close": True, "on": "answer"}}
    with Load(stage.bootstrap, topic, PARTITIONS, compression_type=codec) as load:
        load.flows()
        with broker.fault(api="Produce", probability=0.1, **effects[way]) as fault:  # type: ignore[arg-type]
            fault.wait(20, timeout=60.0)
        load.flows()
        judge(stage, topic, load)


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "REQUEST_TIMED_OUT",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "CORRUPT_MESSAGE",
        "INVALID_PRODUCER_EPOCH",
    ],
)
def test_errors_that_pass_are_seen_by_nobody(stage: Stage, broker: Broker, make_topic: MakeTopic, error: str) -> None:
    topic = make_topic(PARTITIONS)
    with Load(stage.bootstrap, topic, PARTITIONS) as load:
        load.flows()
        with broker.fault(api="Produce", topic=topic, error=error, probability=0.2) as fault:
            fault.wait(10, timeout=60.0)
        load.flows()
        judge(stage, topic, load)


@pytest.mark.timeout(SLOW_SECONDS)
def test_everything_at_once(stage: Stage, make_topic: MakeTopic) -> None:
    """Seeded: leaders move while nodes die and come back, on slow connections that break."""
    draw = random.Random(20261122)
    topic = make_topic(PARTITIONS)
    with Load(stage.bootstrap, topic, PARTITIONS, interval_seconds=0.001) as load:
        load.flows()
        if isinstance(stage, EmbeddedStage):
            stage.broker.fault(api="Produce", probability=0.01, reset=True)
            stage.broker.fault(api="Produce", probability=0.01, close=True, on="answer")
            stage.broker.fault(api="Produce", probability=0.2, delay_ms=20)
        for _ in range(ROUNDS):
            node = draw.randint(1, NODES)
            stage.kill(node)
            load.flows(more=10)
            stage.start(node)
            for partition in draw.sample(range(PARTITIONS), 2):
                stage.move_leader(topic, partition, draw.randint(1, NODES))
            load.flows(more=10)
        if isinstance(stage, EmbeddedStage):
            stage.broker.remove_faults()
        load.flows()
        judge(stage, topic, load)
