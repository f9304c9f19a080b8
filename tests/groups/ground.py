"""Helpers of group tests: either kind of server behind one interface, and members that are polled."""

import itertools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

from tests.conftest import give_up
from tests.kafka import KafkaCluster, KafkaUnavailable

PATIENCE_SECONDS = 60.0
"""How long anything is waited for that must come."""

SETTINGS: dict[str, object] = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
}

TIMING = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200, "topic.metadata.propagation.max.ms": 2000}
"""As the broker has it for members under `group.protocol=consumer`, and missing topics are told of soon."""

HEARTBEAT = {"classic": "Heartbeat", "consumer": "ConsumerGroupHeartbeat"}
"""The heartbeat API of each protocol."""

_NUMBERS = itertools.count(1)


class Ground(ABC):
    """A server with topics, and members of groups on it."""

    bootstrap: str

    def name(self, what: str) -> str:
        """A name that nothing else has."""
        return f"{what}-{os.getpid()}-{next(_NUMBERS)}"

    def settings(self, group: str | None = None, **more: Any) -> dict[str, Any]:
        """A consumer's settings; those given with underscores go before."""
        own: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "auto.offset.reset": "earliest", **TIMING}
        if group is not None:
            own["group.id"] = group
        return {**own, **{name.replace("_", "."): value for name, value in more.items()}}

    @abstractmethod
    def topic(self, partitions: int = 1, name: str | None = None) -> str:
        """Make a topic, and wait until it is there."""

    @abstractmethod
    def append(self, topic: str, values: Iterable[object], partition: int = 0) -> None:
        """Append records."""

    @abstractmethod
    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""


class EmbeddedGround(Ground):
    """The embedded broker."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.broker = Broker(settings=config)
        self.bootstrap = self.broker.bootstrap_servers

    def topic(self, partitions: int = 1, name: str | None = None) -> str:
        name = name or self.name("topic")
        self.broker.create_topic(name, partitions)
        return name

    def append(self, topic: str, values: Iterable[object], partition: int = 0) -> None:
        self.broker.append(topic, [str(value) for value in values], partition=partition)

    def grow(self, topic: str, partitions: int) -> None:
        self.broker.add_partitions(topic, partitions)


class KafkaGround(Ground):
    """A real Kafka of one node."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._helper = cluster.helper
        self.bootstrap = cluster.bootstrap

    def topic(self, partitions: int = 1, name: str | None = None) -> str:
        name = name or self.name("topic")
        self._helper.create_topic(name, partitions=partitions)
        return name

    def append(self, topic: str, values: Iterable[object], partition: int = 0) -> None:
        self._helper.produce(topic, [{"value": str(value), "partition": partition} for value in values])

    def grow(self, topic: str, partitions: int) -> None:
        self._helper.add_partitions(topic, partitions)


def opened(kind: str, config: Mapping[str, Any] | None = None) -> Iterator[Ground]:
    """For a fixture: the embedded broker or a real Kafka, with these settings."""
    if kind == "embedded":
        embedded = EmbeddedGround(config or SETTINGS)
        yield embedded
        embedded.broker.stop()
        return
    try:
        cluster = KafkaCluster(1, config=config).__enter__()
    except KafkaUnavailable as error:
        give_up(error)
    yield KafkaGround(cluster)
    cluster.close()


def values(rows: monedula.Batch | Iterable[monedula.Record]) -> list[int]:
    """The records' values as numbers."""
    records = rows.records() if isinstance(rows, monedula.Batch) else rows
    return [int(record.value or b"") for record in records]


def take(consumer: monedula.Consumer, count: int, **poll: Any) -> list[int]:
    """Poll until `count` values came."""
    seen: list[int] = []
    until(lambda: len(seen) >= count, consumer, seen=seen, **poll)
    return seen


def until(is_so: Callable[[], bool], *consumers: monedula.Consumer, seen: list[int] | None = None, **poll: Any) -> None:
    """Poll the consumers in turn until a condition holds; their records are added to `seen`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            states = [consumer.health()["group"] for consumer in consumers]
            pytest.fail(f"it did not come true in {PATIENCE_SECONDS} s; {seen=}; {states}")
        for consumer in consumers:
            batch = consumer.poll(timeout=0.05, **poll)
            if seen is not None:
                seen += values(batch)
        if not consumers:
            time.sleep(0.01)


def owned(*consumers: monedula.Consumer) -> list[set[int]]:
    """The partitions of each, which belong to one topic."""
    return [{partition.partition for partition in consumer.assignment()} for consumer in consumers]


def shared(partitions: int, *consumers: monedula.Consumer) -> Callable[[], bool]:
    """Whether the consumers have all partitions among them, each once, as evenly as can be."""

    def is_so() -> bool:
        parts = owned(*consumers)
        everything = sorted(itertools.chain(*parts))
        sizes = [len(part) for part in parts]
        return everything == list(range(partitions)) and max(sizes) - min(sizes) <= 1

    return is_so


def committed(consumer: monedula.Consumer, topic: str, partitions: Sequence[int] = (0,)) -> list[int | None]:
    """The group's committed offsets of a topic."""
    found = consumer.committed([(topic, index) for index in partitions])
    offsets = [found[monedula.TopicPartition(topic, index)] for index in partitions]
    return [None if at is None else at.offset for at in offsets]
