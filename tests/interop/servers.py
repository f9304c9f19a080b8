"""The servers of the scenarios: the embedded broker, or a real Kafka with the same settings."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Literal

from monedula.testing import Broker

from tests.kafka import KafkaCluster

Kind = Literal["embedded", "kafka"]

SETTINGS: dict[str, object] = {
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    # A partition of a consumer group (KIP-848) changes its owner after a heartbeat or two of each member.
    "group.consumer.heartbeat.interval.ms": 200,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}
"""By Kafka's names, of both kinds of server."""

KAFKA_ONLY: dict[str, object] = {"group.consumer.min.heartbeat.interval.ms": 200}
"""Settings that the real one needs to accept these."""


class Server(ABC):
    """One node that other people's clients talk to."""

    kind: Kind

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """`bootstrap.servers`; the same after a restart."""

    @abstractmethod
    def start(self) -> None:
        """Start it, or start it again with the same port and data."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it; its data stay."""

    @abstractmethod
    def close(self) -> None:
        """End it."""


class RealKafka(Server):
    """Apache Kafka in a JVM."""

    kind: Kind = "kafka"

    def __init__(self) -> None:
        self._cluster = KafkaCluster(1, config={**SETTINGS, **KAFKA_ONLY})
        self._cluster.__enter__()

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def start(self) -> None:
        self._cluster.start(1)

    def stop(self) -> None:
        self._cluster.stop(1)

    def close(self) -> None:
        self._cluster.close()


class Embedded(Server):
    """The embedded broker, in this process.

    Args:
        data_dir: where its data are kept.
        nodes: how many nodes it plays.
    """

    kind: Kind = "embedded"

    def __init__(self, data_dir: Path | None = None, nodes: int = 1) -> None:
        self._data_dir = data_dir
        self._nodes = nodes
        self._port = 0
        self.start()

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap_servers

    def start(self) -> None:
        racks = [f"rack-{node}" for node in range(1, self._nodes + 1)]
        self.broker = Broker(self._nodes, port=self._port, data_dir=self._data_dir, racks=racks, settings=SETTINGS)
        self._port = int(self.broker.addresses[1].rpartition(":")[2])

    def stop(self) -> None:
        self.broker.stop()

    def close(self) -> None:
        self.broker.stop()
