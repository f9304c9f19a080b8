"""The embedded broker with the methods of `KafkaCluster`, so that tests run on either."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from monedula.testing import Broker

from tests.kafka.cluster import HOST, KafkaCluster, Node
from tests.kafka.embedded_helper import EmbeddedHelper
from tests.kafka.tools import KafkaHelper

SETTINGS: dict[str, object] = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
"""Attributes of a `KafkaCluster` that the embedded broker has too."""


class EmbeddedCluster(KafkaCluster):
    """Nodes of the embedded broker. They end and come back with their data, all of them in this process.

    Args:
        nodes: how many; ids are 1, 2, 3.
        config: broker settings on top of the fixture's own.
    """

    def __init__(self, nodes: int = 1, *, config: Mapping[str, object] | None = None) -> None:
        self._reaper = None
        self.config = {**SETTINGS, **(config or {})}
        racks = [f"rack-{node}" for node in range(1, nodes + 1)]
        self.broker = Broker(nodes, settings=self.config, racks=racks, host=HOST)
        ports = {node: int(address.rpartition(":")[2]) for node, address in self.broker.addresses.items()}
        self.nodes = {node: Node(node, port, 0, Path()) for node, port in ports.items()}
        self._alive = set(self.nodes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def helper(self) -> KafkaHelper:
        """Librdkafka's admin client and producers."""
        return EmbeddedHelper(self.bootstrap, self.broker)

    def start(self, node_id: int, timeout_seconds: float = 60.0) -> None:  # noqa: ARG002 - it takes no time
        """Start a stopped node."""
        self.broker.start_node(node_id)
        self._alive.add(node_id)

    def kill(self, node_id: int) -> None:
        """End a node at once."""
        self._alive.remove(node_id)
        self.broker.stop_node(node_id)

    def stop(self, node_id: int, timeout_seconds: float = 60.0) -> None:  # noqa: ARG002 - it takes no time
        """End a node; an embedded one has no other way to stop."""
        self.kill(node_id)

    def close(self) -> None:
        """End all nodes; their data go with them."""
        if "helper" in self.__dict__:
            self.helper.close()
            del self.__dict__["helper"]
        self.broker.stop()

    def _running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.id in self._alive]
