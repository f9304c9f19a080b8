"""Settings, offsets of logs, deleted records, brokers, elections and moves."""

from collections.abc import Callable

import monedula
import pyarrow as pa
import pytest
from monedula import Admin, NewTopic, TopicPartition, UnknownTopicError
from monedula.admin import Append, ConfigResource, Reassignment, Subtract
from monedula.errors import AdminErrors, BrokerError

from tests.admin.conftest import Ground


def test_settings_are_described_and_changed_one_by_one(ground: Ground, admin: Admin) -> None:
    topic = ground.topic(configs={"retention.ms": 1000})
    resource = ConfigResource("topic", topic)

    def everywhere(value: str) -> bool:
        # Each call asks the next broker, and brokers learn of the change one after the other.
        return all(admin.describe_configs(topic)[resource]["retention.ms"].value == value for _ in range(6))

    default = admin.describe_configs(ground.topic())
    (unset,) = default.values()
    admin.alter_configs({topic: {"retention.ms": 2000, "cleanup.policy": Append("compact")}})
    ground.until(lambda: everywhere("2000"))
    settings = admin.describe_configs(topic)[resource]
    assert (settings["retention.ms"].source, settings["retention.ms"].is_default) == ("topic", False)
    assert settings["retention.ms"].type == "long"
    assert settings["cleanup.policy"].value == "delete,compact"
    assert settings["segment.bytes"].is_default
    admin.alter_configs({("topic", topic): {"retention.ms": None, "cleanup.policy": Subtract("delete")}})
    ground.until(lambda: everywhere(str(unset["retention.ms"].value)))
    assert admin.describe_configs(topic)[resource]["cleanup.policy"].value == "compact"
    only = admin.describe_configs(topic, names=["retention.ms"])[resource]
    assert list(only) == ["retention.ms"]
    rows = pa.table(admin.describe_configs(topic, names=["retention.ms"]).to_arrow()).to_pylist()
    assert [(row["resource_name"], row["name"]) for row in rows] == [(topic, "retention.ms")]


def test_each_broker_tells_its_own_settings(ground: Ground, admin: Admin) -> None:
    resources = [ConfigResource("broker", str(node)) for node in ground.cluster.nodes]

    def sources() -> list[str]:
        settings = admin.describe_configs(resources, names=["log.retention.ms"])
        return [settings[resource]["log.retention.ms"].source for resource in resources]

    before = sources()
    admin.alter_configs({resources[1]: {"log.retention.ms": 7_200_000}})
    ground.until(lambda: sources() == [before[0], "broker", before[2]])
    admin.alter_configs({("broker", "2"): {"log.retention.ms": None}})
    ground.until(lambda: sources() == before)
    with pytest.raises(monedula.errors.BrokerError, match="there is no broker 9; those that are reached: 1, 2, 3"):
        admin.describe_configs(("broker", "9"))


def test_wrong_settings_are_refused(ground: Ground, admin: Admin) -> None:
    topic = ground.topic()
    with pytest.raises(monedula.errors.BrokerError) as raised:
        admin.alter_configs({topic: {"retention.ms": "soon"}})
    assert raised.value.code == "INVALID_CONFIG"
    admin.alter_configs({topic: {"retention.ms": 5}}, validate_only=True)
    assert admin.describe_configs(topic)[ConfigResource("topic", topic)]["retention.ms"].is_default
    with pytest.raises(UnknownTopicError):
        admin.describe_configs(ground.name("missing"))


def test_offsets_of_logs_by_end_and_by_time(ground: Ground, admin: Admin) -> None:
    topic = ground.topic(2)
    ground.append(topic, range(5))
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    ends = admin.list_offsets(topic)
    assert {at: end.offset for at, end in ends.items()} == {first: 5, second: 0}
    youngest = admin.list_offsets([first], "max_timestamp")[first]
    assert youngest.timestamp is not None
    found = admin.list_offsets({first: youngest.timestamp, second: "earliest"})
    assert found[first].timestamp == youngest.timestamp
    assert (found[second].offset, found[second].timestamp) == (0, None)
    later = admin.list_offsets([first], youngest.timestamp + 1)[first]
    assert (later.offset, later.timestamp) == (None, None)
    assert admin.list_offsets(topic, isolation="read_committed")[first].offset == 5
    rows = pa.table(ends.to_arrow()).to_pylist()
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 5), (1, 0)]


def test_what_is_not_there_has_no_offsets(ground: Ground, admin: Admin) -> None:
    topic = ground.topic()
    with pytest.raises(UnknownTopicError, match="1 partition, numbered from 0") as raised:
        admin.list_offsets([(topic, 7)])
    assert (raised.value.topic, raised.value.partition) == (topic, 7)
    mixed = admin.list_offsets([(topic, 0), (ground.name("missing"), 0)], errors="return")
    assert (list(mixed), len(mixed.errors)) == ([TopicPartition(topic, 0)], 1)


def test_records_are_deleted_from_the_beginning(ground: Ground, admin: Admin) -> None:
    topic = ground.topic(2, replication_factor=2)
    for partition in range(2):
        ground.append(topic, range(10), partition)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert admin.delete_records({first: 4, second: -1}) == {first: 4, second: 10}
    starts = admin.list_offsets(topic, "earliest")
    assert {at.partition: found.offset for at, found in starts.items()} == {0: 4, 1: 10}
    with pytest.raises(monedula.errors.OffsetOutOfRangeError) as raised:
        admin.delete_records({first: 11})
    assert (raised.value.topic, raised.value.partition) == (topic, 0)
    compacted = ground.topic(configs={"cleanup.policy": "compact"})
    with pytest.raises(monedula.errors.BrokerError, match=r"cleanup\.policy"):
        admin.delete_records({(compacted, 0): -1})


def test_the_cluster_is_described(ground: Ground, admin: Admin) -> None:
    described = admin.describe_cluster()
    assert described.cluster_id
    assert [node.id for node in described.nodes] == [1, 2, 3]
    assert described.controller in (1, 2, 3)
    addresses = {f"{node.host}:{node.port}" for node in described.nodes}
    assert addresses == set(ground.cluster.bootstrap.split(","))
    assert [node.rack for node in described.nodes] == ["rack-1", "rack-2", "rack-3"]


def test_what_brokers_keep_on_their_disks(ground: Ground, admin: Admin) -> None:
    name, other = ground.name(), ground.topic()
    admin.create_topics(NewTopic(name, assignments={0: [1, 2], 1: [3, 1]}))
    ground.until(lambda: name in admin.list_topics())
    ground.append(name, range(100))
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)

    def sizes() -> dict[tuple[int, TopicPartition], int]:
        described = admin.describe_log_dirs(topics=name)
        return {
            (broker, at): replica.size
            for broker, directories in described.items()
            for directory in directories
            for at, replica in directory.replicas.items()
        }

    # The follower has the record a moment later.
    ground.until(lambda: sizes().get((1, first), 0) == sizes().get((2, first)) != 0)
    assert set(sizes()) == {(1, first), (2, first), (3, second), (1, second)}
    assert sizes()[3, second] == 0
    (only,) = admin.describe_log_dirs(1, partitions=[first])[1]
    assert (only.size, only.error, list(only.replicas)) == (sizes()[1, first], None, [first])
    assert only.path.startswith("/")
    assert only.replicas[first].offset_lag == 0
    assert not only.replicas[first].is_future
    whole = admin.describe_log_dirs([1, 2, 3])
    held = {at.topic for directories in whole.values() for each in directories for at in each.replicas}
    assert held >= {name, other}
    rows = pa.table(admin.describe_log_dirs(2, topics=[name]).to_arrow()).to_pylist()
    assert [(row["broker"], row["topic"], row["partition"]) for row in rows] == [(2, name, 0)]
    with pytest.raises(monedula.errors.BrokerError, match="there is no broker 9; those that are reached: 1, 2, 3"):
        admin.describe_log_dirs(9)
    assert list(admin.describe_log_dirs([1, 9], errors="return").errors) == [9]
    with pytest.raises(UnknownTopicError):
        admin.describe_log_dirs(topics=ground.name("missing"))
    with pytest.raises(monedula.ArgumentError, match="topics or partitions, not both"):
        admin.describe_log_dirs(topics=name, partitions=[first])


def test_preferred_replicas_lead_again_when_asked(ground: Ground, admin: Admin) -> None:
    name = ground.name()
    admin.create_topics(NewTopic(name, assignments={0: [2, 3]}))
    first = TopicPartition(name, 0)

    def leads(node: int) -> bool:
        described = admin.describe_topics(name)[name].partitions[0]
        return described.leader == node and set(described.isr) == {2, 3}

    ground.until(lambda: leads(2))
    assert admin.elect_leaders([first]) == {first: False}
    ground.cluster.helper.move_leader(name, 0, 3)
    # That made the other replica the preferred one too.
    admin.alter_partition_reassignments({first: [2, 3]})
    ground.until(lambda: leads(3) and admin.describe_topics(name)[name].partitions[0].replicas == (2, 3))
    assert admin.elect_leaders([first]) == {first: True}
    ground.until(lambda: leads(2))
    ground.cluster.helper.move_leader(name, 0, 3)
    admin.alter_partition_reassignments({first: [2, 3]})
    ground.until(lambda: leads(3) and admin.describe_topics(name)[name].partitions[0].replicas == (2, 3))
    assert admin.elect_leaders()[first] is True
    with pytest.raises(AdminErrors):
        admin.elect_leaders([(name, 5), (ground.name("missing"), 0)])


def test_partitions_move_to_other_brokers(ground: Ground, admin: Admin) -> None:
    name = ground.name()
    admin.create_topics(NewTopic(name, assignments={0: [1]}))
    ground.until(lambda: name in admin.list_topics())
    ground.append(name, range(3))
    first = TopicPartition(name, 0)
    assert admin.alter_partition_reassignments({first: [2, 3]}) == {first: None}

    def moved() -> bool:
        partition = admin.describe_topics(name)[name].partitions[0]
        return partition.replicas == (2, 3) and set(partition.isr) == {2, 3} and partition.leader == 2

    ground.until(moved)
    assert admin.list_partition_reassignments([first]) == {}
    assert admin.list_offsets(name)[first].offset == 3
    with pytest.raises(monedula.errors.BrokerError) as raised:
        admin.alter_partition_reassignments({first: None})
    assert raised.value.code == "NO_REASSIGNMENT_IN_PROGRESS"
    with pytest.raises(monedula.errors.BrokerError, match="no such broker") as raised:
        admin.alter_partition_reassignments({first: [9]})
    assert raised.value.code == "INVALID_REPLICA_ASSIGNMENT"
    with pytest.raises(UnknownTopicError):
        admin.alter_partition_reassignments({(ground.name("missing"), 0): [1]})


def test_a_move_under_way_is_listed_and_ended(ground: Ground, admin: Admin) -> None:
    name = ground.name()
    admin.create_topics(NewTopic(name, assignments={0: [1]}))
    ground.until(lambda: name in admin.list_topics())
    first = TopicPartition(name, 0)
    ground.cluster.stop(3)
    try:
        admin.alter_partition_reassignments({first: [1, 3]})
        moves = admin.list_partition_reassignments()
        assert moves[first] == Reassignment((1, 3), (3,), ())
        rows = pa.table(admin.list_partition_reassignments([first]).to_arrow()).to_pylist()
        assert [(row["partition"], row["adding"]) for row in rows] == [(0, [3])]
        admin.alter_partition_reassignments({first: None})
        ground.until(lambda: not admin.list_partition_reassignments([first]))
        ground.until(lambda: admin.describe_topics(name)[name].partitions[0].replicas == (1,))
        admin.alter_partition_reassignments({first: [3]})
        assert admin.list_partition_reassignments([first])[first] == Reassignment((3, 1), (3,), (1,))
    finally:
        ground.cluster.start(3)
    ground.until(lambda: admin.describe_topics(name)[name].partitions[0].replicas == (3,))
    assert not admin.list_partition_reassignments([first])


NOBODY = 99
"""The id of a broker that no cluster of the tests has."""


@pytest.mark.parametrize(
    "call",
    [
        lambda admin, _topic: admin.find_hanging_transactions(broker=NOBODY),
        lambda admin, topic: admin.find_hanging_transactions(topics=topic, broker=NOBODY),
        lambda admin, topic: admin.find_hanging_transactions(partitions=(topic, 0), broker=NOBODY),
        lambda admin, topic: admin.describe_producers((topic, 0), broker=NOBODY),
        lambda admin, _topic: admin.describe_log_dirs(NOBODY),
        lambda admin, topic: admin.alter_replica_log_dirs({(topic, 0, NOBODY): "/tmp"}),
        lambda admin, _topic: admin.describe_configs(("broker", str(NOBODY))),
        lambda admin, _topic: admin.alter_configs({("broker", str(NOBODY)): {"log.cleaner.threads": 1}}),
    ],
)
def test_a_broker_that_is_not_there_is_told_with_those_that_are(
    ground: Ground, admin: Admin, call: Callable[[Admin, str], object]
) -> None:
    topic, nodes = ground.topic(), ", ".join(str(node) for node in ground.cluster.nodes)
    with pytest.raises(BrokerError, match=f"there is no broker 99; those that are reached: {nodes}") as raised:
        call(admin, topic)
    assert raised.value.code == "BROKER_NOT_AVAILABLE"
