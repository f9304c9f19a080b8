"""Every mechanism over every protocol, with each kind of client, by Java's names of settings and by librdkafka's."""

import subprocess
import time
from pathlib import Path
from typing import Any

import monedula
import pytest
from cryptography.hazmat.primitives import serialization

from tests.conftest import TopicFactory
from tests.kafka.secured import (
    ANNA,
    LISTENERS,
    SCRAM,
    SCRAM_ONLY,
    TRICKY,
    SecuredKafka,
    TokenEndpoint,
    User,
)
from tests.security.real.clients import CLIENTS, produce, read

pytestmark = pytest.mark.jvm
BY_TLS = [listener.name for listener in LISTENERS.values() if listener.protocol == "SSL"]
PASSWORDS = ("PLAIN", *SCRAM)
LOGINS = [(listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in PASSWORDS]
STORE_PASSWORD = "store-secret-Vb8"


@pytest.fixture
def name(secured: SecuredKafka, topic: TopicFactory) -> str:
    """A topic."""
    return topic(cluster=secured)


def every_client_works(settings: dict[str, Any], name: str) -> None:
    """Each does what needs the brokers."""
    assert {kind: does(settings, name) for kind, does in CLIENTS.items()} == {
        "producer": 0,
        "consumer": 1,
        "async consumer": 1,
        "admin": 1,
        "read": 1,
    }


@pytest.mark.parametrize("names", ["java", "librdkafka"])
@pytest.mark.parametrize("listener", BY_TLS)
def test_by_tls(secured: SecuredKafka, name: str, listener: str, names: Any) -> None:
    every_client_works(secured.client_settings(listener, names=names), name)


@pytest.mark.parametrize("names", ["java", "librdkafka"])
@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_by_password(secured: SecuredKafka, name: str, listener: str, mechanism: str, names: Any) -> None:
    every_client_works(secured.client_settings(listener, mechanism, names=names), name)


@pytest.mark.parametrize("names", ["java", "librdkafka"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_by_signed_token(secured: SecuredKafka, name: str, listener: str, names: Any) -> None:
    every_client_works(secured.client_settings(listener, "OAUTHBEARER", names=names), name)


@pytest.mark.parametrize("names", ["java", "librdkafka"])
def test_by_token_without_a_signature(secured: SecuredKafka, name: str, names: Any) -> None:
    every_client_works(secured.client_settings("UNSIGNED", names=names), name)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_by_token_of_an_endpoint(secured: SecuredKafka, name: str, scheme: str) -> None:
    certificate = secured.certificates.server if scheme == "https" else None
    settings = secured.client_settings("SASL_SSL", "OAUTHBEARER", names="librdkafka")
    del settings["oauth_cb"]
    with TokenEndpoint(secured.signer, {ANNA.name: ANNA.password}, certificate) as endpoint:
        login = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": ANNA.name,
            "sasl.oauthbearer.client.secret": ANNA.password,
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "https.ca.location": str(secured.certificates.ca.file),
            "sasl.oauthbearer.allow.plain.http": scheme == "http",
        }
        every_client_works({**settings, **login}, name)
    assert {asked.form["grant_type"] for asked in endpoint.asked} == {"client_credentials"}


@pytest.mark.parametrize("mechanism", PASSWORDS)
@pytest.mark.parametrize("names", ["java", "librdkafka"])
def test_passwords_are_sent_as_they_are(secured: SecuredKafka, name: str, mechanism: str, names: Any) -> None:
    assert produce(secured.client_settings("SASL_SSL", mechanism, TRICKY, names=names), name) == 0


@pytest.mark.parametrize("mechanism", SCRAM)
def test_names_are_escaped(secured: SecuredKafka, name: str, mechanism: str) -> None:
    assert produce(secured.client_settings("SASL_SSL", mechanism, SCRAM_ONLY), name) == 0


@pytest.mark.parametrize("mechanism", SCRAM)
def test_by_delegation_token(secured: SecuredKafka, name: str, mechanism: str) -> None:
    as_anna = secured.client_settings("SASL_SSL", mechanism)
    token = secured.helper.create_token(as_anna)
    jaas = secured.client_settings("SASL_SSL", mechanism, User(token.id, token.hmac))["sasl.jaas.config"]
    every_client_works({**as_anna, "sasl.jaas.config": jaas.replace(";", " tokenauth=true;")}, name)


@pytest.mark.parametrize("kind", ["PEM", "encrypted PEM", "PEM in the settings", "PKCS12", "Java's PKCS12", "JKS"])
def test_certificates_in_every_form(secured: SecuredKafka, name: str, kind: str) -> None:
    settings = secured.client_settings("SSL_REQUIRED")
    settings = {key: value for key, value in settings.items() if "store" not in key}
    settings |= store_settings(secured, kind)
    assert produce(settings, name) == 0


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_certificate_of_version_1(secured: SecuredKafka, name: str, version: str, tmp_path: Path) -> None:
    """As OpenSSL makes them that is told of no extensions: `openssl x509 -req`."""
    ca, made = secured.certificates.ca, secured.certificates.client(ANNA.name)
    form, no_password = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    signing_key, chain = tmp_path / "ca.key", tmp_path / "anna.pem"
    signing_key.write_bytes(ca.private_key.private_bytes(serialization.Encoding.PEM, form, no_password))
    subject = "/" + "/".join(reversed(made.certificate.subject.rfc4514_string().split(",")))
    request = ("openssl", "req", "-new", "-key", str(made.key), "-subj", subject)
    asked = subprocess.run(request, check=True, capture_output=True).stdout
    sign = (
        "openssl",
        "x509",
        "-req",
        "-CA",
        str(ca.file),
        "-CAkey",
        str(signing_key),
        "-set_serial",
        "7",
        "-days",
        "2",
    )
    chain.write_bytes(subprocess.run(sign, input=asked, check=True, capture_output=True).stdout)
    given = {"ssl.ca.location": ca.file, "ssl.certificate.location": chain, "ssl.key.location": made.key}
    settings = secured.client_settings("SSL_REQUIRED")
    settings = {key: value for key, value in settings.items() if "store" not in key}
    every_client_works({**settings, **given, "ssl.enabled.protocols": version}, name)


def store_settings(secured: SecuredKafka, kind: str) -> dict[str, Any]:
    """Keystore and truststore of ANNA."""
    client, ca, password = secured.certificates.client(ANNA.name), secured.certificates.ca, STORE_PASSWORD
    match kind:
        case "PEM":
            return {
                "ssl.ca.location": ca.file,
                "ssl.certificate.location": client.chain,
                "ssl.key.location": client.key,
            }
        case "encrypted PEM":
            return {
                "ssl.ca.location": ca.file,
                "ssl.certificate.location": client.chain,
                "ssl.key.location": client.encrypted_key(password),
                "ssl.key.password": password,
            }
        case "PEM in the settings":
            return {
                "ssl.truststore.certificates": ca.pem,
                "ssl.keystore.certificate.chain": client.chain_pem,
                "ssl.keystore.key": client.key_pem,
            }
        case _:
            store = {"PKCS12": client.pkcs12, "Java's PKCS12": client.java_pkcs12, "JKS": client.jks}[kind]
            trusted = ca.truststore("JKS" if kind == "JKS" else "PKCS12", password)
            return {
                "ssl.keystore.location": store(password),
                "ssl.keystore.type": "JKS" if kind == "JKS" else "PKCS12",
                "ssl.keystore.password": password,
                "ssl.key.password": password,
                "ssl.truststore.location": trusted,
                "ssl.truststore.type": "JKS" if kind == "JKS" else "PKCS12",
                "ssl.truststore.password": password,
            }


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_each_version_of_tls(secured: SecuredKafka, name: str, version: str) -> None:
    settings = secured.client_settings("SSL_REQUIRED", names="librdkafka")
    assert produce({**settings, "ssl.enabled.protocols": version}, name) == 0


def test_a_server_with_an_rsa_key_and_a_chain(secured: SecuredKafka, name: str) -> None:
    secured.show_certificate(secured.certificates.rsa_server)
    try:
        assert produce(secured.client_settings("CHANGING"), name) == 0
    finally:
        secured.show_certificate(secured.certificates.server)


def test_a_self_signed_certificate_that_is_trusted(secured: SecuredKafka, name: str) -> None:
    """As Java does, and OpenSSL."""
    issued = secured.certificates.bad("self-signed")
    secured.show_certificate(issued)
    try:
        settings = {**secured.client_settings("CHANGING", names="librdkafka"), "ssl.ca.location": str(issued.root_file)}
        assert produce(settings, name) == 0
    finally:
        secured.show_certificate(secured.certificates.server)


def test_a_folder_of_authorities(secured: SecuredKafka, name: str, tmp_path: Path) -> None:
    (tmp_path / "one.pem").write_text(secured.certificates.other_ca.pem)
    (tmp_path / "two.crt").write_text(secured.certificates.ca.pem)
    settings = {**secured.client_settings("SSL", names="librdkafka"), "ssl.ca.location": str(tmp_path)}
    assert produce(settings, name) == 0


def test_without_verification_any_certificate_will_do(secured: SecuredKafka, name: str) -> None:
    secured.show_certificate(secured.certificates.bad("unknown CA"))
    try:
        settings = secured.client_settings("CHANGING", names="librdkafka")
        assert produce({**settings, "enable.ssl.certificate.verification": False}, name) == 0
    finally:
        secured.show_certificate(secured.certificates.server)


@pytest.mark.parametrize("value", ["", "none"])
def test_without_identification_another_host_will_do(secured: SecuredKafka, name: str, value: str) -> None:
    secured.show_certificate(secured.certificates.bad("wrong host"))
    try:
        settings = {**secured.client_settings("CHANGING"), "ssl.endpoint.identification.algorithm": value}
        assert produce(settings, name) == 0
    finally:
        secured.show_certificate(secured.certificates.server)


def test_by_the_address_that_the_certificate_names(secured: SecuredKafka, name: str) -> None:
    settings = secured.client_settings("SASL_SSL")
    settings["bootstrap.servers"] = settings["bootstrap.servers"].replace("localhost", "127.0.0.1")
    assert produce(settings, name) == 0


def test_a_password_from_a_config_provider(secured: SecuredKafka, name: str, tmp_path: Path) -> None:
    (tmp_path / "kafka.properties").write_text(f"password={ANNA.password}\n")
    settings = secured.client_settings("SASL_SSL", "SCRAM-SHA-512", names="librdkafka")
    provided = {"config.providers": "file", "sasl.password": f"${{file:{tmp_path}/kafka.properties:password}}"}
    assert produce({**settings, **provided}, name) == 0


def test_a_token_is_asked_for_once_by_all_connections(secured: SecuredKafka, name: str) -> None:
    asked: list[None] = []

    def token(_settings: object) -> tuple[str, float]:
        asked.append(None)
        return secured.signer.token(ANNA.name), time.time() + 3600

    settings = secured.client_settings("SASL_SSL", "OAUTHBEARER", names="librdkafka")
    with monedula.Producer({**settings, "oauth_cb": token}) as producer:
        producer.send(name, b"x").result(60)
    assert len(asked) == 1
    assert read(secured.client_settings("SASL_SSL"), name) == 1


def test_an_object_with_an_asynchronous_token_method(secured: SecuredKafka, name: str) -> None:
    class Provider:
        calls = 0

        async def token(self) -> str:
            self.calls += 1
            return secured.signer.token(ANNA.name)

    settings = secured.client_settings("SASL_PLAINTEXT", "OAUTHBEARER", names="librdkafka")
    del settings["oauth_cb"]
    provider = Provider()
    assert produce({**settings, "sasl_oauth_token_provider": provider}, name) == 0
    assert provider.calls == 1
