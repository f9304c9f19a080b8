"""TLS, client certificates and OAuth of the registry, with monedula's client and Confluent's."""

from collections.abc import Iterator
from typing import Any

import monedula
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from monedula import SchemaRegistry
from monedula.errors import SchemaRegistryError
from monedula.testing import Broker

NO_RETRIES = {"schema.registry.max.retries": 0}


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(
        security="SASL_SSL", users={"etl": "secret"}, registry={"oauth": True, "client_auth": "required"}
    ) as broker:
        broker.registry.register("a", '"int"')
        yield broker


def showing(broker: Broker, **more: str) -> dict[str, Any]:
    """The settings of a client that shows a certificate."""
    certificate = broker.client_certificate("anna")
    return {
        "schema.registry.url": broker.schema_registry_url,
        "schema.registry.ssl.ca.location": str(broker.ca_file),
        "schema.registry.ssl.certificate.location": str(certificate.file),
        "schema.registry.ssl.key.location": str(certificate.key_file),
        **NO_RETRIES,
        **more,
    }


def by_oauth(broker: Broker) -> dict[str, Any]:
    return {
        "schema.registry.bearer.auth.credentials.source": "OAUTHBEARER",
        "schema.registry.bearer.auth.issuer.endpoint.url": broker.token_endpoint,
        "schema.registry.bearer.auth.client.id": "etl",
        "schema.registry.bearer.auth.client.secret": "secret",
        "schema.registry.bearer.auth.scope": "registry",
        "https.ca.pem": broker.ca_pem,
    }


def test_a_client_with_a_token_and_a_certificate_is_let_in(secured: Broker) -> None:
    assert SchemaRegistry({**showing(secured), **by_oauth(secured)}).subjects() == ["a"]
    assert secured.registry.requests()[-1].user == "etl"


def test_without_a_certificate_nobody_is_let_in(secured: Broker) -> None:
    settings = {**showing(secured), **by_oauth(secured)}
    for name in ("certificate", "key"):
        del settings[f"schema.registry.ssl.{name}.location"]
    # The second: the connection may be closed before what the registry says of it is read.
    with pytest.raises(
        SchemaRegistryError, match=r"give schema\.registry\.ssl\.certificate|check schema\.registry\.url"
    ):
        SchemaRegistry(settings).subjects()


def test_without_its_authority_the_registry_is_not_trusted(secured: Broker) -> None:
    settings = {**showing(secured), **by_oauth(secured)}
    del settings["schema.registry.ssl.ca.location"]
    with pytest.raises(SchemaRegistryError, match=r"give the certificate .* in schema\.registry\.ssl\.ca\.location"):
        SchemaRegistry(settings).subjects()


def test_a_wrong_secret_is_told_and_not_tried_again(secured: Broker) -> None:
    settings = {**showing(secured), **by_oauth(secured), "schema.registry.bearer.auth.client.secret": "hush"}
    settings["schema.registry.max.retries"] = 5
    with pytest.raises(SchemaRegistryError, match=r"check schema\.registry\.bearer\.auth\.client\.id") as raised:
        SchemaRegistry(settings).subjects()
    assert "hush" not in str(raised.value)


def test_an_identity_provider_that_does_not_answer_is_named(secured: Broker) -> None:
    settings = {**showing(secured), **by_oauth(secured)}
    settings["schema.registry.bearer.auth.issuer.endpoint.url"] = "https://127.0.0.1:1/token"
    advice = r"check schema\.registry\.bearer\.auth\.issuer\.endpoint\.url, and that the identity provider is up"
    with pytest.raises(SchemaRegistryError, match=advice):
        SchemaRegistry(settings).subjects()


def test_a_token_of_nobody_is_refused(secured: Broker) -> None:
    other = showing(secured, **{"schema.registry.bearer.auth.token": secured.mint_token("x", lifetime=-10)})
    with pytest.raises(SchemaRegistryError, match="answered 401"):
        SchemaRegistry(other).subjects()
    minted = showing(secured, **{"schema.registry.bearer.auth.token": secured.mint_token("ben")})
    assert SchemaRegistry(minted).subjects() == ["a"]
    assert secured.registry.requests()[-1].user == "ben"


def test_confluents_client_shows_a_certificate_and_a_token(secured: Broker) -> None:
    certificate = secured.client_certificate("conny")
    client = SchemaRegistryClient(
        {
            "url": secured.schema_registry_url,
            "ssl.ca.location": str(secured.ca_file),
            "ssl.certificate.location": str(certificate.file),
            "ssl.key.location": str(certificate.key_file),
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": secured.mint_token("conny"),
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }
    )
    assert client.get_subjects() == ["a"]


def test_oauth_of_confluents_client_is_taken_and_its_names_are_ours() -> None:
    with Broker(security="SASL_PLAINTEXT", users={"etl": "secret"}, registry={"oauth": True}) as broker:
        settings = {
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.issuer.endpoint.url": broker.token_endpoint,
            "bearer.auth.client.id": "etl",
            "bearer.auth.client.secret": "secret",
            "bearer.auth.scope": "registry",
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }
        assert SchemaRegistryClient({"url": broker.schema_registry_url, **settings}).get_subjects() == []
        ours = {"schema.registry.url": broker.schema_registry_url, "sasl.oauthbearer.allow.plain.http": True}
        assert SchemaRegistry({**ours, **settings}).subjects() == []


def test_a_whole_program_reads_and_writes_with_a_secured_registry(secured: Broker) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    secured.create_topic("orders", 1)
    settings = {**secured.client_settings("etl"), **showing(secured), **by_oauth(secured)}
    order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    with monedula.Producer(settings) as producer:
        producer.send_batch(pyarrow.table({"id": [1, 2]}), "orders", value=monedula.Avro(order)).result()
    table = pyarrow.table(monedula.read(settings, "orders", value=monedula.Avro(order, flatten=True)))
    assert table["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bearer.auth.client.id": "a"}, "needs schema.registry.bearer.auth.issuer.endpoint.url"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "needs schema.registry.bearer.auth.issuer"),
        ({"bearer.auth.issuer.endpoint.url": "https://x"}, "bearer.auth.client.id is missing"),
        ({"bearer.auth.issuer.endpoint.url": "http://x", "bearer.auth.client.id": "a"}, "client.secret is missing"),
        (
            {
                "bearer.auth.issuer.endpoint.url": "http://x",
                "bearer.auth.client.id": "a",
                "bearer.auth.client.secret": "b",
            },
            "is an http: URL",
        ),
        (
            {
                "bearer.auth.issuer.endpoint.url": "https://x",
                "bearer.auth.client.id": "a",
                "bearer.auth.client.secret": "b",
                "basic.auth.user.info": "a:b",
            },
            "say two things about who asks",
        ),
        ({"bearer.auth.logical.cluster": "a b"}, "is no id"),
        ({"schema.registry.ssl.key.location": "/none"}, "a key needs its certificate"),
        ({"schema.registry.ssl.certificate.location": "/none"}, "/none"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(monedula.ConfigError, match=said):
        SchemaRegistry({"schema.registry.url": "https://localhost:1", **settings})


@pytest.mark.parametrize(
    "name",
    [
        "basic.auth.user.info",
        "schema.registry.bearer.auth.token",
        "bearer.auth.issuer.endpoint.url",
        "schema.registry.ssl.ca.location",
        "schema.registry.ssl.certificate.location",
    ],
)
def test_who_asks_without_a_registry_is_an_error(name: str) -> None:
    with pytest.raises(
        monedula.ConfigError, match=f"{name} is for a schema registry, and schema.registry.url does not"
    ):
        monedula.Consumer({"bootstrap.servers": "localhost:1", name: "a:b"})
