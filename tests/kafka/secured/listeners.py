"""The listeners of a secured node, and the broker's settings for them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.kafka.secured import users
from tests.kafka.secured.certificates import Certificates, Issued
from tests.kafka.secured.kdc import Kdc
from tests.kafka.secured.oauth import AUDIENCE, ISSUER, Signer

Protocol = Literal["SSL", "SASL_PLAINTEXT", "SASL_SSL"]
ClientAuth = Literal["none", "requested", "required"]
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER", "GSSAPI")
REAUTH_MS = 3000
"""Length of a session on the listener `REAUTH`."""
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


@dataclass(frozen=True)
class Listener:
    """One of them.

    Attributes:
        name: as `listeners` has it, and `Node.ports`.
        protocol: its `security.protocol`.
        client_auth: `ssl.client.auth`.
        mechanisms: those of SASL that it offers.
        signed: whether OAuth tokens need a signature; without, the unsecured validator takes them.
        max_reauth_ms: how long a session lasts; 0 for ever.
    """

    name: str
    protocol: Protocol
    client_auth: ClientAuth = "none"
    mechanisms: tuple[str, ...] = field(default=())
    signed: bool = True
    max_reauth_ms: int = 0

    @property
    def tls(self) -> bool:
        """Whether it speaks TLS."""
        return self.protocol != "SASL_PLAINTEXT"


LISTENERS = {
    listener.name: listener
    for listener in (
        Listener("SSL", "SSL"),
        Listener("SSL_REQUIRED", "SSL", "required"),
        Listener("SSL_REQUESTED", "SSL", "requested"),
        Listener("CHANGING", "SSL"),
        Listener("SASL_PLAINTEXT", "SASL_PLAINTEXT", mechanisms=MECHANISMS),
        Listener("SASL_SSL", "SASL_SSL", mechanisms=MECHANISMS),
        Listener("REAUTH", "SASL_SSL", mechanisms=MECHANISMS, max_reauth_ms=REAUTH_MS),
        Listener("UNSIGNED", "SASL_PLAINTEXT", mechanisms=("OAUTHBEARER",), signed=False),
    )
}
"""By name. `CHANGING` is for tests that give the broker another certificate."""


def broker_settings(certificates: Certificates, signer: Signer, kdc: Kdc | None) -> dict[str, object]:
    """All but the addresses."""
    settings: dict[str, object] = {
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *(f"{a.name}:{a.protocol}" for a in LISTENERS.values())]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"{users.ANONYMOUS};{users.ADMIN.principal}",
        # CN=anna,O=monedula is User:anna, as with every other mechanism.
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/,DEFAULT",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.ca.file,
        # Of each listener. Threads get a new certificate one after the other; with one, all new connections do at once.
        "num.network.threads": 1,
        # A test may give the broker whatever certificate it likes (KIP-978).
        "ssl.allow.dn.changes": "true",
        "ssl.allow.san.changes": "true",
        "sasl.kerberos.service.name": "kafka",
        "sasl.oauthbearer.jwks.endpoint.url": signer.jwks_file.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "delegation.token.secret.key": "the-secret-of-all-tokens",
    }
    for listener in LISTENERS.values():
        prefix = f"listener.name.{listener.name.lower()}."
        settings |= {prefix + name: value for name, value in _of_listener(listener, certificates, kdc).items()}
    return settings


def keystore(issued: Issued) -> dict[str, str]:
    """The settings of a broker that presents this certificate."""
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(issued.pem)}


def _of_listener(listener: Listener, certificates: Certificates, kdc: Kdc | None) -> dict[str, object]:
    settings: dict[str, object] = {}
    if listener.tls:
        settings |= {**keystore(certificates.server), "ssl.client.auth": listener.client_auth}
    offered = [mechanism for mechanism in listener.mechanisms if mechanism != "GSSAPI" or kdc is not None]
    if offered:
        settings["sasl.enabled.mechanisms"] = ",".join(offered)
    for mechanism in offered:
        own = dict(_of_mechanism(mechanism, listener, kdc))
        settings |= {f"{mechanism.lower()}.{name}": value for name, value in own.items()}
    return settings


def _of_mechanism(mechanism: str, listener: Listener, kdc: Kdc | None) -> Iterator[tuple[str, object]]:
    match mechanism:
        case "PLAIN":
            passwords = {f"user_{user.name}": user.password for user in users.USERS}
            yield "sasl.jaas.config", users.jaas(users.PLAIN_MODULE, **passwords)
        case "OAUTHBEARER":
            yield "sasl.jaas.config", users.jaas(users.OAUTH_MODULE)
            if listener.signed:
                yield "sasl.server.callback.handler.class", _VALIDATOR
        case "GSSAPI":
            assert kdc is not None
            yield "sasl.jaas.config", kerberos_jaas(kdc.service_keytab, kdc.service)
        case _:
            yield "sasl.jaas.config", users.jaas(users.SCRAM_MODULE)
    if listener.max_reauth_ms:
        yield "connections.max.reauth.ms", listener.max_reauth_ms


def kerberos_jaas(keytab: Path, principal: str) -> str:
    """A line for `sasl.jaas.config` that logs in by a keytab."""
    flags: Mapping[str, str] = {"useKeyTab": "true", "storeKey": "true"}
    return users.jaas(users.KERBEROS_MODULE, **flags, keyTab=str(keytab), principal=principal)
