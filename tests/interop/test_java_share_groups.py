"""Java's KafkaShareConsumer and its tool for share groups (KIP-932)."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import monedula
import pytest

from tests.interop import java
from tests.interop.conftest import Unique
from tests.interop.process import Driver, eventually
from tests.interop.servers import Server
from tests.kafka import KafkaHelper, jars

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.skipif(not jars.speaks("4.2"), reason="share groups are generally available since Kafka 4.2"),
]

SHARE = Path(__file__).with_name("java") / "Share.java"
GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"

Share = Callable[..., Driver]
Row = tuple[str, int, str]
"""Value, delivery count and what was decided."""

CROSSED_SECONDS = 150.0


@pytest.fixture
def share(server: Server) -> Iterator[Share]:
    """Starts a share consumer; it is stopped after the test."""
    started: list[Driver] = []

    def start(group: str, topic: str, records: int, mode: str = "implicit", acquire: str = "batch_optimized") -> Driver:
        started.append(java.running(SHARE, server.bootstrap, group, topic, mode, acquire, str(records)))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()


def from_the_beginning(server: Server, group: str) -> None:
    where = ("--entity-type", "groups", "--entity-name", group)
    java.tool(java.CONFIGS, server.bootstrap, "--alter", *where, "--add-config", "share.auto.offset.reset=earliest")


def filled(server: Server, topic: str, values: list[str]) -> None:
    given = "".join(f"{value}\n" for value in values)
    java.tool(java.CONSOLE_PRODUCER, server.bootstrap, "--topic", topic, given=given)


def records(*drivers: Driver) -> list[Row]:
    """The records that they told of."""
    events = [event for driver in drivers for event in list(driver.events) if event["event"] == "record"]
    return [(event["value"], event["deliveries"], event["type"]) for event in events]


@pytest.mark.parametrize("acquire", ["batch_optimized", "record_limit"])
def test_every_record_becomes_what_its_member_decides(
    server: Server, helper: KafkaHelper, share: Share, unique: Unique, acquire: str
) -> None:
    topic, group = unique("topic"), unique("group")
    helper.create_topic(topic, partitions=1)
    from_the_beginning(server, group)
    filled(server, topic, ["accept0", "release1", "reject2", "renew3", "accept4", "release5", "accept6"])
    consumer = share(group, topic, 7, "explicit", acquire)
    assert consumer.wait_ended() == 0
    assert Counter(records(consumer)) == Counter(
        {
            ("accept0", 1, "ACCEPT"): 1,
            ("release1", 1, "RELEASE"): 1,
            ("release1", 2, "ACCEPT"): 1,
            ("reject2", 1, "REJECT"): 1,
            ("renew3", 1, "RENEW"): 1,
            ("renew3", 1, "ACCEPT"): 1,
            ("accept4", 1, "ACCEPT"): 1,
            ("release5", 1, "RELEASE"): 1,
            ("release5", 2, "ACCEPT"): 1,
            ("accept6", 1, "ACCEPT"): 1,
        }
    )
    events = list(consumer.events)
    assert [event for event in events if event["event"] == "failed"] == []
    assert {event["lock_ms"] for event in events if event["event"] == "committed"} == {30_000}
    assert lags(server, group, topic) == {0: 0}


def test_members_divide_the_records_and_not_the_partitions(
    server: Server, helper: KafkaHelper, share: Share, unique: Unique
) -> None:
    topic, group = unique("topic"), unique("group")
    helper.create_topic(topic, partitions=2)
    from_the_beginning(server, group)
    consumers = [share(group, topic, 10_000) for _ in range(3)]
    eventually("three members", lambda: "Stable" in state(server, group) and " 3" in state(server, group))
    # Into both partitions: one of which nothing was acknowledged has no lag, as the tool tells it.
    helper.produce(topic, [{"value": f"value{number}", "partition": number % 2} for number in range(300)])
    eventually("all 300", lambda: len({value for value, *_ in records(*consumers)}) == 300)
    assert all(deliveries == 1 for _, deliveries, _ in records(*consumers))
    eventually("no lag", lambda: sum(lags(server, group, topic).values()) == 0)


def test_a_member_that_is_killed_has_its_records_delivered_again(
    server: Server, helper: KafkaHelper, share: Share, unique: Unique
) -> None:
    topic, group = unique("topic"), unique("group")
    helper.create_topic(topic, partitions=1)
    from_the_beginning(server, group)
    filled(server, topic, ["hold0", "hold1"])
    first = share(group, topic, 3, "explicit")
    eventually("both with the first", lambda: {value for value, *_ in records(first)} == {"hold0", "hold1"})
    first.kill()
    filled(server, topic, ["accept2"])
    second = share(group, topic, 3, "explicit")
    assert second.wait_ended() == 0
    accepted = {(value, deliveries) for value, deliveries, kind in records(second) if kind == "ACCEPT"}
    assert accepted == {("hold0", 2), ("hold1", 2), ("accept2", 1)}


def test_java_s_member_and_ours_take_what_the_other_releases(
    server: Server, helper: KafkaHelper, share: Share, unique: Unique
) -> None:
    topic, group = unique("topic"), unique("group")
    helper.create_topic(topic, partitions=1)  # of two partitions, each of the two members would be given one
    from_the_beginning(server, group)
    theirs, ours, written = share(group, topic, 1_000_000, "explicit"), list[Row](), list[str]()

    def crossed() -> bool:
        """Whether each of the two has accepted what the other released."""
        java = records(theirs)
        return all(values(one, "RELEASE") & values(other, "ACCEPT") for one, other in ((java, ours), (ours, java)))

    def ended() -> set[str]:
        both = records(theirs) + ours
        return values(both, "ACCEPT") | values(both, "REJECT")

    settings = {"bootstrap.servers": server.bootstrap, "group.id": group, "max.poll.records": 5}
    columns = ["topic", "partition", "offset", "value", "deliveryCount"]
    with monedula.ShareConsumer(settings, [topic], columns=columns) as consumer:
        eventually("two members", lambda: " 2" in state(server, group))
        until = time.monotonic() + CROSSED_SECONDS
        while not crossed() or ended() != set(written):
            assert time.monotonic() < until, (len(written), len(ours), len(records(theirs)), consumer.health())
            if not crossed() and ended() == set(written):
                more = [f"{('accept', 'release', 'release', 'reject')[n % 4]}{len(written) + n}" for n in range(40)]
                # In batches of a few: a batch goes to one member.
                for first in range(0, len(more), 4):
                    helper.produce(topic, [{"value": value} for value in more[first : first + 4]])
                written += more
            ours += decided(consumer, consumer.poll(timeout=0.2))
    expected = Counter[Row]()
    for value in written:
        kind = value.rstrip("0123456789")
        steps = {"accept": ["ACCEPT"], "reject": ["REJECT"], "release": ["RELEASE", "ACCEPT"]}[kind]
        expected.update((value, number, step) for number, step in enumerate(steps, 1))
    assert Counter(records(theirs) + ours) == expected
    assert [event for event in theirs.events if event["event"] == "failed"] == []
    assert sum(lags(server, group, topic).values()) == 0


def decided(consumer: monedula.ShareConsumer, batch: monedula.Batch) -> list[Row]:
    """Decide as `Share.java` does, and wait for the outcomes."""
    rows: list[Row] = []
    for record in batch.records():
        value, deliveries = (record.value or b"").decode(), record.delivery_count or 0
        kind = value.rstrip("0123456789")
        decision = "accept" if kind == "release" and deliveries > 1 else kind
        getattr(consumer, decision)(record)
        rows.append((value, deliveries, decision.upper()))
    if rows:
        consumer.commit(batch)
    return rows


def values(rows: list[Row], kind: str) -> set[str]:
    """The values of which this was decided."""
    return {value for value, _, decision in rows if decision == kind}


def test_the_tool_describes_resets_and_deletes(
    server: Server, helper: KafkaHelper, share: Share, unique: Unique
) -> None:
    topic, group, at = unique("topic"), unique("group"), server.bootstrap
    helper.create_topic(topic, partitions=1)
    from_the_beginning(server, group)
    filled(server, topic, ["accept0", "accept1"])
    assert share(group, topic, 2).wait_ended() == 0
    eventually("an empty group", lambda: "Empty" in state(server, group))
    assert group in java.tool(GROUP_TOOL, at, "--list").split()
    assert lags(server, group, topic) == {0: 0}
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    java.tool(GROUP_TOOL, at, *reset)
    assert lags(server, group, topic) == {0: 2}
    assert share(group, topic, 2).wait_ended() == 0
    eventually("an empty group again", lambda: "Empty" in state(server, group))
    java.tool(GROUP_TOOL, at, "--delete-offsets", "--group", group, "--topic", topic)
    java.tool(GROUP_TOOL, at, "--delete", "--group", group)
    assert group not in java.tool(GROUP_TOOL, at, "--list").split()


def state(server: Server, group: str) -> str:
    return java.tool(GROUP_TOOL, server.bootstrap, "--describe", "--group", group, "--state")


def lags(server: Server, group: str, topic: str) -> dict[int, int]:
    """The lag of each partition."""
    rows = java.table(java.tool(GROUP_TOOL, server.bootstrap, "--describe", "--group", group, "--offsets"))
    return {int(row["PARTITION"]): int(row["LAG"]) for row in rows if row["TOPIC"] == topic}
