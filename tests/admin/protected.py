"""One node with an authorizer, where users log in: the embedded broker in the place of `SecuredKafka`."""

from typing import Any

from monedula.testing import Acl, Broker

from tests.kafka.cluster import HOST
from tests.kafka.embedded_helper import EmbeddedHelper
from tests.kafka.secured import ADMIN, ANNA, settings
from tests.kafka.secured.listeners import LISTENERS
from tests.kafka.secured.users import ANONYMOUS, UNLIMITED, USERS, User

EVERYTHING = (("TOPIC", "*"), ("GROUP", "*"), ("TRANSACTIONAL_ID", "*"), ("CLUSTER", "kafka-cluster"))


class ProtectedBroker:
    """What the tests use of a `SecuredKafka`, of the embedded broker.

    It has a listener without security for the fixture itself, as a super user, and one with SASL.
    """

    def __init__(self) -> None:
        acls = [Acl(user.principal, "ALL", kind, name) for user in UNLIMITED for kind, name in EVERYTHING]
        self.broker = Broker(
            security="PLAINTEXT",
            listeners=["SASL_PLAINTEXT"],
            users={user.name: user.password for user in USERS},
            acls=acls,
            super_users=[ANONYMOUS, ADMIN.principal],
            settings={"auto.create.topics.enable": False},
            host=HOST,
        )
        self.bootstrap = self.broker.bootstrap_servers
        self.helper = EmbeddedHelper(self.bootstrap, self.broker)

    def client_settings(
        self,
        listener: str = "SASL_PLAINTEXT",
        mechanism: str | None = None,
        user: User = ANNA,
        *,
        names: settings.Names = "java",
    ) -> dict[str, Any]:
        """What a client needs to log in with PLAIN or SCRAM."""
        make = settings.java if names == "java" else settings.librdkafka
        # Certificates and tokens are for other listeners and mechanisms.
        made: dict[str, Any] = make(LISTENERS[listener], mechanism or "SCRAM-SHA-512", user, None, None, None)  # type: ignore[arg-type]
        return {"bootstrap.servers": self.broker.bootstrap_servers_of("SASL_PLAINTEXT"), **made}

    def close(self) -> None:
        """Stop it."""
        self.helper.close()
        self.broker.stop()
