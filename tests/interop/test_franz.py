"""franz-go, through a small Go program in `franz/`."""

import os
import subprocess
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import give_up
from tests.interop import installed
from tests.interop.conftest import Unique
from tests.interop.process import Driver, Event, Refused, eventually
from tests.interop.servers import Server
from tests.kafka import KafkaUnavailable

# The first test builds the program, and on a busy machine Go takes minutes for that.
pytestmark = [pytest.mark.timeout(400), pytest.mark.thorough]


def records(events: list[Event], *members: str) -> list[Event]:
    return [event for event in events if event["event"] == "record" and (not members or event["member"] in members)]


def owned(events: list[Event], topic: str) -> dict[str, set[int]]:
    """The partitions of each member after these events."""
    owners: dict[str, set[int]] = {}
    for event in events:
        partitions = set((event.get("partitions") or {}).get(topic, []))
        if event["event"] == "assigned":
            owners[event["member"]] = owners.get(event["member"], set()) | partitions
        elif event["event"] in ("revoked", "lost"):
            owners[event["member"]] = owners.get(event["member"], set()) - partitions
    return owners


def shared_out(topic: str, members: int, partitions: int) -> Callable[[list[Event]], bool]:
    """Whether each partition has one owner, and as many members as that have an equal share."""

    def condition(events: list[Event]) -> bool:
        shares = [share for share in owned(events, topic).values() if share]
        everything = sorted(partition for share in shares for partition in share)
        return (
            len(shares) == members
            and everything == list(range(partitions))
            and max(map(len, shares)) - min(map(len, shares)) <= 1
        )

    return condition


def never_owned_twice(events: list[Event], topic: str) -> None:
    """No member got a partition before its former owner revoked it."""
    for number, event in enumerate(events):
        if event["event"] in ("assigned", "revoked", "lost"):
            shares = owned(events[: number + 1], topic).values()
            twice = [p for p, count in Counter(p for share in shares for p in share).items() if count > 1]
            assert not twice, (event, twice)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", "leader"])
def test_records_of_every_codec_come_back(franz: Driver, unique: Unique, codec: str, acks: str) -> None:
    topic = unique("topic")
    values = [f"value {n} " * 10 for n in range(200)]
    assert franz.call("produce", topic=topic, values=values, codec=codec, acks=acks) == list(range(200))
    franz.call("consume", name="m", group=unique("group"), topic=topic)
    franz.wait("200 records", lambda events: len(records(events)) >= 200)
    assert [(r["offset"], r["value"], r["headers"]) for r in records(franz.events)] == [
        (n, value, 1) for n, value in enumerate(values)
    ]


@pytest.mark.parametrize("protocol", ["cooperative", "consumer", "range", "sticky"])
def test_three_members_share_partitions_and_go_on_when_one_leaves(franz: Driver, unique: Unique, protocol: str) -> None:
    topic, group = unique("topic"), unique("group")
    franz.call("kadm.create_topic", topic=topic, partitions=6)
    franz.call("produce", topic=topic, values=[f"v{n}" for n in range(120)], partitions=6)
    for members, name in enumerate(["a", "b", "c"], start=1):
        franz.call("consume", name=name, group=group, topic=topic, protocol=protocol)
        franz.wait(f"{members} owners", shared_out(topic, members, 6))
    franz.call("stop", name="b")
    franz.wait("two owners", shared_out(topic, 2, 6))
    franz.call("produce", topic=topic, values=["after"] * 60, partitions=6)
    franz.wait("all records", lambda events: len({(r["partition"], r["offset"]) for r in records(events)}) == 180)
    never_owned_twice(franz.events, topic)
    errors = [event for event in franz.events if event["event"] == "error"]
    assert errors == []


def test_a_static_member_takes_its_partitions_up_again(franz: Driver, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    franz.call("kadm.create_topic", topic=topic, partitions=4)
    # One after the other, so that the first leads: a leader that comes back (KIP-814) makes franz-go join once more.
    for count, name in enumerate(("a", "b"), 1):
        franz.call("consume", name=name, group=group, topic=topic, instance=name)
        franz.wait(f"{count} owners", shared_out(topic, count, 4))
    had = owned(franz.events, topic)

    def bounced() -> int:
        """How often the member that stays was assigned something by the time the other is back."""
        franz.call("stop", name="b")
        before = len(franz.events)
        franz.call("consume", name="b", group=group, topic=topic, instance="b")
        franz.wait("its partitions", lambda events: owned(events[before:], topic).get("b") == had["b"])
        return len([event for event in franz.events if event["event"] == "assigned" and event["member"] == "a"])

    # From the first restart on: the events of "a" for the rebalance before may come after those of "b".
    rebalances = bounced()
    assert bounced() == rebalances, "no rebalance for the member that stayed"


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_each_record_is_transformed_exactly_once_while_members_come_and_go(
    franz: Driver, unique: Unique, protocol: str
) -> None:
    source, target, group = unique("source"), unique("target"), unique("group")
    franz.call("kadm.create_topic", topic=source, partitions=4)
    franz.call("kadm.create_topic", topic=target, partitions=2)
    values = [f"v{n}" for n in range(400)]

    def add(name: str) -> None:
        franz.call(
            "transform",
            name=name,
            group=group,
            topic=source,
            target=target,
            protocol=protocol,
            transactional_id=unique(name),
        )

    def done(transactions: int) -> Callable[[list[Event]], bool]:
        return lambda events: len([e for e in events if e["event"] == "transaction" and e["committed"]]) >= transactions

    add("a")
    franz.call("produce", topic=source, values=values[:100], partitions=4)
    franz.wait("a transaction", done(1))
    add("b")
    franz.call("produce", topic=source, values=values[100:200], partitions=4)
    franz.wait("two owners", shared_out(source, 2, 4))
    franz.call("produce", topic=source, values=values[200:300], partitions=4)
    franz.call("stop", name="a")
    franz.call("produce", topic=source, values=values[300:], partitions=4)
    # By the group's commits: they are in the same transactions as the records.
    eventually("every record transformed", lambda: sum(franz.call("kadm.committed", group=group).values()) == 400)
    franz.call("consume", name="reader", group=unique("reader"), topic=target)
    franz.wait("400 records", lambda events: len(records(events, "reader")) >= 400)
    assert Counter(r["value"] for r in records(franz.events, "reader")) == Counter(v.upper() for v in values)


def test_a_newer_producer_fences_the_older(franz: Driver, unique: Unique) -> None:
    told = franz.call("fence", topic=unique("topic"), transactional_id=unique("id"))
    assert "PRODUCER_FENCED" in told or "INVALID_PRODUCER_EPOCH" in told


def test_the_admin_client(franz: Driver, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")

    def kadm(method: str, **fields: Any) -> Any:
        return franz.call(f"kadm.{method}", **{"topic": topic, "group": group, **fields})

    assert kadm("create_topic", partitions=2, config={"retention.ms": "60000"}) == 2
    with pytest.raises(Refused, match="TOPIC_ALREADY_EXISTS"):
        kadm("create_topic", partitions=2)
    kadm("set_partitions", partitions=3)
    eventually("three partitions", lambda: kadm("partitions") == [0, 1, 2])
    assert kadm("brokers") == [1]
    assert kadm("config")["retention.ms"] == "60000"
    kadm("alter_config", config={"retention.ms": None, "cleanup.policy": "compact"})
    assert (kadm("config")["retention.ms"], kadm("config")["cleanup.policy"]) == ("604800000", "compact")
    kadm("alter_config", config={"cleanup.policy": "delete"})

    franz.call("produce", topic=topic, values=["v"] * 9, partitions=3)
    assert kadm("offsets", how="end") == {"0": 3, "1": 3, "2": 3}
    assert kadm("offsets", how="after", millisecond=1) == {"0": 0, "1": 0, "2": 0}
    kadm("delete_records", partition=1, offset=2)
    assert kadm("offsets", how="start") == {"0": 0, "1": 2, "2": 0}

    franz.call("consume", name="m", group=group, topic=topic)
    franz.wait("7 records", lambda events: len(records(events)) == 7)
    assert kadm("group") == {"state": "Stable", "protocol": "cooperative-sticky", "members": ["interop"]}
    assert group in kadm("groups")
    assert kadm("coordinator") == 1
    with pytest.raises(Refused, match="NON_EMPTY_GROUP"):
        kadm("delete_group")
    franz.call("stop", name="m")
    assert kadm("group")["state"] == "Empty"
    assert (kadm("committed"), kadm("lag")) == ({"0": 3, "1": 3, "2": 3}, 0)
    kadm("commit", partition=1, offset=2)
    assert kadm("lag") == 1
    kadm("delete_offsets", partition=2)
    assert kadm("committed") == {"0": 3, "1": 2}
    kadm("delete_group")
    assert group not in kadm("groups")
    kadm("delete_topic")
    eventually("no such topic", lambda: topic not in kadm("topics"))


def test_a_consumer_group_is_described(franz: Driver, unique: Unique) -> None:
    topic, group = unique("topic"), unique("group")
    franz.call("kadm.create_topic", topic=topic, partitions=3)
    franz.call("consume", name="m", group=group, topic=topic, protocol="consumer")
    franz.wait("all partitions", shared_out(topic, 1, 3))
    eventually(
        "the group at rest",
        lambda: (
            franz.call("kadm.consumer_group", group=group, topic=topic)
            == {"state": "Stable", "assignor": "uniform", "owned": [0, 1, 2], "reconciled": True}
        ),
    )


@pytest.mark.parametrize("name", ["TestShareGroupETL", "TestShareGroupAckOnClose", "TestShareGroupOffsetsAdmin"])
def test_the_clients_own_tests_of_share_groups_pass(server: Server, name: str) -> None:
    try:
        program = installed.franz_tests()
    except KafkaUnavailable as error:
        give_up(error)
    environment = {"KGO_SEEDS": server.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "5000"}
    ran = subprocess.run(
        [program, "-test.run", f"^{name}$", "-test.v", "-test.timeout", "240s"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert f"--- PASS: {name}" in ran.stdout, f"{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
