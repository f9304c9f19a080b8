"""Administration of share groups: by the verbs for groups, in Python and on the command line."""

import json
from typing import Any

import pytest
from monedula import Admin, ArgumentError, OffsetAndMetadata, TopicPartition
from monedula.errors import GroupInUseError, GroupNotFoundError, OffsetOutOfRangeError

from tests.cli.processes import output, problem, run
from tests.groups.ground import Ground
from tests.share.conftest import Member
from tests.share.reading import one, take
from tests.share.running import until


@pytest.fixture
def admin(ground: Ground) -> Any:
    """An administrator."""
    with Admin(bootstrap_servers=ground.bootstrap) as made:
        yield made


def is_empty(admin: Admin, group: str) -> bool:
    """Whether the group has no member."""
    return admin.describe_groups(group)[group].state == "Empty"


def test_share_groups_are_listed_and_described_with_their_members(
    ground: Ground, admin: Admin, group: str, member: Member
) -> None:
    topic = ground.topic(2)
    ground.append(topic, range(3))
    consumer = member([topic], client_id="resizer")
    assert len(one(consumer)) == 3
    listing = admin.list_groups(types=["share"])[group]
    assert (listing.state, listing.type, listing.protocol_type) == ("Stable", "share", "share")
    described = admin.describe_groups(group)[group]
    assert (described.state, described.type, described.assignor) == ("Stable", "share", "simple")
    (found,) = described.members
    assert (found.client_id, found.topics) == ("resizer", (topic,))
    assert found.assignment == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert found.epoch == described.epoch == consumer.health()["group"]["epoch"]
    assert found.target_assignment is None
    with pytest.raises(GroupInUseError):
        admin.delete_groups(group)


def test_the_lag_counts_records_that_are_not_done(ground: Ground, admin: Admin, group: str, member: Member) -> None:
    topic = ground.topic(2)
    ground.append(topic, range(10))
    consumer = member([topic], acknowledge="explicit", client_id="resizer")
    batch = one(consumer)
    consumer.accept(batch, slice(5, 10))
    consumer.commit()
    until(lambda: admin.group_lag(group).total == 5)
    lag = admin.group_lag(group)
    assert (lag.group, lag.state) == (group, "Stable")
    first = lag[TopicPartition(topic, 0)]
    # Those behind the first one that is not done are counted by themselves.
    assert (first.committed, first.log_end_offset, first.lag, first.client_id) == (0, 10, 5, "resizer")
    assert not lag[TopicPartition(topic, 1)].lag


def test_a_partition_of_several_members_has_no_owner(ground: Ground, admin: Admin, group: str, member: Member) -> None:
    topic = ground.topic()
    ground.append(topic, range(3))
    assert len(one(member([topic]))) == 3
    assert admin.group_lag(group)[TopicPartition(topic, 0)].member_id is not None
    member([topic]).poll(timeout=0.0)
    until(lambda: all(each.assignment for each in admin.describe_groups(group)[group].members))
    until(lambda: len(admin.describe_groups(group)[group].members) == 2)
    until(lambda: admin.group_lag(group)[TopicPartition(topic, 0)].member_id is None)


def test_offsets_are_listed_altered_reset_and_deleted(ground: Ground, admin: Admin, group: str, member: Member) -> None:
    topic, other = ground.topic(2), ground.topic()
    ground.append(topic, range(10))
    at = TopicPartition(topic, 0)
    consumer = member([topic])
    assert take(consumer, 10) == list(range(10))
    until(lambda: admin.list_group_offsets(group)[at] is not None)
    found = admin.list_group_offsets(group)[at]
    assert isinstance(found, OffsetAndMetadata)
    # What brokers tell may be one acknowledgement behind.
    assert found.offset in (0, 10)
    assert found.metadata == ""
    assert admin.list_group_offsets(group, [(topic, 0), (other, 0)])[TopicPartition(other, 0)] is None
    with pytest.raises(GroupInUseError):
        admin.reset_group_offsets(group, "earliest")
    with pytest.raises(GroupInUseError):
        admin.alter_group_offsets(group, {at: 3})
    refused = admin.delete_group_offsets(group, [at, (topic, 1)], errors="return").errors
    assert [type(error) for error in refused.values()] == [GroupInUseError] * 2
    consumer.close()
    until(lambda: is_empty(admin, group))
    plan = admin.reset_group_offsets(group, {"shift": -20}, partitions=[at], dry_run=True)[at]
    assert (plan.before, plan.after) == (found.offset, 0)
    assert admin.reset_group_offsets(group, {at: 7})[at].after == 7
    until(lambda: admin.group_lag(group)[at].committed == 7)
    with pytest.raises(OffsetOutOfRangeError):
        admin.reset_group_offsets(group, {at: 11}, dry_run=True)
    assert take(member([topic]), 3) == [7, 8, 9]


def test_altered_offsets_count_and_deleted_ones_are_forgotten(
    ground: Ground, admin: Admin, group: str, member: Member
) -> None:
    topic = ground.topic(2)
    ground.append(topic, range(4))
    ground.append(topic, [4], 1)
    consumer = member([topic])
    assert take(consumer, 5) == list(range(5))
    consumer.close()
    until(lambda: is_empty(admin, group))
    at = TopicPartition(topic, 0)
    with pytest.raises(ArgumentError, match="no metadata"):
        admin.alter_group_offsets(group, {at: (1, "by hand")})
    assert admin.alter_group_offsets(group, {at: 3}) == {at: 3}
    with pytest.raises(ArgumentError, match=f"name {topic}-1 too"):
        admin.delete_group_offsets(group, [at])
    assert list(admin.delete_group_offsets(group, [at, (topic, 1)])) == [at, (topic, 1)]
    assert admin.list_group_offsets(group) == {}
    # It begins where a new group does.
    consumer = member([topic])
    assert take(consumer, 5) == list(range(5))
    consumer.close()
    until(lambda: is_empty(admin, group))
    assert admin.delete_groups(group) == {group: None}
    with pytest.raises(GroupNotFoundError):
        admin.describe_groups(group)
    with pytest.raises(GroupNotFoundError):
        admin.group_lag(group)


def test_a_partition_of_which_nothing_was_acknowledged_has_no_lag_and_no_offset_to_delete(
    ground: Ground, admin: Admin, group: str, member: Member
) -> None:
    topic = ground.topic(2)
    ground.append(topic, range(4))
    consumer = member([topic], share_acknowledgement_mode="explicit")
    batch = one(consumer)
    until(lambda: len(admin.group_lag(group, topics=[topic]).unknown) == 2)
    consumer.accept(batch, [0])
    consumer.commit()
    until(lambda: admin.group_lag(group).total == 3)
    lag = admin.group_lag(group)
    assert lag.unknown == [TopicPartition(topic, 1)]
    shown = run("groups", "lag", group, servers=ground.bootstrap).stderr.decode()
    assert shown.endswith("in 1 partition of 1 group; unknown in 1 partition of which nothing was committed yet\n")
    consumer.close()
    until(lambda: is_empty(admin, group))
    at = TopicPartition(topic, 0)
    assert list(admin.delete_group_offsets(group, [at])) == [at]


def test_a_group_that_is_of_no_kind_is_said_to_be_missing(ground: Ground, admin: Admin) -> None:
    name = ground.name("nobody")
    with pytest.raises(GroupNotFoundError, match=name):
        admin.describe_groups(name)
    assert admin.list_group_offsets(name) == {}
    topic = ground.topic()
    assert admin.alter_group_offsets(name, {(topic, 0): 0}) == {TopicPartition(topic, 0): 0}
    assert admin.describe_groups(name)[name].type in ("classic", "consumer")


def test_the_command_line_takes_share_groups(ground: Ground, admin: Admin, group: str, member: Member) -> None:
    topic, servers = ground.topic(), ground.bootstrap
    ground.append(topic, range(5))
    consumer = member([topic], client_id="resizer")
    assert take(consumer, 5) == list(range(5))
    ground.append(topic, range(2))
    until(lambda: admin.group_lag(group).total == 2)
    listed = [line.split("\t") for line in output("groups", "list", "--type", "share", servers=servers).splitlines()]
    assert [group, "Stable", "share"] in [row[:3] for row in listed]
    (found,) = output("groups", "describe", group, "--json", servers=servers).splitlines()
    assert (json.loads(found)["client_id"], json.loads(found)["partitions"]) == ("resizer", [f"{topic}-0"])
    (row,) = output("groups", "lag", group, servers=servers).splitlines()
    assert row.split("\t")[1:3] == [topic, "0"]
    assert row.split("\t")[4:6] == ["7", "2"]
    assert group in output("groups", "lag", servers=servers), "beside those of consumers"
    assert "in use" in problem("groups", "reset", group, "--to", "earliest", "--yes", servers=servers)
    consumer.close()
    until(lambda: is_empty(admin, group))
    output("groups", "reset", group, "--to", "3", "--topic", topic, "--yes", servers=servers)
    (row,) = output("groups", "offsets", group, servers=servers).splitlines()
    assert row.split("\t")[:3] == [topic, "0", "3"]
    output("groups", "delete-offsets", group, "--topic", topic, "--yes", servers=servers)
    output("groups", "delete", group, "--yes", servers=servers)
    assert group in problem("groups", "describe", group, servers=servers)
