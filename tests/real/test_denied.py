"""Topics that may not be read."""

from collections.abc import Iterator

import confluent_kafka.admin
import monedula
import pytest

from tests.kafka import KafkaCluster
from tests.real.reading import consumer, core, poll_until, take, values

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A Kafka that asks who may do what; everyone may do what no rule speaks of."""
    with KafkaCluster(config=AUTHORIZED) as cluster:
        yield cluster


def deny(cluster: KafkaCluster, name: str, operation: str, kind: str = "TOPIC") -> None:
    """Forbid `operation` on a topic (or group) to everyone who does not say who they are."""
    admin = confluent_kafka.admin
    rule = admin.AclBinding(
        admin.ResourceType[kind],
        name,
        admin.ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        admin.AclOperation[operation],
        admin.AclPermissionType.DENY,
    )
    client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    for created in client.create_acls([rule]).values():
        created.result(30)


@pytest.mark.parametrize("operation", ["READ", "DESCRIBE"])
def test_a_denied_topic_is_a_typed_error_and_others_go_on(guarded: KafkaCluster, operation: str) -> None:
    denied, open_topic = f"denied-{operation.lower()}", f"open-{operation.lower()}"
    for name in (denied, open_topic):
        guarded.helper.create_topic(name)
        guarded.helper.produce(name, [{"value": "x"}])
    deny(guarded, denied, operation)
    with consumer(guarded.bootstrap) as reader:
        reader.assign({(denied, 0): 0, (open_topic, 0): 0})
        with pytest.raises(monedula.errors.AuthorizationError) as raised:
            poll_until(reader, lambda: False)
        assert (raised.value.topic, raised.value.partition) == (denied, 0)
        assert raised.value.code == "TOPIC_AUTHORIZATION_FAILED"
        reader.seek((open_topic, 0), 0)
        assert values(take(reader, 1)) == [b"x"]


def test_a_denied_topic_is_an_error_of_reads_and_lookups(guarded: KafkaCluster) -> None:
    guarded.helper.create_topic("secret")
    deny(guarded, "secret", "DESCRIBE")
    settings = {"bootstrap.servers": guarded.bootstrap}
    with pytest.raises(monedula.errors.AuthorizationError, match="secret"):
        monedula.read(settings, "secret")
    with consumer(guarded.bootstrap) as reader, pytest.raises(monedula.errors.AuthorizationError, match="secret"):
        reader.end_offsets([("secret", 0)])


@pytest.mark.parametrize("operation", ["READ", "DESCRIBE"])
def test_a_denied_group_is_a_typed_error(guarded: KafkaCluster, operation: str) -> None:
    topic, group = f"open-to-groups-{operation.lower()}", f"denied-{operation.lower()}"
    guarded.helper.create_topic(topic)
    deny(guarded, group, operation, kind="GROUP")
    with core(guarded.bootstrap) as client:
        with pytest.raises(monedula.errors.GroupAuthorizationError, match=f"group {group} is not allowed") as raised:
            client.commit_group_offsets(group, [((topic, 0), 1)], 30.0)
        assert raised.value.code == "GROUP_AUTHORIZATION_FAILED"


def test_a_topic_denied_to_the_committer_is_told_apart(guarded: KafkaCluster) -> None:
    for name in ("uncommittable", "committable"):
        guarded.helper.create_topic(name)
    deny(guarded, "uncommittable", "READ")
    offsets = [(("uncommittable", 0), 1), (("committable", 0), 1)]
    with core(guarded.bootstrap) as client:
        outcome = client.commit_group_offsets("half-allowed", offsets, 30.0)
    assert outcome == {("uncommittable", 0): "TOPIC_AUTHORIZATION_FAILED", ("committable", 0): None}
