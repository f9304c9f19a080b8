"""What is compared: a client with a way of sharing partitions out."""

from collections.abc import Mapping
from dataclasses import dataclass

SESSION_MS, HEARTBEAT_MS = 6000, 2000
DELAY_MS = 10_000
"""How long `deferred` waits for a member to come back."""

JAVA = "org.apache.kafka.clients.consumer."
CLASSIC = {"session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": str(HEARTBEAT_MS)}
STRATEGY = "partition.assignment.strategy"
PROTOCOL = "group.protocol"
BROKER = {
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.consumer.min.heartbeat.interval.ms": HEARTBEAT_MS,
}
"""Session and heartbeat of the consumer protocol are the broker's; the same for all."""


@dataclass(frozen=True)
class Arm:
    """One of the compared.

    Attributes:
        client: `monedula`, `confluent` or `java`.
        policy: as the page that helps to choose names it.
        settings: beside those that all have.
    """

    client: str
    policy: str
    settings: Mapping[str, str]

    @property
    def name(self) -> str:
        """Of both."""
        return f"{self.client}/{self.policy}"


def _all() -> list[Arm]:
    def ours(policy: str, settings: Mapping[str, str] | None = None) -> Arm:
        return Arm("monedula", policy, {**CLASSIC, STRATEGY: policy, **(settings or {})})

    cooperative, consumer = "cooperative-sticky", {PROTOCOL: "consumer"}
    return [
        ours("range"),
        ours(cooperative),
        ours("deferred", {"scheduled.rebalance.max.delay.ms": str(DELAY_MS)}),
        ours("incremental", {"max.moves.per.round": "2", "round.interval.ms": "1000"}),
        Arm("monedula", "consumer", {**consumer, "session.timeout.ms": str(SESSION_MS)}),
        Arm("confluent", "range", {**CLASSIC, STRATEGY: "range"}),
        Arm("confluent", cooperative, {**CLASSIC, STRATEGY: cooperative}),
        Arm("confluent", "consumer", consumer),
        Arm("java", "range", {**CLASSIC, STRATEGY: f"{JAVA}RangeAssignor"}),
        Arm("java", cooperative, {**CLASSIC, STRATEGY: f"{JAVA}CooperativeStickyAssignor"}),
        Arm("java", "consumer", consumer),
    ]


ARMS = {arm.name: arm for arm in _all()}
