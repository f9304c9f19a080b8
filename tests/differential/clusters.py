"""The two clusters that are compared, behind one interface."""

from collections.abc import Mapping
from typing import Any, Protocol

from tests.differential.wire import Connection, Wire
from tests.kafka import KafkaCluster
from tests.kafka.secured import ADMIN, ANNA, BORIS, SecuredKafka
from tests.kafka.secured.users import ANONYMOUS

# Settings of both, besides those of `KafkaCluster`.
SETTINGS: Mapping[str, str] = {
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "4",
    "group.consumer.max.size": "4",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.share.max.size": "4",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # Kafka's own default; the embedded broker's is smaller, because its segments are in memory.
    "log.segment.bytes": "1073741824",
}
# Settings of Kafka only.
KAFKA_SETTINGS: Mapping[str, str] = {
    # Assignments are made while the heartbeat that needs them is served, not after it.
    "group.consumer.assignor.offload.enable": "false",
    "group.share.assignor.offload.enable": "false",
}


# Settings of both if clients log in.
SECURED_SETTINGS: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"{ANONYMOUS};{ADMIN.principal}",
}
USERS: Mapping[str, str] = {user.name: user.password for user in (ADMIN, ANNA, BORIS)}


class Cluster(Protocol):
    """A cluster of either kind."""

    name: str

    def connect(self, node: int) -> Connection:
        """Connect to a node."""

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make a node the leader of a partition, in a new epoch."""

    def stop(self, node: int) -> None:
        """Stop a node cleanly."""

    def start(self, node: int) -> None:
        """Start it again."""


class RealKafka:
    """Apache Kafka."""

    name = "kafka"

    def __init__(self, wire: Wire, cluster: KafkaCluster) -> None:
        self.wire = wire
        self.cluster = cluster

    def connect(self, node: int) -> Connection:
        return self.wire.connect(self.cluster.nodes[node].address)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        self.cluster.helper.move_leader(topic, partition, node)
        self.cluster.wait_leader(topic, partition, node)

    def stop(self, node: int) -> None:
        self.cluster.stop(node)

    def start(self, node: int) -> None:
        self.cluster.start(node)


class SecuredRealKafka(RealKafka):
    """Apache Kafka, by its listener `SASL_PLAINTEXT`."""

    def __init__(self, wire: Wire, cluster: SecuredKafka) -> None:
        super().__init__(wire, cluster)
        self.secured = cluster

    def connect(self, node: int) -> Connection:
        return self.wire.connect(f"127.0.0.1:{self.secured.ports[node]['SASL_PLAINTEXT']}")


class Embedded:
    """Ours.

    Args:
        wire: the program that it runs in.
        nodes: how many it plays.
        settings: those of the broker.
        users: users who may log in; without any, no login is needed.
    """

    name = "embedded"

    def __init__(
        self, wire: Wire, nodes: int, settings: Mapping[str, str], users: Mapping[str, str] | None = None
    ) -> None:
        self.wire = wire
        started = wire.command("start", nodes=nodes, settings=dict(settings), users=dict(users or {}))
        self.number: int = started["broker"]
        self.addresses: dict[str, str] = started["addresses"]

    def connect(self, node: int) -> Connection:
        return self.wire.connect(self.addresses[str(node)])

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        self._control("move_leader", topic=topic, partition=partition, node=node)

    def stop(self, node: int) -> None:
        self._control("stop_node", node=node)

    def start(self, node: int) -> None:
        self._control("start_node", node=node)

    def _control(self, command: str, **fields: Any) -> Any:
        return self.wire.command("control", broker=self.number, command={"command": command, **fields})
