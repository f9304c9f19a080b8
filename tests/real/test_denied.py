"""Topics that may not be read."""

from collections.abc import Iterator

import confluent_kafka.admin
import monedula
import pytest

from tests.kafka import KafkaCluster
from tests.real.reading import consumer, poll_until, take, values

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A Kafka that asks who may do what; everyone may do what no rule speaks of."""
    with KafkaCluster(config=AUTHORIZED) as cluster:
        yield cluster


def deny(cluster: KafkaCluster, topic: str, operation: str) -> None:
    """Forbid `operation` on `topic` to everyone who does not say who they are."""
    admin = confluent_kafka.admin
    rule = admin.AclBinding(
        admin.ResourceType.TOPIC,
        topic,
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
        with pytest.raises(monedula.AuthorizationError) as raised:
            poll_until(reader, lambda: False)
        assert (raised.value.topic, raised.value.partition) == (denied, 0)
        assert raised.value.code == "TOPIC_AUTHORIZATION_FAILED"
        reader.seek((open_topic, 0), 0)
        assert values(take(reader, 1)) == [b"x"]


def test_a_denied_topic_is_an_error_of_reads_and_lookups(guarded: KafkaCluster) -> None:
    guarded.helper.create_topic("secret")
    deny(guarded, "secret", "DESCRIBE")
    settings = {"bootstrap.servers": guarded.bootstrap}
    with pytest.raises(monedula.AuthorizationError, match="secret"):
        monedula.read(settings, "secret")
    with consumer(guarded.bootstrap) as reader, pytest.raises(monedula.AuthorizationError, match="secret"):
        reader.end_offsets([("secret", 0)])
