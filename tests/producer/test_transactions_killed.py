"""A process that reads, transforms and writes is killed in each phase of a transaction: its successor goes on.

What counts is what readers of committed records see, each of the three clients: every record, once.
"""

import subprocess
import sys
from pathlib import Path

import monedula
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as Place

from tests.groups.ground import TIMING, EmbeddedGround, Ground
from tests.interop import java
from tests.producer.conftest import ProducerFactory
from tests.producer.test_transactions import committed, reading, transform_once

pytestmark = pytest.mark.jvm

PROGRAM = Path(__file__).with_name("worker.py")
COUNT = 60
PHASES = ("begun", "sent", "offsets", "committed")
"""Before anything is sent, before the offsets, between these and the commit, and after it."""
PATIENCE_SECONDS = 90.0


@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_each_phase_nothing_is_lost_or_twice(ground: Ground, producer: ProducerFactory, phase: str) -> None:
    source, target, group = ground.topic(2), ground.topic(), ground.name("group")
    for partition in range(2):
        ground.append(source, range(partition, COUNT, 2), partition)
    for _ in range(2):
        killed_at(phase, ground.bootstrap, source, target, group)
    sender = producer(transactional_id=group)
    # What was left open hides its offsets, and is ended by this.
    sender.init_transactions(PATIENCE_SECONDS)
    places = [monedula.TopicPartition(source, partition) for partition in range(2)]
    with reading(ground, group, source, group_instance_id="worker") as consumer:

        def done() -> bool:
            found = consumer.committed(places)
            return all(at is not None and at.offset == COUNT // 2 for at in found.values())

        for _ in range(600):
            if not transform_once(sender, consumer, target) and done():
                break
    expected = sorted(map(str, range(COUNT)))
    assert committed(ground.bootstrap, target) == expected
    assert by_confluent(ground.bootstrap, target, COUNT) == expected
    if not isinstance(ground, EmbeddedGround):
        assert by_java(ground.bootstrap, target, COUNT) == expected


def killed_at(phase: str, bootstrap: str, source: str, target: str, group: str) -> None:
    """Run a worker up to that phase of its second transaction, and kill it there."""
    timing = [f"{name}={value}" for name, value in TIMING.items()]
    command = [sys.executable, str(PROGRAM), phase, bootstrap, source, target, group, *timing]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == f"{phase}\n"
        finally:
            worker.kill()


def by_confluent(bootstrap: str, topic: str, count: int) -> list[str]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    seen: list[str] = []
    try:
        consumer.assign([Place(topic, 0, OFFSET_BEGINNING)])
        for _ in range(int(PATIENCE_SECONDS)):
            for message in consumer.consume(10 * count, 1.0):
                if message.error() is not None:
                    return sorted(seen)
                seen.append((message.value() or b"").decode())
    finally:
        consumer.close()
    pytest.fail(f"the end of {topic} never came: {len(seen)} records")


def by_java(bootstrap: str, topic: str, count: int) -> list[str]:
    where = ("--topic", topic, "--from-beginning", "--max-messages", str(count))
    return sorted(java.tool(java.CONSOLE_CONSUMER, bootstrap, *where, "--isolation-level", "read_committed").split())
