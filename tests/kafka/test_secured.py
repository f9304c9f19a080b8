"""The secured Kafka itself, with other projects' clients: logins and refusals."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.conftest import TopicFactory
from tests.kafka import HelperError
from tests.kafka.secured import (
    ANNA,
    BAD_CLIENTS,
    BAD_SERVERS,
    BORIS,
    LISTENERS,
    SCRAM,
    SCRAM_ONLY,
    TRICKY,
    SecuredKafka,
    TokenEndpoint,
    User,
)
from tests.kafka.secured.kdc import Kdc

pytestmark = pytest.mark.jvm
TIMEOUT_SECONDS = 30.0
BY_TLS = [listener.name for listener in LISTENERS.values() if listener.protocol == "SSL"]
BY_SASL = [(listener.name, mechanism) for listener in LISTENERS.values() for mechanism in listener.mechanisms]
WITHOUT_KERBEROS = [login for login in BY_SASL if login[1] != "GSSAPI"]


def log_in(settings: dict[str, Any]) -> int:
    """How many brokers librdkafka sees; its first error if that says that it is refused for good."""
    errors: list[KafkaError] = []
    admin = AdminClient({**settings, "error_cb": errors.append})
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        admin.poll(0.05)
        refused = [e for e in errors if e.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)]
        if refused:
            raise KafkaException(refused[0])
        try:
            return len(admin.list_topics(timeout=0.5).brokers)
        except KafkaException:
            continue
    raise AssertionError(f"neither logged in nor refused in {TIMEOUT_SECONDS} s: {errors}")


def refused(settings: dict[str, Any]) -> str:
    """The error that librdkafka has for a refused login."""
    with pytest.raises(KafkaException) as raised:
        log_in(settings)
    return str(raised.value.args[0])


def java_writes(secured: SecuredKafka, topic: str, settings: dict[str, Any]) -> int:
    """The offset of the record that Java's producer wrote."""
    return secured.helper.produce(topic, [{"value": "x"}], config={**settings, "max.block.ms": 10_000})[0].offset


@pytest.mark.parametrize("listener", BY_TLS)
def test_librdkafka_logs_in_by_tls(secured: SecuredKafka, listener: str) -> None:
    assert log_in(secured.client_settings(listener, names="librdkafka")) == 1


@pytest.mark.parametrize(("listener", "mechanism"), WITHOUT_KERBEROS)
def test_librdkafka_logs_in_by_sasl(secured: SecuredKafka, listener: str, mechanism: str) -> None:
    assert log_in(secured.client_settings(listener, mechanism, names="librdkafka")) == 1


@pytest.mark.parametrize("listener", BY_TLS)
def test_java_logs_in_by_tls(secured: SecuredKafka, topic: TopicFactory, listener: str) -> None:
    assert java_writes(secured, topic(cluster=secured), secured.client_settings(listener)) == 0


@pytest.mark.parametrize(("listener", "mechanism"), WITHOUT_KERBEROS)
def test_java_logs_in_by_sasl(secured: SecuredKafka, topic: TopicFactory, listener: str, mechanism: str) -> None:
    assert java_writes(secured, topic(cluster=secured), secured.client_settings(listener, mechanism)) == 0


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL", "REAUTH"])
@pytest.mark.usefixtures("kerberos")
def test_java_logs_in_by_kerberos(secured: SecuredKafka, topic: TopicFactory, listener: str) -> None:
    assert java_writes(secured, topic(cluster=secured), secured.client_settings(listener, "GSSAPI")) == 0


def test_a_ticket_is_got_by_keytab(kerberos: Kdc) -> None:
    assert kerberos.kinit(ANNA.name).stat().st_size > 0


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_passwords_are_taken_as_they_are(secured: SecuredKafka, topic: TopicFactory, mechanism: str) -> None:
    assert java_writes(secured, topic(cluster=secured), secured.client_settings("SASL_SSL", mechanism, TRICKY)) == 0


@pytest.mark.parametrize("mechanism", SCRAM)
def test_names_are_escaped_for_scram(secured: SecuredKafka, mechanism: str) -> None:
    assert log_in(secured.client_settings("SASL_SSL", mechanism, SCRAM_ONLY, names="librdkafka")) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
@pytest.mark.parametrize("user", [User(ANNA.name, "wrong"), User("nobody", ANNA.password)], ids=["password", "user"])
def test_a_wrong_password_and_an_unknown_user_are_refused(secured: SecuredKafka, mechanism: str, user: User) -> None:
    settings = secured.client_settings("SASL_SSL", mechanism, user, names="librdkafka")
    assert "Authentication failed" in refused(settings)


def test_a_mechanism_that_is_not_offered_is_refused(secured: SecuredKafka) -> None:
    settings = secured.client_settings("UNSIGNED", names="librdkafka")
    del settings["oauth_cb"]
    login = {"sasl.mechanisms": "PLAIN", "sasl.username": "anna", "sasl.password": "x"}
    assert "OAUTHBEARER" in refused({**settings, **login})


@pytest.mark.parametrize("what", BAD_SERVERS)
def test_a_bad_server_certificate_is_refused_by_librdkafka(secured: SecuredKafka, what: str) -> None:
    secured.show_certificate(secured.certificates.bad(what))
    try:
        assert "SSL handshake failed" in refused(secured.client_settings("CHANGING", names="librdkafka"))
    finally:
        secured.show_certificate(secured.certificates.server)
    assert log_in(secured.client_settings("CHANGING", names="librdkafka")) == 1


@pytest.mark.parametrize("what", BAD_CLIENTS)
def test_a_bad_client_certificate_is_refused(secured: SecuredKafka, topic: TopicFactory, what: str) -> None:
    settings = secured.client_settings("SSL_REQUIRED")
    settings["ssl.keystore.location"] = secured.certificates.bad_client(what).pem
    with pytest.raises(HelperError) as raised:
        java_writes(secured, topic(cluster=secured), settings)
    assert raised.value.error == "SslAuthenticationException"


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_java_takes_the_keystores(secured: SecuredKafka, topic: TopicFactory, kind: str) -> None:
    client, password = secured.certificates.client(ANNA.name), "store-secret"
    stores = {
        "ssl.keystore.location": client.jks(password) if kind == "JKS" else client.java_pkcs12(password),
        "ssl.truststore.location": client.truststore("JKS" if kind == "JKS" else "PKCS12", password),
    }
    types = {"ssl.keystore.type": kind, "ssl.truststore.type": kind}
    passwords = {"ssl.keystore.password": password, "ssl.key.password": password, "ssl.truststore.password": password}
    settings = {**secured.client_settings("SSL_REQUIRED"), **stores, **types, **passwords}
    assert java_writes(secured, topic(cluster=secured), settings) == 0


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_endpoint_gives_tokens_to_librdkafka(secured: SecuredKafka, scheme: str) -> None:
    certificate = secured.certificates.rsa_server if scheme == "https" else None
    settings = secured.client_settings("SASL_SSL", "OAUTHBEARER", names="librdkafka")
    del settings["oauth_cb"]
    with TokenEndpoint(secured.signer, {ANNA.name: ANNA.password}, certificate) as endpoint:
        login = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": ANNA.name,
            "sasl.oauthbearer.client.secret": ANNA.password,
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "https.ca.location": str(secured.certificates.ca.file),
        }
        assert log_in({**settings, **login}) == 1
    assert endpoint.asked[0].form["grant_type"] == "client_credentials"


def test_a_forged_token_is_refused(secured: SecuredKafka) -> None:
    settings = secured.client_settings("SASL_SSL", "OAUTHBEARER", names="librdkafka")
    token = secured.signer.token(ANNA.name)
    forged = f"{token.rpartition('.')[0]}.{secured.signer.token(BORIS.name).rpartition('.')[2]}"
    settings["oauth_cb"] = lambda _config: (forged, time.time() + 60)
    assert "invalid_token" in refused(settings)


def test_a_delegation_token_logs_in_as_its_owner(secured: SecuredKafka, topic: TopicFactory) -> None:
    as_anna = secured.client_settings("SASL_SSL", "SCRAM-SHA-256")
    token = secured.helper.create_token(as_anna)
    jaas = str(secured.client_settings("SASL_SSL", "SCRAM-SHA-256", User(token.id, token.hmac))["sasl.jaas.config"])
    settings = {**as_anna, "sasl.jaas.config": jaas.replace(";", ' tokenauth="true";')}
    name = topic(cluster=secured)
    assert java_writes(secured, name, settings) == 0
    secured.helper.expire_token(as_anna, token)
    with pytest.raises(HelperError, match="Authentication failed"):
        java_writes(secured, name, settings)


@pytest.mark.parametrize(("listener", "mechanism"), [("SASL_SSL", "PLAIN"), ("SSL_REQUIRED", None)])
def test_acls_are_by_the_name_of_the_user(
    secured: SecuredKafka, topic: TopicFactory, listener: str, mechanism: str | None
) -> None:
    name, settings = topic(cluster=secured), secured.client_settings(listener, mechanism, BORIS)
    with pytest.raises(HelperError) as raised:
        java_writes(secured, name, settings)
    assert raised.value.error == "TopicAuthorizationException"
    secured.allow(BORIS, "WRITE", "TOPIC", name)
    try:
        assert java_writes(secured, name, settings) == 0
    finally:
        secured.remove_acls("TOPIC", name)


def test_a_session_goes_on_when_the_client_logs_in_again(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = topic(cluster=secured)
    settings = secured.client_settings("REAUTH", names="librdkafka")
    producer = Producer({"bootstrap.servers": secured.bootstrap})
    consumer = Consumer({**settings, "group.id": "unused", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(name, 0, 0)])
        until = time.monotonic() + 2 * LISTENERS["REAUTH"].max_reauth_ms / 1000
        written = read = 0
        while read < written or time.monotonic() < until:
            producer.produce(name, b"x")
            producer.flush(TIMEOUT_SECONDS)
            written += 1
            message = consumer.poll(TIMEOUT_SECONDS)
            assert message is not None
            assert message.error() is None
            read += 1
    finally:
        consumer.close()


def test_three_nodes_are_secured_alike(secured3: SecuredKafka, topic: TopicFactory) -> None:
    assert log_in(secured3.client_settings("SASL_SSL", names="librdkafka")) == 3
    name = topic(6, cluster=secured3, replication=3)
    settings = secured3.client_settings("SASL_SSL", "SCRAM-SHA-256")
    placed = secured3.helper.produce(name, [{"value": "x", "partition": at} for at in range(6)], config=settings)
    assert {produced.offset for produced in placed} == {0}
