"""Topics: creating, listing, describing, adding partitions, deleting; and beginners' mistakes."""

import monedula
import pyarrow as pa
import pytest
from monedula import Admin, NewTopic, UnknownTopicError
from monedula.admin import NewPartitions
from monedula.errors import AdminErrors, TopicExistsError

from tests.admin.conftest import Ground


def test_a_topic_is_created_as_asked_and_described(ground: Ground, admin: Admin) -> None:
    name = ground.name()
    created = admin.create_topics(name, partitions=3, replication_factor=2, configs={"retention.ms": 3_600_000})
    assert (created[name].partitions, created[name].replication_factor) == (3, 2)
    assert created[name].configs["retention.ms"] == "3600000"
    ground.until(lambda: all(len(p.isr) == 2 for p in admin.describe_topics(name)[name].partitions))
    described = admin.describe_topics(name)[name]
    assert described.topic_id == created[name].topic_id
    assert [p.partition for p in described.partitions] == [0, 1, 2]
    for partition in described.partitions:
        assert partition.leader == partition.replicas[0]
        assert sorted(partition.isr) == sorted(partition.replicas)
        assert (len(partition.replicas), partition.offline) == (2, ())
    listed = admin.list_topics()[name]
    assert (listed.partitions, listed.replication_factor, listed.internal) == (3, 2, False)


def test_the_broker_chooses_what_is_left_out(ground: Ground, admin: Admin) -> None:
    name = ground.name()
    created = admin.create_topics(name)[name]
    assert created.partitions is not None
    assert created.partitions >= 1


def test_replicas_may_be_placed_by_hand(ground: Ground, admin: Admin) -> None:
    name = ground.name()
    admin.create_topics(NewTopic(name, assignments={0: [2, 3], 1: [3, 1]}))
    ground.until(lambda: name in admin.list_topics())
    assert [p.replicas for p in admin.describe_topics(name)[name].partitions] == [(2, 3), (3, 1)]


def test_several_topics_fail_each_for_itself(ground: Ground, admin: Admin) -> None:
    there, new, wrong = ground.topic(), ground.name(), "no spaces allowed"
    with pytest.raises(AdminErrors) as raised:
        admin.create_topics([there, new, wrong])
    assert list(raised.value.results) == [new]
    assert {name: error.code for name, error in raised.value.errors.items()} == {
        there: "TOPIC_ALREADY_EXISTS",
        wrong: "INVALID_TOPIC_EXCEPTION",
    }
    assert isinstance(raised.value.errors[there], TopicExistsError)
    assert raised.value.errors[there].topic == there
    assert there in str(raised.value)
    returned = admin.create_topics([there, wrong], errors="return")
    assert (dict(returned), sorted(returned.errors)) == ({}, sorted([there, wrong]))


def test_a_single_topic_raises_its_own_error(ground: Ground, admin: Admin) -> None:
    there = ground.topic()
    with pytest.raises(TopicExistsError, match=f"creating topic {there}: .*already exists"):
        admin.create_topics(there)
    assert admin.create_topics(there, exist_ok=True) == {}
    with pytest.raises(monedula.errors.BrokerError, match="replication factor") as raised:
        admin.create_topics(ground.name(), replication_factor=9)
    assert raised.value.code == "INVALID_REPLICATION_FACTOR"


def test_validate_only_creates_nothing(ground: Ground, admin: Admin) -> None:
    name = ground.name()
    assert name in admin.create_topics(name, validate_only=True)
    with pytest.raises(UnknownTopicError):
        admin.describe_topics(name)


def test_topics_get_more_partitions(ground: Ground, admin: Admin) -> None:
    one, two = ground.topic(), ground.topic()
    admin.create_partitions({one: 3, two: NewPartitions(2, [[3]])})
    ground.until(lambda: len(admin.describe_topics(one)[one].partitions) == 3)
    # Each broker learns of it at another time, and each answer may be another broker's.
    ground.until(lambda: [each.replicas for each in admin.describe_topics(two)[two].partitions][1:] == [(3,)])
    with pytest.raises(monedula.errors.BrokerError) as raised:
        admin.create_partitions({one: 2})
    assert raised.value.code == "INVALID_PARTITIONS"


def test_topics_are_deleted(ground: Ground, admin: Admin) -> None:
    one, two = ground.topic(), ground.topic()
    assert admin.delete_topics([one, two]) == {one: None, two: None}
    ground.until(lambda: not {one, two} & set(admin.list_topics()))
    with pytest.raises(UnknownTopicError) as raised:
        admin.delete_topics(one)
    assert raised.value.topic == one
    assert admin.delete_topics(one, missing_ok=True) == {}


def test_kafkas_own_topics_are_listed_only_if_asked(ground: Ground, admin: Admin) -> None:
    topic = ground.topic()
    ground.member(ground.name("group"), topic)
    assert "__consumer_offsets" not in admin.list_topics()
    assert admin.list_topics(internal=True)["__consumer_offsets"].internal


def test_topics_are_tables(ground: Ground, admin: Admin) -> None:
    name = ground.topic(2)
    table = pa.table(admin.describe_topics(name).to_arrow())
    assert table.column_names == ["topic", "partition", "leader", "leader_epoch", "replicas", "isr", "offline"]
    assert table["topic"].to_pylist() == [name, name]
    leaders = [[p.leader] for p in admin.describe_topics(name)[name].partitions]
    assert table["replicas"].to_pylist() == leaders
    listed = pa.table(admin.list_topics().to_arrow()).to_pylist()
    assert [row["partitions"] for row in listed if row["topic"] == name] == [2]
    empty = pa.table(admin.describe_topics([]).to_arrow())
    assert (empty.num_rows, empty.schema) == (0, table.schema)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda admin: admin.create_topics(""), "expected a name"),
        (lambda admin: admin.create_topics(["a", "a"]), "given twice: topic a"),
        (lambda admin: admin.create_topics("a", partitions=0), "1 or more"),
        (lambda admin: admin.create_topics("a", configs={"x": object()}), "expected a text"),
        (lambda admin: admin.create_topics(NewTopic("a", partitions=1, assignments={0: [1]})), "leave these out"),
        (lambda admin: admin.delete_topics(7), "expected the name of a topic"),
        (lambda admin: admin.create_partitions({"a": "3"}), "whole number"),
        (lambda admin: admin.create_partitions("a"), "expected a dict"),
        (lambda admin: admin.describe_topics("a", errors="ignore"), "expected 'raise' or 'return'"),
        (lambda admin: admin.describe_topics("a", timeout=-1), "expected seconds"),
        (lambda admin: admin.describe_configs(5), "5: expected the name of a topic, "),
        (lambda admin: admin.list_offsets(5), "5: expected a topic, a partition, or several"),
    ],
)
def test_wrong_arguments_say_what_would_be_right(admin: Admin, wrong: object, words: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=words):
        wrong(admin)  # type: ignore[operator]
