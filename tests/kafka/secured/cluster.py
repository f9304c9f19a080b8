"""`SecuredKafka`: a real Apache Kafka with TLS, SASL with every mechanism, ACLs and delegation tokens."""

import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.kafka.cluster import HOST, KafkaCluster, Node, free_ports
from tests.kafka.secured import listeners, settings, users
from tests.kafka.secured.certificates import Certificates, Issued, wait_shown
from tests.kafka.secured.kdc import Kdc, KdcUnavailable
from tests.kafka.secured.listeners import LISTENERS
from tests.kafka.secured.oauth import Signer
from tests.kafka.secured.users import ANNA, User

ADVERTISED_HOST = "localhost"
ANSWER_SECONDS = 30.0
SCRAM_ITERATIONS = 4096
EVERYTHING = (("TOPIC", "*"), ("GROUP", "*"), ("TRANSACTIONAL_ID", "*"), ("BROKER", "kafka-cluster"))
"""Kinds and names of all resources that have ACLs; librdkafka calls the cluster BROKER."""


class SecuredKafka(KafkaCluster):
    """As `KafkaCluster`, with the listeners of `LISTENERS` beside the one without security.

    `helper` and `bootstrap` use that one, as a super user. `client_settings` has those of a user.

    Args:
        nodes: how many.
        kerberos: have a KDC; without one where it is not installed, which `kdc` then says.
        certificates: those of the broker and its clients; of the cluster's own folder by default.
        config: as for `KafkaCluster`.
        heap: likewise.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        kerberos: bool = True,
        certificates: Certificates | None = None,
        config: Mapping[str, object] | None = None,
        heap: str | None = None,
    ) -> None:
        super().__init__(nodes, config=config, heap=heap)
        taken = {port for node in self.nodes.values() for port in (node.port, node.controller_port)}
        ports = [port for port in free_ports(len(LISTENERS) * nodes + 10, HOST) if port not in taken]
        self.ports = {node_id: {name: ports.pop() for name in LISTENERS} for node_id in self.nodes}
        self._kdc_port = ports.pop()
        self._kerberos = kerberos
        self._kdc: Kdc | None = None
        self._without_kdc: KdcUnavailable | None = None
        self._certificates = certificates

    @cached_property
    def certificates(self) -> Certificates:
        """The certificates that the broker and its clients use, and those that they must refuse."""
        return self._certificates or Certificates(self.directory / "certificates")

    @cached_property
    def signer(self) -> Signer:
        """The signer of the tokens that the broker accepts."""
        return Signer(self.directory / "tokens")

    @property
    def kdc(self) -> Kdc:
        """The KDC.

        Raises:
            KdcUnavailable: this machine has none.
        """
        if self._kdc is None:
            raise self._without_kdc or KdcUnavailable("this cluster was started without a KDC")
        return self._kdc

    def bootstrap_of(self, listener: str) -> str:
        """`bootstrap.servers` of a listener."""
        return ",".join(f"{ADVERTISED_HOST}:{ports[listener]}" for ports in self.ports.values())

    def client_settings(
        self,
        listener: str = "SASL_SSL",
        mechanism: str | None = None,
        user: User = ANNA,
        *,
        names: settings.Names = "java",
        **more: Any,
    ) -> dict[str, Any]:
        """The settings of a client that logs in.

        Args:
            listener: one of `LISTENERS`.
            mechanism: of SASL; SCRAM-SHA-512 unless given, where the listener has SASL at all.
            user: who; by the certificate of that name where the listener asks for one.
            names: of the settings; whose client they are for.
            more: settings on top, with underscores for dots.
        """
        chosen = LISTENERS[listener]
        if mechanism is None and chosen.mechanisms:
            mechanism = "SCRAM-SHA-512" if "SCRAM-SHA-512" in chosen.mechanisms else chosen.mechanisms[0]
        kdc = self.kdc if mechanism == "GSSAPI" else None
        written: Mapping[str, Any]
        if names == "java":
            written = settings.java(chosen, mechanism, user, self.certificates, self.signer, kdc)
        else:
            written = settings.librdkafka(chosen, mechanism, user, self.certificates, self.signer, kdc)
        own = {key.replace("_", "."): value for key, value in more.items()}
        return {"bootstrap.servers": self.bootstrap_of(listener), **written, **own}

    # ---- what a super user changes

    @cached_property
    def admin(self) -> AdminClient:
        """librdkafka's, as a super user."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def allow(self, user: User, operation: str, kind: str, name: str, *, prefixed: bool = False) -> None:
        """Add an ACL: `allow(BORIS, "READ", "TOPIC", "orders")`."""
        self._create([_acl(user.principal, operation, kind, name, "ALLOW", prefixed)])

    def deny(self, user: User, operation: str, kind: str, name: str, *, prefixed: bool = False) -> None:
        """Add an ACL that denies it, whatever others allow."""
        self._create([_acl(user.principal, operation, kind, name, "DENY", prefixed)])

    def remove_acls(self, kind: str, name: str, user: User | None = None) -> None:
        """Remove the ACLs (of one user) that name this resource."""
        chosen = AclBindingFilter(
            ResourceType[kind],
            name,
            ResourcePatternType.ANY,
            None if user is None else user.principal,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for removed in self.admin.delete_acls([chosen]).values():
            removed.result(ANSWER_SECONDS)

    def set_password(self, user: User, password: str) -> None:
        """Change a user's SCRAM password."""
        self._upsert([User(user.name, password)])

    def set_listener_config(self, listener: str, config: Mapping[str, str]) -> None:
        """Change settings of a listener on every node, while it runs."""
        prefix = f"listener.name.{listener.lower()}."
        for node_id in self.nodes:
            entries = [
                ConfigEntry(prefix + name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in config.items()
            ]
            resource = ConfigResource(ResourceType.BROKER, str(node_id), incremental_configs=entries)
            for changed in self.admin.incremental_alter_configs([resource]).values():
                changed.result(ANSWER_SECONDS)

    def show_certificate(self, issued: Issued, listener: str = "CHANGING") -> None:
        """Make every node present another certificate on new connections of a listener; returns when they do."""
        self.set_listener_config(listener, listeners.keystore(issued))
        for ports in self.ports.values():
            wait_shown((HOST, ports[listener]), issued)

    # ---- its life

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._add_users()
        except BaseException:
            self._end(keep_logs=True)
            raise
        return self

    def _format(self) -> None:
        if self._kerberos:
            kdc = Kdc(self.directory / "kdc", self._kdc_port, ADVERTISED_HOST)
            try:
                kdc.start({user.name: user.password for user in users.USERS}, self._reaper)
                self._kdc = kdc
            except KdcUnavailable as error:
                self._without_kdc = error
        super()._format()

    def _add_users(self) -> None:
        self._upsert([*users.USERS, users.SCRAM_ONLY])
        self._create(
            [
                _acl(user.principal, "ALL", kind, name, "ALLOW", False)
                for user in users.UNLIMITED
                for kind, name in EVERYTHING
            ]
        )

    def _java_properties(self) -> dict[str, str]:
        tokens = [self.signer.jwks_file, *(self.signer.token_file(user.name) for user in users.USERS)]
        allowed = ",".join(path.as_uri() for path in tokens)
        properties = {"org.apache.kafka.sasl.oauthbearer.allowed.urls": allowed}
        if self._kdc is not None:
            properties["java.security.krb5.conf"] = str(self._kdc.settings)
        return properties

    def _properties(self, node: Node) -> dict[str, object]:
        ports = self.ports[node.id]
        inner = f"PLAINTEXT://{node.host}:{node.port}"
        bound = [inner, f"CONTROLLER://{node.host}:{node.controller_port}"]
        bound += [f"{name}://{node.host}:{port}" for name, port in ports.items()]
        advertised = [inner, *(f"{name}://{ADVERTISED_HOST}:{port}" for name, port in ports.items())]
        return {
            **super()._properties(node),
            **listeners.broker_settings(self.certificates, self.signer, self._kdc),
            "listeners": ",".join(bound),
            "advertised.listeners": ",".join(advertised),
            **self.config,
        }

    def _end(self, keep_logs: bool) -> None:
        self.__dict__.pop("admin", None)
        if self._kdc is not None:
            self._kdc.close()
        super()._end(keep_logs)

    def _create(self, acls: Iterable[AclBinding]) -> None:
        for acl, created in self.admin.create_acls(list(acls)).items():
            created.result(ANSWER_SECONDS)
            self._await_described(acl)

    def _await_described(self, acl: AclBinding) -> None:
        """Await an ACL: a broker of KRaft decides by what it has read of the metadata log, which may be behind."""
        wanted = AclBindingFilter(
            acl.restype,
            acl.name,
            acl.resource_pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self.admin.describe_acls(wanted).result(ANSWER_SECONDS):
            assert time.monotonic() < deadline, f"the broker does not have {acl}"

    def _upsert(self, of: Iterable[User]) -> None:
        # A request may name each user once.
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, SCRAM_ITERATIONS)
            changes = [UserScramCredentialUpsertion(user.name, info, user.password.encode()) for user in of]
            for changed in self.admin.alter_user_scram_credentials(changes).values():
                changed.result(ANSWER_SECONDS)


def _acl(principal: str, operation: str, kind: str, name: str, permission: str, prefixed: bool) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    return AclBinding(
        ResourceType[kind], name, pattern, principal, "*", AclOperation[operation], AclPermissionType[permission]
    )
