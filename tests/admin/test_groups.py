"""Groups: listed over all brokers, described, deleted; their offsets listed, changed, reset, deleted; lag."""

import datetime as dt
import time

import monedula
import pyarrow as pa
import pytest
from monedula import Admin, OffsetAndMetadata, TopicPartition
from monedula.admin import OffsetReset
from monedula.errors import AdminErrors, GroupInUseError, GroupNotFoundError

from tests.admin.conftest import Ground
from tests.kafka import jars


@pytest.mark.req("S090")
def test_groups_are_listed_from_any_broker_and_described_by_name(ground: Ground) -> None:
    topic = ground.topic(2)
    groups = [ground.name("group") for _ in range(8)]
    for group in groups:
        ground.admin.alter_group_offsets(group, {(topic, 0): 0})
    seen = set()
    for node in ground.cluster.nodes.values():
        with Admin({"bootstrap.servers": node.address}) as admin:
            listed = admin.list_groups()
            assert set(groups) <= set(listed)
            seen |= {listed[group].coordinator for group in groups}
            described = admin.describe_groups(groups)
            assert sorted(described) == sorted(groups)
            assert {group.state for group in described.values()} == {"Empty"}
            for group in groups:
                coordinator = described[group].coordinator
                assert coordinator is not None
                assert coordinator.id == listed[group].coordinator
    assert len(seen) > 1, "each broker answers only for its own groups"
    member = ground.member(groups[0], topic)
    with pytest.raises(GroupInUseError) as raised:
        ground.admin.delete_groups(groups[0])
    assert (raised.value.group, raised.value.code) == (groups[0], "NON_EMPTY_GROUP")
    member.close()
    ground.until(lambda: ground.admin.describe_groups(groups[0])[groups[0]].state == "Empty")
    assert ground.admin.delete_groups(groups) == dict.fromkeys(groups)
    assert not set(groups) & set(ground.admin.list_groups())


def test_members_are_described_with_what_they_own(ground: Ground, admin: Admin) -> None:
    topic, group = ground.topic(3), ground.name("group")
    ground.member(group, topic, client_id="reader", group_instance_id="one")
    described = admin.describe_groups(group)[group]
    assert (described.state, described.type, described.protocol_type) == ("Stable", "classic", "consumer")
    assert (described.assignor, described.epoch) == ("cooperative-sticky", None)
    (member,) = described.members
    assert (member.client_id, member.instance_id, member.topics) == ("reader", "one", (topic,))
    assert member.assignment == tuple(TopicPartition(topic, index) for index in range(3))
    assert (member.host, member.target_assignment) == ("127.0.0.1", None)
    row = pa.table(admin.describe_groups(group).to_arrow()).to_pylist()[0]
    assert row["partitions"] == [f"{topic}-{index}" for index in range(3)]


def test_groups_are_filtered_by_state(ground: Ground, admin: Admin) -> None:
    topic, idle, busy = ground.topic(), ground.name("group"), ground.name("group")
    admin.alter_group_offsets(idle, {(topic, 0): 0})
    ground.member(busy, topic)
    assert {idle, busy} & set(admin.list_groups(states=["Stable"])) == {busy}
    assert {idle, busy} & set(admin.list_groups(states=["Empty"])) == {idle}
    assert "state" in pa.table(admin.list_groups().to_arrow()).column_names


def test_a_type_that_no_group_has_is_refused(admin: Admin) -> None:
    with pytest.raises(monedula.ArgumentError, match="types='shared'"):
        admin.list_groups(types=["shared"])


def test_groups_are_filtered_by_type(ground: Ground, admin: Admin) -> None:
    if not (ground.is_embedded or jars.speaks("3.8")):
        pytest.skip("ListGroups has no types before Kafka 3.8")
    topic, idle, busy = ground.topic(), ground.name("group"), ground.name("group")
    admin.alter_group_offsets(idle, {(topic, 0): 0})
    ground.member(busy, topic)
    assert {idle, busy} <= set(admin.list_groups(types=["classic"]))
    assert not {idle, busy} & set(admin.list_groups(types=["consumer"]))
    assert {admin.list_groups()[group].type for group in (idle, busy)} == {"classic"}


def test_groups_that_are_not_there(ground: Ground, admin: Admin) -> None:
    topic, there, missing = ground.topic(), ground.name("group"), ground.name("group")
    admin.alter_group_offsets(there, {(topic, 0): 0})
    with pytest.raises(GroupNotFoundError, match=f"describing group {missing}") as raised:
        admin.describe_groups(missing)
    assert (raised.value.group, raised.value.code) == (missing, "GROUP_ID_NOT_FOUND")
    with pytest.raises(AdminErrors) as several:
        admin.describe_groups([there, missing])
    assert (list(several.value.results), list(several.value.errors)) == ([there], [missing])
    for call in (admin.delete_groups, admin.group_lag):
        with pytest.raises(GroupNotFoundError):
            call(missing)
    with pytest.raises(GroupNotFoundError):
        admin.reset_group_offsets(missing, "earliest")
    assert admin.list_group_offsets(missing) == {}


def test_offsets_of_a_group_are_changed_listed_and_deleted(ground: Ground, admin: Admin) -> None:
    topic, group = ground.topic(3), ground.name("group")
    done = admin.alter_group_offsets(group, {(topic, 0): 3, (topic, 1): (4, "by hand")})
    assert done == {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 4}
    both = {
        TopicPartition(topic, 0): OffsetAndMetadata(3, "", -1),
        TopicPartition(topic, 1): OffsetAndMetadata(4, "by hand", -1),
    }
    assert admin.list_group_offsets(group) == both
    assert admin.list_group_offsets(group, [(topic, 2)]) == {TopicPartition(topic, 2): None}
    rows = pa.table(admin.list_group_offsets(group).to_arrow()).to_pylist()
    assert [(row["partition"], row["offset"], row["metadata"]) for row in rows] == [(0, 3, ""), (1, 4, "by hand")]
    admin.delete_group_offsets(group, [(topic, 0)])
    assert list(admin.list_group_offsets(group)) == [TopicPartition(topic, 1)]


def test_offsets_of_a_subscribed_topic_are_not_deleted(ground: Ground, admin: Admin) -> None:
    topic, group = ground.topic(), ground.name("group")
    consumer = ground.member(group, topic)
    consumer.commit({(topic, 0): 0})
    with pytest.raises(GroupInUseError) as raised:
        admin.delete_group_offsets(group, [(topic, 0)])
    assert raised.value.code == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert admin.list_group_offsets(group)[TopicPartition(topic, 0)] == OffsetAndMetadata(0)


def test_offsets_of_a_missing_topic_are_refused(ground: Ground, admin: Admin) -> None:
    with pytest.raises(monedula.UnknownTopicError):
        admin.alter_group_offsets(ground.name("group"), {(ground.name("missing"), 0): 0})


def test_a_group_is_reset_wherever_it_is_to_go(ground: Ground, admin: Admin) -> None:
    topic, group = ground.topic(2), ground.name("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    ground.append(topic, range(10))
    middle = dt.datetime.now(dt.UTC) + dt.timedelta(milliseconds=1)
    ground.until(lambda: dt.datetime.now(dt.UTC) > middle)
    ground.append(topic, range(10, 15))
    admin.delete_records({first: 2})
    admin.alter_group_offsets(group, {first: 6, second: 0})

    def reset(to: object, **more: object) -> dict[int, int]:
        return {at.partition: reset.after for at, reset in admin.reset_group_offsets(group, to, **more).items()}  # type: ignore[arg-type]

    dry = admin.reset_group_offsets(group, "earliest", dry_run=True)
    assert dry == {first: OffsetReset(first, 6, 2), second: OffsetReset(second, 0, 0)}
    assert admin.list_group_offsets(group)[first] == OffsetAndMetadata(6)
    assert reset("earliest") == {0: 2, 1: 0}
    assert admin.list_group_offsets(group)[first] == OffsetAndMetadata(2)
    assert reset("latest") == {0: 15, 1: 0}
    assert reset(middle) == {0: 10, 1: 0}, "the end where no record is that young"
    assert reset(middle.isoformat()) == {0: 10, 1: 0}
    assert reset({"shift": -3}) == {0: 7, 1: 0}
    assert reset({"shift": -100}, partitions=[first]) == {0: 2}
    assert reset({"shift": 100}, topics=topic) == {0: 15, 1: 0}
    assert reset({first: 5}) == {0: 5}
    assert {at: found.offset for at, found in admin.list_group_offsets(group).items() if found} == {first: 5, second: 0}
    with pytest.raises(monedula.errors.OffsetOutOfRangeError, match=r"2\.\.15"):
        admin.reset_group_offsets(group, {first: 16})
    with pytest.raises(AdminErrors) as raised:
        admin.reset_group_offsets(group, {first: 1, second: 0})
    assert (list(raised.value.results), list(raised.value.errors)) == ([second], [first])


def test_a_group_that_never_ran_may_be_given_offsets(ground: Ground, admin: Admin) -> None:
    topic, group = ground.topic(2), ground.name("group")
    ground.append(topic, range(4))
    reset = admin.reset_group_offsets(group, "latest", topics=[topic])
    assert {at.partition: to.after for at, to in reset.items()} == {0: 4, 1: 0}
    with pytest.raises(monedula.ArgumentError, match="nothing there to shift from"):
        admin.reset_group_offsets(ground.name("group"), {"shift": 1}, partitions=[(topic, 0)])


@pytest.mark.req("S156")
def test_only_a_group_without_members_is_rewound(ground: Ground, admin: Admin) -> None:
    topic, group = ground.topic(2), ground.name("group")
    for partition in range(2):
        ground.append(topic, range(5), partition)
    consumer = ground.member(group, topic)
    seen: list[tuple[int | None, int | None]] = []

    def read(count: int) -> None:
        deadline = time.monotonic() + 60
        while len(seen) < count:
            assert time.monotonic() < deadline
            seen.extend((row.partition, row.offset) for row in consumer.poll(timeout=0.1).records())

    read(10)
    consumer.commit()
    before = (admin.describe_groups(group)[group].members, admin.list_group_offsets(group))
    for attempt in (
        lambda: admin.reset_group_offsets(group, "earliest"),
        lambda: admin.reset_group_offsets(group, {(topic, 0): 1}, dry_run=True),
        lambda: admin.alter_group_offsets(group, {(topic, 0): 0, (topic, 1): 0}),
    ):
        with pytest.raises(GroupInUseError, match=group):
            attempt()
    assert (admin.describe_groups(group)[group].members, admin.list_group_offsets(group)) == before
    assert consumer.health()["group"]["state"] == "Stable"
    # A seek concerns only the consumer and that partition.
    consumer.seek((topic, 0), 3)
    read(12)
    assert seen[10:] == [(0, 3), (0, 4)]
    consumer.commit()
    consumer.close()
    ground.until(lambda: admin.describe_groups(group)[group].state == "Empty")
    admin.reset_group_offsets(group, {"shift": -2})
    consumer = ground.member(group, topic)
    seen.clear()
    read(4)
    assert sorted(seen) == [(0, 3), (0, 4), (1, 3), (1, 4)]


def test_lag_by_partition_with_who_reads_it(ground: Ground, admin: Admin) -> None:
    topic, group = ground.topic(3), ground.name("group")
    for partition in range(3):
        ground.append(topic, range(10), partition)
    admin.alter_group_offsets(group, {(topic, 0): 4, (topic, 1): 10})
    lag = admin.group_lag(group)
    assert (lag.group, lag.state, lag.total) == (group, "Empty", 6)
    assert {at.partition: one.lag for at, one in lag.items()} == {0: 6, 1: 0}
    assert lag[TopicPartition(topic, 0)].member_id is None
    whole = admin.group_lag(group, topics=topic)
    assert whole[TopicPartition(topic, 2)].committed is None
    assert (whole[TopicPartition(topic, 2)].lag, whole[TopicPartition(topic, 2)].log_end_offset) == (None, 10)
    assert list(admin.group_lag(group, partitions=[(topic, 1)])) == [TopicPartition(topic, 1)]
    consumer = ground.member(group, topic, client_id="reader", enable_auto_commit=False)
    owned = admin.group_lag(group)
    assert owned.state == "Stable"
    assert {one.client_id for one in owned.values()} == {"reader"}
    rows = pa.table(owned.to_arrow()).to_pylist()
    assert [(row["partition"], row["lag"]) for row in rows] == [(0, 6), (1, 0), (2, None)]
    consumer.close()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda admin: admin.reset_group_offsets("g", "newest"), "expected 'earliest', 'latest'"),
        (lambda admin: admin.reset_group_offsets("g", "max_timestamp"), "no place to go on from"),
        (lambda admin: admin.reset_group_offsets("g", dt.datetime(2026, 1, 1)), "no time zone"),
        (
            lambda admin: admin.reset_group_offsets("g", 100_000),
            r"\{\('orders', 0\): 100000\} for an offset.*'@100000'",
        ),
        (lambda admin: admin.reset_group_offsets("g", {"shift": "2"}), "expected a whole number"),
        (lambda admin: admin.reset_group_offsets("g", {("t", 0): 1}, topics="t"), "leave topics and partitions out"),
        (lambda admin: admin.reset_group_offsets("g", "latest", topics="t", partitions=[("t", 0)]), "not both"),
        (lambda admin: admin.alter_group_offsets("g", {("t", 0): -1}), "0 or more"),
        (lambda admin: admin.alter_group_offsets("", {("t", 0): 1}), "is no group"),
        (lambda admin: admin.list_group_offsets("g", ["t"]), "is no partition"),
    ],
)
def test_wrong_arguments_say_what_would_be_right(admin: Admin, wrong: object, words: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=words):
        wrong(admin)  # type: ignore[operator]
