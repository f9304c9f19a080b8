"""The `acks` setting: a record counts as written at once, by the leader, or by every in-sync replica."""

from contextlib import suppress
from typing import Any

import monedula
import pytest
from confluent_kafka import KafkaException
from monedula.testing import Broker

from tests.conftest import TopicFactory
from tests.groups.behaviour.stage import Stage
from tests.kafka import KafkaCluster
from tests.producer.real.checker import Stored
from tests.producer.real.conftest import MakeTopic
from tests.producer.real.load import DEADLINE_SECONDS, log_of, until

RECORDS = 300


def producer(stage: Stage, acks: object, **settings: Any) -> monedula.Producer:
    # Sequence numbers need acks=all.
    plain = {} if acks == "all" else {"enable.idempotence": False}
    return monedula.Producer({"bootstrap.servers": stage.bootstrap, "acks": acks, **plain, **settings})


def end_of(stage: Stage, topic: str) -> int | None:
    """The offset after the last record of partition 0; None while its leader does not know yet that it leads."""
    with suppress(KafkaException):
        return stage.ends(topic)[topic, 0]
    return None


@pytest.mark.also_on_kafka
@pytest.mark.parametrize("acks", [1, "all", "-1"])
def test_what_is_acknowledged_is_there(stage: Stage, make_topic: MakeTopic, acks: object) -> None:
    topic = make_topic()
    with producer(stage, acks) as sender:
        futures = [sender.send(topic, b"%d" % number, partition=0) for number in range(RECORDS)]
        offsets = [future.result(DEADLINE_SECONDS).offset for future in futures]
    assert offsets == list(range(RECORDS))
    assert log_of(stage.bootstrap, topic, RECORDS) == {0: [Stored(number, b"%d" % number) for number in range(RECORDS)]}


@pytest.mark.also_on_kafka
def test_without_acks_everything_arrives_and_no_offset_is_known(stage: Stage, make_topic: MakeTopic) -> None:
    topic = make_topic()
    # A leader that does not know yet that it leads drops the records, and without acks nobody sends them again.
    until(lambda: end_of(stage, topic) == 0, "a leader")
    with producer(stage, 0) as sender:
        futures = [sender.send(topic, b"%d" % number, partition=0) for number in range(RECORDS)]
        placed = [future.result(DEADLINE_SECONDS) for future in futures]
        assert {(at.topic, at.partition, at.offset) for at in placed} == {(topic, 0, None)}
    assert log_of(stage.bootstrap, topic, RECORDS) == {0: [Stored(number, b"%d" % number) for number in range(RECORDS)]}


@pytest.mark.also_on_kafka
def test_without_acks_a_moved_leader_is_found(stage: Stage, make_topic: MakeTopic) -> None:
    """There are no answers, so only the connection that the old leader closes shows the move."""
    topic = make_topic()
    until(lambda: end_of(stage, topic) == 0, "a leader")
    with producer(stage, 0) as sender:
        sender.send(topic, b"first", partition=0).result(DEADLINE_SECONDS)
        until(lambda: end_of(stage, topic) == 1, "the first record")
        for node in stage.others(stage.leader(topic, 0)):
            stage.move_leader(topic, 0, node)
            until(lambda: bool(end_of(stage, topic)), "the new leader")
            before = end_of(stage, topic)

            def arrives(before: int | None = before) -> bool:
                sender.send(topic, b"next", partition=0).result(DEADLINE_SECONDS)
                return (end_of(stage, topic) or 0) > (before or 0)

            until(arrives, f"records at node {node}")


def test_too_few_replicas_in_sync_stop_acks_all_only(stage: Stage, broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic()
    broker.set_isr(topic, 0, [stage.leader(topic, 0)])
    with producer(stage, 1) as sender:
        assert sender.send(topic, b"leader").result(DEADLINE_SECONDS).offset == 0
    with producer(stage, "all") as sender:
        waiting = sender.send(topic, b"all")
        refused = broker.observe(api="Produce", on="answer")
        refused.wait(2, timeout=DEADLINE_SECONDS)
        assert not waiting.done()
        broker.set_isr(topic, 0, [1, 2, 3])
        assert waiting.result(DEADLINE_SECONDS).offset == 1
    short = {"delivery.timeout.ms": 600, "request.timeout.ms": 300, "linger.ms": 0}
    broker.set_isr(topic, 0, [stage.leader(topic, 0)])
    with producer(stage, "all", **short) as sender, pytest.raises(monedula.errors.DeliveryTimeoutError) as raised:
        sender.send(topic, b"never").result(DEADLINE_SECONDS)
    assert "NOT_ENOUGH_REPLICAS" in str(raised.value)
    assert raised.value.topic == topic


def test_the_leader_alone_answers_acks_1(kafka3: KafkaCluster, topic: TopicFactory) -> None:
    """A follower is frozen: records with acks=all wait for it, records with acks=1 do not."""
    if kafka3.nodes[3].pid is None:
        pytest.skip("the replicas of the embedded broker are played: none can be frozen")
    name = topic(cluster=kafka3, assignment={0: [1, 2, 3]}, config={"min.insync.replicas": 2})
    kafka3.wait_in_sync(name)
    bootstrap = kafka3.nodes[1].address
    with (
        monedula.Producer({"bootstrap.servers": bootstrap, "acks": 1, "enable.idempotence": False}) as leader,
        monedula.Producer({"bootstrap.servers": bootstrap, "acks": "all"}) as every,
    ):
        for sender in (leader, every):
            sender.send(name, b"before").result(DEADLINE_SECONDS)
        kafka3.pause(3)
        try:
            waiting = every.send(name, b"all")
            leader.send(name, b"leader").result(DEADLINE_SECONDS)
            assert not waiting.done()
        finally:
            kafka3.resume(3)
        waiting.result(DEADLINE_SECONDS)
    kafka3.wait_ready()
    kafka3.wait_in_sync(name)
