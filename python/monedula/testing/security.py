"""Security of `Broker`: settings for clients, users, tokens, certificates, and rights."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from monedula.errors import ArgumentError

Protocols = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

Mechanisms = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

_DEFAULT_MECHANISM = "SCRAM-SHA-512"

Flaw = Literal["none", "expired", "not_yet_valid", "wrong_host", "unknown_ca", "self_signed", "wrong_usage"]
"""A fault of the certificate that the broker shows."""

Names = Literal["librdkafka", "java"]
"""Whose names settings have. monedula's own clients take both."""


@dataclass(frozen=True, slots=True)
class Acl:
    """An entry of the access control lists.

    Attributes:
        principal: whom it concerns, such as `"User:anna"`, or `"User:*"` for everybody.
        operation: what it is about, such as `"READ"`.
        resource_type: `"TOPIC"`, `"GROUP"`, `"CLUSTER"`, `"TRANSACTIONAL_ID"`, `"DELEGATION_TOKEN"` or `"USER"`.
        name: the name of the resource; `"*"` for all.
        pattern_type: `"LITERAL"`, or `"PREFIXED"` if `name` is a prefix.
        permission: `"ALLOW"` or `"DENY"`. An entry that denies wins.
        host: the client's address; `"*"` for all.
    """

    principal: str
    operation: str
    resource_type: str
    name: str
    pattern_type: str = "LITERAL"
    permission: str = "ALLOW"
    host: str = "*"


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client's certificate that the broker has issued, and its key.

    Attributes:
        name: the common name; the client's principal is `User:CN=name`.
        pem: the certificate and that of the CA, as PEM.
        key_pem: the key, as unencrypted PKCS#8 in PEM.
        file: a file with `pem`. It is removed when the broker stops.
        key_file: a file with `key_pem`, which only its owner may read. It is removed when the broker stops.
    """

    name: str
    pem: str
    key_pem: str = field(repr=False)
    file: Path
    key_file: Path


class SecurityControl:
    """The part of `Broker` about security. Not for use on its own."""

    _control: Callable[..., Any]
    _protocol: Protocols
    _client_auth: str
    _passwords: dict[str, str]
    _mechanisms: tuple[str, ...]
    _files: "tempfile.TemporaryDirectory[str] | None" = None

    # Settings of clients

    def bootstrap_servers_of(self, security: Protocols) -> str:
        """The addresses of all nodes for clients with this security protocol, as a value for `bootstrap.servers`.

        Args:
            security: the security protocol.

        Raises:
            ArgumentError: the nodes have no listener for it.
        """
        listeners: dict[str, dict[str, str]] = self._control("listeners")
        if security not in listeners:
            raise ArgumentError(f"the broker listens for {', '.join(sorted(listeners))}, not for {security!r}")
        return ",".join(listeners[security].values())

    def client_settings(
        self,
        user: str | None = None,
        *,
        mechanism: Mechanisms | None = None,
        names: Names = "librdkafka",
        security: Protocols | None = None,
    ) -> dict[str, str]:
        """The settings with which a client connects, for any client of monedula's or of librdkafka's, or for Java's.

        With SASL they have the user's password. With TLS they have the broker's CA, and where the broker asks for
        certificates and `user` is given without SASL, a certificate for that user (`User:CN=user`).

        Args:
            user: the user who logs in, or whom the certificate names. Needed with SASL.
            mechanism: the SASL mechanism; if not given, `"SCRAM-SHA-512"`, or the first of the broker's mechanisms if
                that is not among them. With `"OAUTHBEARER"` the token is left to the caller, see `mint_token` and
                `token_endpoint`.
            names: whose names of settings to use.
            security: the security protocol of the listener, if the nodes have several; that of `security` if not given.

        Raises:
            ArgumentError: the broker has SASL, and there is no such user; or no listener for `security`.
        """
        protocol = security or self._protocol
        settings = {"bootstrap.servers": self.bootstrap_servers_of(protocol), "security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings |= self._tls_settings(user if protocol == "SSL" else None, names)
        if protocol.startswith("SASL"):
            default = _DEFAULT_MECHANISM if _DEFAULT_MECHANISM in self._mechanisms else self._mechanisms[0]
            settings |= self._sasl_settings(user, mechanism or default, names)
        return settings

    def _tls_settings(self, user: str | None, names: Names) -> dict[str, str]:
        shows = user is not None and self._client_auth != "none"
        certificate = self.client_certificate(str(user)) if shows else None
        if names == "java":
            settings = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.ca_pem}
            if certificate is not None:
                settings["ssl.keystore.type"] = "PEM"
                settings["ssl.keystore.certificate.chain"] = certificate.pem
                settings["ssl.keystore.key"] = certificate.key_pem
            return settings
        settings = {"ssl.ca.pem": self.ca_pem}
        if certificate is not None:
            settings |= {"ssl.certificate.pem": certificate.pem, "ssl.key.pem": certificate.key_pem}
        return settings

    def _sasl_settings(self, user: str | None, mechanism: str, names: Names) -> dict[str, str]:
        if mechanism == "OAUTHBEARER":
            return {"sasl.mechanism": mechanism}
        if user is None or user not in self._passwords:
            known = ", ".join(sorted(self._passwords)) or "none"
            raise ArgumentError(f"a client logs in as one of the broker's users: {known}; given: {user!r}")
        password = self._passwords[user]
        if names == "java":
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            login = f"username={_quoted(user)} password={_quoted(password)}"
            jaas = f"org.apache.kafka.common.security.{module} required {login};"
            return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
        return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}

    # Certificates

    @property
    def ca_pem(self) -> str:
        """The certificate of the broker's CA, as PEM.

        Raises:
            BrokerCommandError: the broker has no TLS.
        """
        return str(self._control("ca")["certificate"])

    @property
    def ca_file(self) -> Path:
        """A file with `ca_pem`. It is removed when the broker stops.

        Raises:
            BrokerCommandError: the broker has no TLS.
        """
        return self._file("ca.pem", self.ca_pem)

    def client_certificate(self, name: str) -> ClientCertificate:
        """Issue a certificate for a client.

        Args:
            name: the common name, which makes the principal `User:CN=name`.

        Returns:
            The certificate and its private key, also as files, which are removed when the broker stops.

        Raises:
            BrokerCommandError: the broker has no TLS.
        """
        issued = self._control("client_certificate", name=name)
        number = len(list(self._directory().glob("client-*.pem")))
        return ClientCertificate(
            name=name,
            pem=issued["certificate"],
            key_pem=issued["key"],
            file=self._file(f"client-{number}.pem", issued["certificate"]),
            key_file=self._file(f"client-{number}.key", issued["key"]),
        )

    def show_certificate(self, flaw: Flaw = "none") -> None:
        """Have the nodes show a new certificate to clients that connect from now on.

        Args:
            flaw: what is wrong with it, to test that a client refuses it.

        Raises:
            BrokerCommandError: the broker has no TLS.
        """
        self._control("show_certificate", flaw=flaw)

    def stay_silent(self, silent: bool = True) -> None:
        """Have the nodes accept connections and never read from them or write to them; `False` ends that.

        It holds for connections that are made from now on: they stay silent also after it has ended. To stop a client
        in a later phase, set a fault such as `fault(api="SaslAuthenticate", hold=True)`.

        Args:
            silent: whether connections that are made from now on are silent.
        """
        self._control("stay_silent", silent=silent)

    # Users and tokens

    def set_password(self, user: str, password: str) -> None:
        """Set the password of a user, for PLAIN and SCRAM. A user who does not exist is created.

        Args:
            user: the user's name.
            password: the new password.
        """
        self._control("set_password", user=user, password=password)
        self._passwords[user] = password

    def remove_user(self, user: str) -> None:
        """Remove a user, who then cannot log in; connections that are open stay open.

        Args:
            user: the user's name.

        Raises:
            BrokerCommandError: there is no such user.
        """
        self._control("remove_user", user=user)
        self._passwords.pop(user, None)

    def users(self) -> list[str]:
        """The names of all users, including those that were created with the admin API."""
        return list(self._control("users"))

    def expire_sessions(self, user: str | None = None) -> int:
        """End the sessions of all clients, or of one user's: their connections close unless they log in again.

        Args:
            user: only this user's sessions; all if left out.

        Returns:
            How many sessions were ended.
        """
        principal = None if user is None else principal_of(user)
        return int(self._control("expire_sessions", principal=principal)["expired"])

    def mint_token(
        self,
        user: str,
        *,
        lifetime: float = 3600,
        unsecured: bool = False,
        claims: Mapping[str, object] | None = None,
    ) -> str:
        """Make a token with which a client can log in with OAUTHBEARER: a JSON Web Token of the broker's own key.

        Args:
            user: the subject, which becomes the principal `User:user`.
            lifetime: how long it is valid, in seconds; negative for one that has expired.
            unsecured: without a signature, which the broker takes only with `unsecured_tokens=True`.
            claims: further claims; they replace `sub`, `scope`, `iat` and `exp`.

        Returns:
            The token, for the settings of a client.
        """
        lifetime_ms = round(lifetime * 1000)
        minted = self._control(
            "mint_token", user=user, lifetime_ms=lifetime_ms, unsecured=unsecured, claims=dict(claims or {})
        )
        return str(minted["token"])

    @property
    def token_endpoint(self) -> str:
        """The URL of a token endpoint for OAUTHBEARER, which is opened when it is asked for first.

        It gives tokens as an identity provider does (OAuth 2.0, client credentials): the client's id is the name of one
        of the broker's users, and its secret the user's password. It listens on loopback; with TLS it shows a
        certificate of the broker's CA, so clients need `https.ca.pem`.
        """
        return str(self._control("token_endpoint")["url"])

    def set_token_lifetime(self, seconds: float) -> None:
        """Set how long the tokens of `token_endpoint` are valid from now on; an hour at first.

        Args:
            seconds: the lifetime of a token.
        """
        self._control("token_endpoint", lifetime_ms=round(seconds * 1000))

    # Rights

    def allow(
        self,
        user: str,
        *operations: str,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        cluster: bool = False,
        prefixed: bool = False,
        host: str = "*",
    ) -> None:
        """Allow a user to do something.

        Args:
            user: the user, or a principal such as `"User:CN=anna"`; `"*"` for everybody.
            operations: what is allowed, such as `"READ"`; `"ALL"` for everything.
            topic: with this topic; `"*"` for all.
            group: with this group.
            transactional_id: with this transactional id.
            cluster: with the cluster.
            prefixed: whether the name is a prefix.
            host: from this address; `"*"` for any.

        Raises:
            ArgumentError: not exactly one resource is given, or no operation.
            BrokerCommandError: the broker has no authorizer.
        """
        resource = _resource(topic, group, transactional_id, cluster)
        self.create_acls(_acls(user, operations, resource, "ALLOW", prefixed=prefixed, host=host))

    def deny(
        self,
        user: str,
        *operations: str,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        cluster: bool = False,
        prefixed: bool = False,
        host: str = "*",
    ) -> None:
        """Deny a user something, whatever else is allowed. The arguments are those of `allow`.

        Raises:
            ArgumentError: not exactly one resource is given, or no operation.
            BrokerCommandError: the broker has no authorizer.
        """
        resource = _resource(topic, group, transactional_id, cluster)
        self.create_acls(_acls(user, operations, resource, "DENY", prefixed=prefixed, host=host))

    def create_acls(self, acls: Iterable[Acl]) -> None:
        """Create ACLs. Those that exist already stay as they are.

        Args:
            acls: the ACLs.

        Raises:
            BrokerCommandError: the broker has no authorizer.
        """
        self._control("create_acls", acls=[acl_json(acl) for acl in acls])

    def delete_acls(self, acls: Iterable[Acl]) -> None:
        """Delete ACLs. Those that do not exist are ignored.

        Args:
            acls: the ACLs.

        Raises:
            BrokerCommandError: the broker has no authorizer.
        """
        self._control("delete_acls", acls=[acl_json(acl) for acl in acls])

    def acls(self) -> list[Acl]:
        """All ACLs.

        Raises:
            BrokerCommandError: the broker has no authorizer.
        """
        return [Acl(**acl) for acl in self._control("acls")]

    # Files

    def _directory(self) -> Path:
        if self._files is None:
            self._files = tempfile.TemporaryDirectory(prefix="monedula-broker-")
        return Path(self._files.name)

    def _file(self, name: str, text: str) -> Path:
        path = self._directory() / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    def _remove_files(self) -> None:
        if self._files is not None:
            self._files.cleanup()
            self._files = None


def enabled_mechanisms(mechanisms: Sequence[str], settings: Mapping[str, object] | None) -> tuple[str, ...]:
    """The SASL mechanisms that a broker takes, by the argument or Kafka's setting; all that it has by default."""
    given = [str(each) for each in mechanisms]
    of_setting = str((settings or {}).get("sasl.enabled.mechanisms", ""))
    given = given or [each.strip() for each in of_setting.split(",") if each.strip()]
    return tuple(given) or get_args(Mechanisms)


def principal_of(user: str) -> str:
    """The principal of a user's name; a name with a colon is a principal already."""
    return user if ":" in user else f"User:{user}"


def acl_json(acl: Acl) -> dict[str, str]:
    """An ACL as the broker's core reads it."""
    return asdict(acl)


def _resource(topic: str | None, group: str | None, transactional_id: str | None, cluster: bool) -> tuple[str, str]:
    given = [
        (kind, name)
        for kind, name in (("TOPIC", topic), ("GROUP", group), ("TRANSACTIONAL_ID", transactional_id))
        if name is not None
    ]
    if cluster:
        given.append(("CLUSTER", "kafka-cluster"))
    if len(given) != 1:
        raise ArgumentError("a right is about exactly one of topic, group, transactional_id and cluster")
    return given[0]


def _acls(
    user: str, operations: Sequence[str], resource: tuple[str, str], permission: str, *, prefixed: bool, host: str
) -> list[Acl]:
    if not operations:
        raise ArgumentError('a right is about at least one operation, such as "READ"')
    kind, name = resource
    pattern = "PREFIXED" if prefixed else "LITERAL"
    return [Acl(principal_of(user), operation, kind, name, pattern, permission, host) for operation in operations]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
