"""Java's consumer as a member of a group: `VerifiableConsumer`, with events like ours; groups of several clients."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from tests.groups.behaviour.group import WAIT_SECONDS, Group, Member
from tests.groups.behaviour.history import Event, crc
from tests.groups.behaviour.scene import Scene
from tests.interop import java
from tests.interop.process import Driver

ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
MOVES = {"partitions_assigned": "assigned", "partitions_revoked": "revoked", "partitions_lost": "lost"}
MILLISECOND = 1_000_000


class JavaMember(Member):
    """A `VerifiableConsumer`: it commits after each poll.

    Args:
        name: in histories, and its client id.
        bootstrap: where.
        group: its id.
        topic: the topic that it subscribes to.
        strategies: names of assignors; empty for the consumer protocol.
        directory: for its settings.
        settings: of the consumer.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        group: str,
        topic: str,
        strategies: str,
        directory: Path,
        settings: dict[str, Any],
    ) -> None:
        self.name = name
        self.options = {"settings": {"client.id": name}}
        self.noted: list[Event] = []
        self._begin()
        path = directory / f"{group}-{name}.properties"
        lines = {"client.id": name, "metadata.max.age.ms": 500, **settings}
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"]
        arguments += ["--reset-policy", "earliest", "--command-config", str(path)]
        if strategies:
            classes = ",".join(ASSIGNORS[strategy] for strategy in strategies.split(","))
            arguments += ["--session-timeout", str(settings["session.timeout.ms"]), "--assignment-strategy", classes]
        else:
            arguments += ["--group-protocol", "consumer"]
        # Its events are stamped with the time of day; all others with the time since the machine was started.
        self._clock_ns = time.monotonic_ns() - time.time_ns()
        self._numbers = 0
        self._told: list[Event] = []
        self._heard = 0
        self.driver = Driver(java.command(java.VERIFIABLE_CONSUMER, *arguments))

    @property
    def events(self) -> list[Event]:
        """Its events as ours."""
        events = self.driver.events
        while self._heard < len(events):
            for told in self._translated(events[self._heard]):
                # A record in the same millisecond as a revocation came before it.
                told["t"] = max(told["t"], self._told[-1]["t"]) if self._told else told["t"]
                self._told.append(told)
            self._heard += 1
        return self._told

    def leave(self) -> None:
        """SIGTERM: it closes its consumer."""
        self.is_leaving = True
        self.driver.terminate()
        self.alive = False

    def kill(self) -> None:
        """SIGKILL."""
        os.kill(self.driver.pid, signal.SIGKILL)
        self.driver.wait_ended(WAIT_SECONDS)
        self.note("killed")
        self.alive = False

    def _translated(self, event: Event) -> list[Event]:
        at = int(event.get("timestamp", 0)) * MILLISECOND + self._clock_ns
        match event["name"]:
            case "partitions_assigned" | "partitions_revoked" | "partitions_lost" as name:
                # Timestamps are rounded down: an event may have begun up to a millisecond later.
                begins = MILLISECOND if name == "partitions_assigned" else 0
                partitions = [[each["topic"], each["partition"]] for each in event["partitions"]]
                return [{"t": at + begins, "event": MOVES[name], "partitions": partitions}] if partitions else []
            case "record_data":
                self._numbers += 1
                offset, value = event["offset"], event["value"].encode()
                part = [event["topic"], event["partition"], offset, offset, 1, crc([value])]
                after = at + MILLISECOND
                return [
                    {"t": after, "event": "batch", "n": self._numbers, "parts": [part]},
                    {"t": after, "event": "finished", "n": self._numbers},
                ]
            case "offsets_committed":
                self._numbers += 1
                offsets = [[each["topic"], each["partition"], each["offset"]] for each in event["offsets"]]
                done = "committed" if event["success"] else "commit_failed"
                after = at + MILLISECOND
                return [
                    {"t": after, "event": "commit", "c": self._numbers, "offsets": offsets},
                    {"t": after, "event": done, "c": self._numbers, "offsets": offsets},
                ]
            case "shutdown_complete":
                return [{"t": at + MILLISECOND, "event": "closed"}]
        return []


class Mixed:
    """Starts members of each client in one group; without strategies under the consumer protocol."""

    def __init__(self, play: Scene, strategies: str, directory: Path) -> None:
        self.play = play
        self.strategies = strategies
        self._directory = directory

    @property
    def group(self) -> Group:
        return self.play.group

    def start(self, client: str, name: str, strategies: str | None = None) -> Member:
        wanted = self.strategies if strategies is None else strategies
        if client == "java":
            timing: dict[str, int] = {}
            if wanted:
                timing = {"session.timeout.ms": round(self.group.session_seconds * 1000), "heartbeat.interval.ms": 500}
            where = (self.play.stage.bootstrap, self.group.group, self.play.topic)
            return self.group.add(JavaMember(name, *where, wanted, self._directory, timing))
        kind = "monedula" if client == "ours" else "confluent"
        return self.group.join(name, client=kind, settings={"partition.assignment.strategy": wanted} if wanted else {})

    def join(self, client: str, name: str, strategies: str | None = None) -> Member:
        member = self.start(client, name, strategies)
        self.settle()
        return member

    def settle(self) -> None:
        """Wait until each partition has one owner, and each member its share, and records flow."""
        self.play.shared()
        self.play.flows(records=3)
