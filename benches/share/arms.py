"""What is compared: how records are acquired and decided of, and by which client."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kafka import jars

GROUP = {"share.auto.offset.reset": "earliest"}
"""Settings of each share group; the others are Kafka's defaults, such as 2,000 locks in a partition, of 30 s."""
BROKER = {"group.share.min.heartbeat.interval.ms": 500, "group.share.heartbeat.interval.ms": 500}
"""A new group has partitions with the second heartbeat of its member: Kafka's default are 5 s."""


@dataclass(frozen=True)
class Arm:
    """One workload.

    Attributes:
        acquire: `share.acquire.mode`.
        decisions: `accept`: batches are accepted whole; `mask`: a row in a hundred is rejected, and one released once.
    """

    acquire: str
    decisions: str

    @property
    def name(self) -> str:
        """Of both."""
        return f"{self.acquire}, {self.decisions}"

    def takes(self, peer: str) -> bool:
        """Whether the peer can read so."""
        return {
            "confluent": self.acquire == "batch_optimized",
            "java_perf": self.decisions == "accept",
            "monedula_group": self == ARMS[0],
        }.get(peer, True)

    def command(self, peer: str, topic: str, records: int, settings: Mapping[str, str]) -> list[str]:
        """The process of a peer."""
        if peer == "monedula_group":
            return _module("benches.peers.monedula_group", topic, records, settings)
        if peer != "confluent":  # whose preview has no such setting
            settings = {**settings, "share.acquire.mode": self.acquire}
        if peer == "java":
            return java(self.decisions, topic, records, settings)
        if peer == "java_perf":
            settings = {**settings, "program": "ShareConsumerPerformance"}
            return _module("benches.peers.java_perf", topic, records, settings)
        return _module(f"benches.share.member_{peer}", topic, records, {**settings, "decisions": self.decisions})


ARMS = [Arm(acquire, decisions) for acquire in ("batch_optimized", "record_limit") for decisions in ("accept", "mask")]
PEERS = ("monedula", "java", "confluent", "java_perf", "monedula_group")


def java(what: str, topic: str, records: int, settings: Mapping[str, str]) -> list[str]:
    """The process of `Member.java`."""
    options = ["-Xms1g", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", jars.class_path()]
    source = str(Path(__file__).with_name("Member.java"))
    return [jars.java(), *options, source, what, topic, str(records), *_pairs(settings)]


def _module(module: str, topic: str, records: int, settings: Mapping[str, str]) -> list[str]:
    settings = dict(settings)
    command = [sys.executable, "-m", module, "--bootstrap", settings.pop("bootstrap.servers"), "--topic", topic]
    return [*command, "--records", str(records), *(f"--set={pair}" for pair in _pairs(settings))]


def _pairs(settings: Mapping[str, str]) -> Sequence[str]:
    return [f"{key}={value}" for key, value in settings.items()]
