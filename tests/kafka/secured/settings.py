"""Settings of a client that logs in, by the names of Java's client or of librdkafka's."""

from collections.abc import Callable
from typing import Any, Literal

from tests.kafka.secured import users
from tests.kafka.secured.certificates import Certificates
from tests.kafka.secured.kdc import Kdc
from tests.kafka.secured.listeners import Listener, kerberos_jaas
from tests.kafka.secured.oauth import LIFETIME_SECONDS, Signer, unsigned
from tests.kafka.secured.users import User

Names = Literal["java", "librdkafka"]
STORE_PASSWORD = "store-secret-Vb8"
_RETRIEVER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def java(
    listener: Listener, mechanism: str | None, user: User, certificates: Certificates, signer: Signer, kdc: Kdc | None
) -> dict[str, str]:
    """By Java's names; all of it text."""
    settings: dict[str, str] = {"security.protocol": listener.protocol}
    if listener.tls:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.ca.file)}
    if listener.client_auth != "none":
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.client(user.name).pem)}
    if mechanism is None:
        return settings
    settings["sasl.mechanism"] = mechanism
    match mechanism:
        case "OAUTHBEARER" if listener.signed:
            settings["sasl.jaas.config"] = users.jaas(users.OAUTH_MODULE)
            settings["sasl.login.callback.handler.class"] = _RETRIEVER
            settings["sasl.oauthbearer.token.endpoint.url"] = signer.write_token(user.name).as_uri()
        case "OAUTHBEARER":
            settings["sasl.jaas.config"] = users.jaas(users.OAUTH_MODULE, unsecuredLoginStringClaim_sub=user.name)
        case "GSSAPI":
            assert kdc is not None
            settings["sasl.jaas.config"] = kerberos_jaas(kdc.keytab(user.name), user.name)
            settings["sasl.kerberos.service.name"] = "kafka"
        case _:
            module = users.PLAIN_MODULE if mechanism == "PLAIN" else users.SCRAM_MODULE
            settings["sasl.jaas.config"] = users.jaas(module, username=user.name, password=user.password)
    return settings


def librdkafka(
    listener: Listener, mechanism: str | None, user: User, certificates: Certificates, signer: Signer, kdc: Kdc | None
) -> dict[str, Any]:
    """By librdkafka's names. Tokens come by `oauth_cb`, as confluent-kafka takes it."""
    settings: dict[str, Any] = {"security.protocol": listener.protocol}
    if listener.tls:
        settings["ssl.ca.location"] = str(certificates.ca.file)
    if listener.client_auth != "none":
        client = certificates.client(user.name)
        settings |= {"ssl.certificate.location": str(client.chain), "ssl.key.location": str(client.key)}
    if mechanism is None:
        return settings
    settings["sasl.mechanisms"] = mechanism
    match mechanism:
        case "OAUTHBEARER":
            settings["oauth_cb"] = token_callback(signer.token if listener.signed else unsigned, user.name)
        case "GSSAPI":
            assert kdc is not None
            settings |= {"sasl.kerberos.service.name": "kafka", "sasl.kerberos.principal": user.name}
            settings["sasl.kerberos.keytab"] = str(kdc.keytab(user.name))
        case _:
            settings |= {"sasl.username": user.name, "sasl.password": user.password}
    return settings


def token_callback(
    token: Callable[..., str], user: str, lifetime_seconds: float = LIFETIME_SECONDS
) -> Callable[[str], tuple[str, float]]:
    """An `oauth_cb` that makes a new token at each call, and says when it ends."""

    def called(_settings: str) -> tuple[str, float]:
        import time

        return token(user, lifetime_seconds=lifetime_seconds), time.time() + lifetime_seconds

    return called
