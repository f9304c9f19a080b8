"""The clusters of the suite: three nodes of the embedded broker or of a real Kafka, with faults."""

import contextlib
import random
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Literal

import monedula
from confluent_kafka import Consumer, TopicPartition
from monedula.testing import Broker

from tests.groups.behaviour.network import Edge
from tests.kafka import KafkaCluster, Node, wire
from tests.kafka.cluster import HOST

Kind = Literal["embedded", "kafka"]

NODES = 3
OFFSETS_TOPIC = "__consumer_offsets"
SETTINGS: dict[str, object] = {
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "auto.create.topics.enable": False,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.max.session.timeout.ms": 600_000,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.share.min.session.timeout.ms": 500,
    "group.share.min.heartbeat.interval.ms": 50,
    "group.share.min.record.lock.duration.ms": 1000,
    "share.coordinator.state.topic.num.partitions": 4,
}
CONFIG = {"min.insync.replicas": 2}
"""Of every topic, with three replicas."""


class Stage(ABC):
    """Three nodes, with ids 1 to 3.

    Attributes:
        kind: which.
        short_session: `session.timeout.ms` in seconds for tests in which members are removed.
        long_session: where they are not, however slow the machine is.
    """

    kind: Kind
    short_session: float
    long_session = 20.0

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """`bootstrap.servers`."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic with three replicas, of which two must be in sync."""

    @abstractmethod
    def add_partitions(self, topic: str, partitions: int) -> None:
        """Have it as many."""

    def set_group(self, group: str, protocol: str, session_seconds: float, heartbeat_seconds: float) -> None:
        """Set the session timeout and heartbeat interval of members under KIP-848, and of a share group.

        Records of a share group are locked for as long, and read from the start.
        """
        settings: dict[str, str | int] = {
            f"{protocol}.session.timeout.ms": round(session_seconds * 1000),
            f"{protocol}.heartbeat.interval.ms": round(heartbeat_seconds * 1000),
        }
        if protocol == "share":
            settings["share.record.lock.duration.ms"] = settings["share.session.timeout.ms"]
            settings |= {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": 10}
        with monedula.Admin({"bootstrap.servers": self.bootstrap}) as admin:
            admin.alter_configs({("group", group): settings})

    def leader(self, topic: str, partition: int) -> int:
        """The leader of a partition, by the first node that answers."""
        for address in self.bootstrap.split(","):
            host, _, port = address.rpartition(":")
            with contextlib.suppress(OSError):
                return wire.metadata(host, int(port)).topics[topic][partition].leader
        raise AssertionError("no node answers")

    def ends(self, topic: str) -> dict[tuple[str, int], int]:
        """The offset after the last record of each partition, asked of the brokers."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "ends", "log_level": 2})
        try:
            found = consumer.list_topics(topic, 30.0).topics[topic].partitions
            asked = {index: consumer.get_watermark_offsets(TopicPartition(topic, index), 30.0) for index in found}
        finally:
            consumer.close()
        return {(topic, index): end for index, (_, end) in asked.items()}

    @abstractmethod
    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Have another node lead a partition."""

    @abstractmethod
    def reassign(self, topic: str, partition: int, nodes: Sequence[int]) -> None:
        """Put the replicas of a partition elsewhere; the first leads."""

    @abstractmethod
    def coordinator(self, group: str) -> int:
        """The node that coordinates a group."""

    @abstractmethod
    def move_coordinator(self, group: str, node: int) -> None:
        """Have another node coordinate a group."""

    @abstractmethod
    def kill(self, node: int) -> None:
        """End a node at once."""

    @abstractmethod
    def start(self, node: int) -> None:
        """Start an ended node again; returns when its replicas are in sync."""

    def restart(self, node: int) -> None:
        """Stop a node in order and start it again, as an upgrade does; returns when its replicas are in sync."""
        self.kill(node)
        self.start(node)

    @abstractmethod
    def prefix(self) -> list[str]:
        """The beginning of a member's command line, so that its network can be cut.

        Raises:
            EdgeUnavailable: that cannot be done here.
        """

    @abstractmethod
    def cut(self, client_id: str) -> None:
        """Have all that a member sends vanish; its connections stay open."""

    @abstractmethod
    def heal(self) -> None:
        """Undo `cut`."""

    @abstractmethod
    def close(self) -> None:
        """End it."""

    @abstractmethod
    def mend(self) -> None:
        """Undo faults that a failed test may have left."""

    def others(self, node: int) -> list[int]:
        """The other nodes."""
        return [other for other in range(1, NODES + 1) if other != node]


class EmbeddedStage(Stage):
    """The embedded broker, in this process."""

    kind: Kind = "embedded"
    short_session = 1.5

    def __init__(self) -> None:
        self.broker = Broker(NODES, settings=SETTINGS)
        self._stopped: set[int] = set()
        self._cuts: list[Any] = []

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap_servers

    def create_topic(self, topic: str, partitions: int) -> None:
        self.broker.create_topic(topic, partitions, replicas=NODES, config=CONFIG)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self.broker.add_partitions(topic, partitions)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        self.broker.move_leader(topic, partition, node)

    def reassign(self, topic: str, partition: int, nodes: Sequence[int]) -> None:
        # Its replicas are simulated: a client only sees another leader and other in-sync replicas.
        self.broker.move_leader(topic, partition, nodes[0])
        self.broker.set_isr(topic, partition, list(nodes))

    def coordinator(self, group: str) -> int:
        return self.broker.group(group).coordinator

    def move_coordinator(self, group: str, node: int) -> None:
        self.broker.move_coordinator(node, group=group)

    def kill(self, node: int) -> None:
        self.broker.stop_node(node)
        self._stopped.add(node)

    def start(self, node: int) -> None:
        self.broker.start_node(node)
        self._stopped.discard(node)

    def prefix(self) -> list[str]:
        return []

    def cut(self, client_id: str) -> None:
        self._cuts.append(self.broker.fault(client_id=client_id, black_hole="both"))

    def heal(self) -> None:
        for fault in self._cuts:
            fault.remove()
        self._cuts.clear()

    def close(self) -> None:
        self.broker.stop()

    def mend(self) -> None:
        self._cuts.clear()
        self.broker.remove_faults()
        for node in list(self._stopped):
            self.start(node)


class KafkaStage(Stage):
    """Apache Kafka in three JVMs, behind a network that can be cut if the machine allows it."""

    kind: Kind = "kafka"
    short_session = 4.0

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.edge: Edge | None = Edge.make(self._stack)
        self.cluster = KafkaCluster(NODES, config=SETTINGS, host=HOST if self.edge is None else self.edge.address)
        self._stack.enter_context(self.cluster)

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def create_topic(self, topic: str, partitions: int) -> None:
        self.cluster.helper.create_topic(topic, partitions=partitions, replication=NODES, config=CONFIG)
        self.cluster.wait_in_sync(topic)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self.cluster.helper.add_partitions(topic, partitions)
        # librdkafka fails records of a partition that the node it asks does not know yet.
        self.cluster.wait_partitions(topic, partitions)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        self.cluster.helper.move_leader(topic, partition, node)

    def reassign(self, topic: str, partition: int, nodes: Sequence[int]) -> None:
        self.cluster.helper.reassign(topic, partition, nodes)
        self.cluster.helper.elect_leader(topic, partition)

    def coordinator(self, group: str) -> int:
        return self.leader(OFFSETS_TOPIC, offsets_partition(group))

    def move_coordinator(self, group: str, node: int) -> None:
        self.cluster.helper.move_leader(OFFSETS_TOPIC, offsets_partition(group), node)

    def kill(self, node: int) -> None:
        self.cluster.kill(node)

    def start(self, node: int) -> None:
        self.cluster.start(node, timeout_seconds=90.0)
        self.cluster.wait_in_sync(timeout_seconds=90.0)

    def restart(self, node: int) -> None:
        self.cluster.restart(node, timeout_seconds=90.0)
        self.cluster.wait_in_sync(timeout_seconds=90.0)

    def prefix(self) -> list[str]:
        return Edge.required(self.edge).prefix

    def cut(self, client_id: str) -> None:  # noqa: ARG002 - everyone behind the edge is cut off
        Edge.required(self.edge).cut()

    def heal(self) -> None:
        Edge.required(self.edge).heal()

    def cut_connections(self, node: Node, draw: random.Random) -> bool:
        """Reset one connection of a client to a node (`ss -K`); returns whether one was."""
        to_node = ["dst", node.host, "dport", "=", f":{node.port}"]
        ports = [line.split()[2].rpartition(":")[2] for line in _sockets("state", "established", *to_node)]
        return bool(ports) and bool(_sockets("-K", *to_node, "sport", "=", f":{draw.choice(ports)}"))

    def close(self) -> None:
        self._stack.close()

    def mend(self) -> None:
        if self.edge is not None:
            self.edge.heal()
        for node in self.cluster.nodes.values():
            if node.pid is None:
                self.start(node.id)


def _sockets(*arguments: str) -> list[str]:
    listed = subprocess.run(["ss", "-Htn", *arguments], capture_output=True, text=True, timeout=30, check=True)
    return listed.stdout.splitlines()


def offsets_partition(group: str) -> int:
    """The partition of the offsets topic that a group belongs to, as `String.hashCode` of Java has it."""
    hashed = 0
    for unit in group.encode("utf-16-be")[1::2]:
        hashed = (hashed * 31 + unit) & 0xFFFFFFFF
    partitions = SETTINGS["offsets.topic.num.partitions"]
    assert isinstance(partitions, int)
    return (hashed & 0x7FFFFFFF) % partitions
