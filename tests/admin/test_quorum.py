"""The quorum of controllers, resources that have settings, and replicas that change their directory."""

import monedula
import pytest
from monedula import Admin, TopicPartition
from monedula.admin import ConfigResource, TopicPartitionReplica

from tests.admin.conftest import Ground
from tests.kafka import jars


def test_the_quorum_is_described(admin: Admin) -> None:
    quorum = admin.describe_metadata_quorum()
    assert quorum.leader in (1, 2, 3)
    assert sorted(voter.id for voter in quorum.voters) == [1, 2, 3]
    leader = next(voter for voter in quorum.voters if voter.id == quorum.leader)
    assert leader.log_end_offset is not None
    assert leader.log_end_offset >= quorum.high_watermark > 0
    assert leader.last_caught_up_timestamp is not None
    assert quorum.endpoints.keys() <= {1, 2, 3}
    assert all(text.startswith("CONTROLLER://") for texts in quorum.endpoints.values() for text in texts)


def test_resources_that_have_settings_are_listed(ground: Ground, admin: Admin) -> None:
    if not (ground.is_embedded or jars.speaks("4.1")):
        pytest.skip("ListConfigResources lists more than client metrics from Kafka 4.1 on (KIP-1142)")
    topic, group = ground.topic(), ground.name("group")
    admin.alter_configs({("group", group): {"consumer.session.timeout.ms": 50_000}})
    ground.until(lambda: ConfigResource("group", group) in admin.list_config_resources("group"))
    brokers = admin.list_config_resources(["broker"])
    assert brokers == [ConfigResource("broker", str(node)) for node in (1, 2, 3)]
    everything = admin.list_config_resources()
    assert {ConfigResource("topic", topic), ConfigResource("group", group), *brokers} <= set(everything)
    admin.alter_configs({("group", group): {"consumer.session.timeout.ms": None}})
    with pytest.raises(monedula.ArgumentError, match="expected one of topic, broker"):
        admin.list_config_resources("topics")  # type: ignore[arg-type]


def test_a_replica_moves_to_no_directory_that_its_broker_does_not_have(ground: Ground, admin: Admin) -> None:
    topic = ground.topic()
    (owner,) = admin.describe_topics(topic)[topic].partitions[0].replicas
    other = owner % 3 + 1
    replica = TopicPartitionReplica(topic, 0, owner)
    (directory,) = admin.describe_log_dirs(owner)[owner]
    assert TopicPartition(topic, 0) in directory.replicas
    assert admin.alter_replica_log_dirs({replica: directory.path}) == {replica: None}
    with pytest.raises(monedula.errors.BrokerError) as raised:
        admin.alter_replica_log_dirs({(topic, 0, owner): "/no/such/directory"})
    assert raised.value.code == "LOG_DIR_NOT_FOUND"
    assert (raised.value.topic, raised.value.partition) == (topic, 0)
    assert f"the replica of {topic}-0 on broker {owner} to /no/such/directory" in str(raised.value)
    (elsewhere,) = admin.describe_log_dirs(other)[other]
    mixed = admin.alter_replica_log_dirs(
        {replica: directory.path, (topic, 0, other): elsewhere.path, (topic, 0, 9): "/data"}, errors="return"
    )
    assert list(mixed) == [replica]
    assert {at.broker: error.code for at, error in mixed.errors.items()}[other] == "REPLICA_NOT_AVAILABLE"
    assert "there is no broker 9" in str(mixed.errors[TopicPartitionReplica(topic, 0, 9)])
    with pytest.raises(monedula.ArgumentError, match="is no replica"):
        admin.alter_replica_log_dirs({(topic, 0): "/data"})  # type: ignore[type-var]
