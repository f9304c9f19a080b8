"""TLS on a real Kafka: what is read and written over it, which certificates are taken, what is said of the others."""

import pickle
from typing import Literal

import monedula
import pyarrow
import pytest

from tests.conftest import TopicFactory
from tests.kafka.secured import ANNA, BAD_CLIENTS, BAD_SERVERS, SecuredKafka

pytestmark = pytest.mark.jvm
PASSWORD = "canary-store-8f1c"
KEY_PASSWORD = "canary-key-77ab"
VALUES = [f"value {number}" for number in range(1000)]


def filled(secured: SecuredKafka, topic: TopicFactory) -> str:
    name = topic(cluster=secured)
    secured.helper.produce(name, [{"value": value} for value in VALUES])
    return name


def read(settings: dict[str, str], topic: str) -> list[str]:
    table = pyarrow.table(monedula.read(settings, topic, columns=["value"]))
    return [value.decode() for value in table.column("value").to_pylist() if value is not None]


def server_only(secured: SecuredKafka, listener: str, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": secured.bootstrap_of(listener), "security.protocol": "SSL", **more}


@pytest.mark.parametrize("names", ["java", "librdkafka"])
@pytest.mark.parametrize("listener", ["SSL", "SSL_REQUIRED", "SSL_REQUESTED"])
def test_records_are_read_by_the_settings_of_java_and_of_librdkafka(
    secured: SecuredKafka, topic: TopicFactory, listener: str, names: Literal["java", "librdkafka"]
) -> None:
    name = filled(secured, topic)
    assert sorted(read(secured.client_settings(listener, user=ANNA, names=names), name)) == sorted(VALUES)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_what_is_sent_is_read_over_either_version(secured: SecuredKafka, topic: TopicFactory, version: str) -> None:
    name = topic(cluster=secured)
    settings = {**secured.client_settings("SSL"), "ssl.enabled.protocols": version}
    with monedula.Producer(settings) as producer:
        # Larger than a record of TLS.
        producer.send(name, "x" * 300_000)
        producer.send(name, "y")
    assert sorted(map(len, read(settings, name))) == [1, 300_000]


def test_keystores_of_every_kind_hold_the_client_s_certificate(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = filled(secured, topic)
    certificates = secured.certificates
    client = certificates.client(ANNA.name)
    trust = {
        "ssl.truststore.location": str(certificates.ca.truststore("JKS", PASSWORD)),
        "ssl.truststore.password": PASSWORD,
    }
    encrypted = {
        "ssl.certificate.location": str(client.chain),
        "ssl.key.location": str(client.encrypted_key(KEY_PASSWORD)),
    }
    inline = {"ssl.keystore.certificate.chain": client.chain_pem, "ssl.keystore.key": client.key_pem}
    stores: list[dict[str, str]] = [
        {"ssl.keystore.location": str(client.pkcs12(PASSWORD)), "ssl.keystore.password": PASSWORD},
        {"ssl.keystore.location": str(client.java_pkcs12(PASSWORD)), "ssl.keystore.password": PASSWORD},
        {
            "ssl.keystore.location": str(client.jks(PASSWORD, KEY_PASSWORD)),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": KEY_PASSWORD,
        },
        {**encrypted, "ssl.key.password": KEY_PASSWORD},
        inline,
    ]
    for store in stores:
        settings = server_only(secured, "SSL_REQUIRED", **trust, **store)
        assert len(read(settings, name)) == len(VALUES), store


@pytest.mark.parametrize("what", sorted(BAD_SERVERS))
def test_a_broker_s_bad_certificate_is_refused_at_once_and_for_good(secured: SecuredKafka, what: str) -> None:
    settings = server_only(secured, "CHANGING", **{"ssl.ca.location": str(secured.certificates.ca.file)})
    secured.show_certificate(secured.certificates.bad(what))
    try:
        with monedula.Admin(settings) as admin:
            for _ in range(2):
                with pytest.raises(monedula.errors.AuthenticationError) as raised:
                    admin.list_topics(timeout=30.0)
                assert raised.value.mechanism == "TLS"
                assert raised.value.broker
                assert not raised.value.retriable
    finally:
        secured.show_certificate(secured.certificates.server)


@pytest.mark.parametrize("what", sorted(BAD_CLIENTS))
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_s_bad_certificate_is_refused_at_once(secured: SecuredKafka, what: str, version: str) -> None:
    client = secured.certificates.bad_client(what)
    settings = server_only(
        secured,
        "SSL_REQUIRED",
        **{
            "ssl.ca.location": str(secured.certificates.ca.file),
            "ssl.certificate.location": str(client.chain),
            "ssl.key.location": str(client.key),
            "ssl.enabled.protocols": version,
        },
    )
    with monedula.Admin(settings) as admin, pytest.raises(monedula.errors.AuthenticationError, match="certificate"):
        admin.list_topics(timeout=30.0)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_missing_certificate_of_the_client_is_said(secured: SecuredKafka, version: str) -> None:
    ca = str(secured.certificates.ca.file)
    settings = server_only(secured, "SSL_REQUIRED", **{"ssl.ca.location": ca, "ssl.enabled.protocols": version})
    with (
        monedula.Admin(settings) as admin,
        pytest.raises(monedula.errors.AuthenticationError, match=r"ssl\.keystore\.location"),
    ):
        admin.list_topics(timeout=30.0)


def test_the_error_crosses_processes() -> None:
    error = monedula.errors.AuthenticationError("refused", broker="b:1", mechanism="TLS")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.broker, copy.mechanism) == ("refused", "b:1", "TLS")
    assert isinstance(copy, PermissionError)
