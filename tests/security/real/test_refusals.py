"""Who does not get in: an AuthenticationError at once, from each kind of client, that says what to do."""

import time
from collections.abc import Callable
from typing import Any

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.kafka.secured import ANNA, BAD_CLIENTS, BAD_SERVERS, BORIS, SCRAM, SecuredKafka, User
from tests.security.real.clients import (
    CLIENTS,
    TIMEOUT_SECONDS,
    consume,
    poll_until_error,
    produce,
    read,
    take,
    written,
)

pytestmark = pytest.mark.jvm
PASSWORDS = ("PLAIN", *SCRAM)
NOBODY = User("nobody", ANNA.password)
WRONG = User(ANNA.name, "wrong")
# Less than any client's timeout: an error within this time did not wait for one.
PATIENT = {"default.api.timeout.ms": 100_000, "bootstrap.timeout.ms": 100_000, "max.block.ms": 100_000}
WITHIN_SECONDS = 50.0


def refused(settings: dict[str, Any], does: Callable[[dict[str, Any], str], int] = produce) -> str:
    """What the error says of a client that is not let in."""
    with pytest.raises(monedula.errors.AuthenticationError) as raised:
        does({**settings, **PATIENT}, "any")
    error = raised.value
    assert isinstance(error, PermissionError)
    assert not isinstance(error, monedula.errors.AuthorizationError)
    assert settings["bootstrap.servers"] in str(error) or "localhost" in str(error)
    return str(error)


@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("kind", CLIENTS)
def test_every_kind_of_client_tells_of_a_wrong_password(secured: SecuredKafka, kind: str) -> None:
    said = refused(secured.client_settings("SASL_SSL", "SCRAM-SHA-512", WRONG), CLIENTS[kind])
    assert "SCRAM-SHA-512" in said
    assert WRONG.password not in said.replace("wrong password", "")


@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("kind", CLIENTS)
def test_every_kind_of_client_tells_of_a_bad_certificate(secured: SecuredKafka, kind: str) -> None:
    settings = {**secured.client_settings("SSL", names="librdkafka")}
    settings["ssl.ca.location"] = str(secured.certificates.other_ca.file)
    refused(settings, CLIENTS[kind])


@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", PASSWORDS)
@pytest.mark.parametrize("user", [WRONG, NOBODY], ids=["password", "user"])
def test_a_wrong_password_and_an_unknown_user(secured: SecuredKafka, listener: str, mechanism: str, user: User) -> None:
    said = refused(secured.client_settings(listener, mechanism, user))
    assert mechanism in said
    assert user.name in said


@pytest.mark.timeout(WITHIN_SECONDS)
def test_a_mechanism_that_is_not_offered(secured: SecuredKafka) -> None:
    settings = secured.client_settings("SASL_PLAINTEXT", "PLAIN")
    settings["bootstrap.servers"] = secured.bootstrap_of("UNSIGNED")
    said = refused(settings)
    assert "PLAIN" in said
    assert "OAUTHBEARER" in said  # what is offered


@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("what", ["expired", "forged", "not a token"])
def test_a_token_that_is_refused(secured: SecuredKafka, what: str) -> None:
    token = secured.signer.token(ANNA.name, lifetime_seconds=-60 if what == "expired" else 3600)
    if what == "forged":
        token = f"{token.rpartition('.')[0]}.{secured.signer.token(BORIS.name).rpartition('.')[2]}"
    sent = "nonsense" if what == "not a token" else token
    settings = secured.client_settings("SASL_SSL", "OAUTHBEARER", names="librdkafka")
    said = refused({**settings, "oauth_cb": lambda _config: (sent, time.time() + 3600)})
    assert "OAUTHBEARER" in said
    assert "invalid_token" in said
    assert sent not in said


@pytest.mark.timeout(WITHIN_SECONDS)
def test_an_expired_delegation_token(secured: SecuredKafka) -> None:
    as_anna = secured.client_settings("SASL_SSL", "SCRAM-SHA-256")
    token = secured.helper.create_token(as_anna)
    secured.helper.expire_token(as_anna, token)
    jaas = secured.client_settings("SASL_SSL", "SCRAM-SHA-256", User(token.id, token.hmac))["sasl.jaas.config"]
    said = refused({**as_anna, "sasl.jaas.config": jaas.replace(";", " tokenauth=true;")})
    assert token.hmac not in said


SAID_OF_SERVERS = {
    "expired": "expired",
    "not yet valid": "not valid before",
    "wrong host": "other.example",
    "no names": "localhost",
    "wrong usage": "server",
    "self-signed": "ssl.ca.location|ssl.truststore.location",
    "unknown CA": "ssl.ca.location|ssl.truststore.location",
}


@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("what", BAD_SERVERS)
def test_a_bad_certificate_of_the_server(secured: SecuredKafka, what: str) -> None:
    secured.show_certificate(secured.certificates.bad(what))
    try:
        said = refused(secured.client_settings("CHANGING"))
    finally:
        secured.show_certificate(secured.certificates.server)
    assert any(words in said for words in SAID_OF_SERVERS[what].split("|"))


@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("what", [*BAD_CLIENTS, "none"])
def test_a_bad_certificate_of_the_client(secured: SecuredKafka, what: str, version: str) -> None:
    settings = secured.client_settings("SSL_REQUIRED", names="librdkafka")
    if what == "none":
        settings = {key: value for key, value in settings.items() if "certificate" not in key and "ssl.key" not in key}
    else:
        bad = secured.certificates.bad_client(what)
        settings |= {"ssl.certificate.location": str(bad.chain), "ssl.key.location": str(bad.key)}
    said = refused({**settings, "ssl.enabled.protocols": version})
    assert "certificate" in said


@pytest.mark.timeout(WITHIN_SECONDS)
def test_tls_on_a_port_without_it(secured: SecuredKafka) -> None:
    settings = {**secured.client_settings("SSL"), "bootstrap.servers": secured.bootstrap}
    with pytest.raises(monedula.ConfigError) as raised:
        read({**settings, **PATIENT}, "any")
    assert raised.value.key == "security.protocol"
    assert "TLS" in str(raised.value)
    assert "security.protocol" in str(raised.value)


@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_plaintext_on_a_port_of_tls(secured: SecuredKafka, listener: str) -> None:
    settings = {"bootstrap.servers": secured.bootstrap_of(listener)}
    with pytest.raises(monedula.ConfigError) as raised:
        read({**settings, **PATIENT}, "any")
    assert raised.value.key == "security.protocol"
    assert "TLS" in str(raised.value)
    assert "security.protocol" in str(raised.value)


@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_no_login_on_a_port_that_wants_one(secured: SecuredKafka, listener: str) -> None:
    settings = secured.client_settings(listener, "PLAIN", names="librdkafka")
    settings = {key: value for key, value in settings.items() if not key.startswith("sasl.")}
    settings["security.protocol"] = listener.removeprefix("SASL_")
    with pytest.raises(
        monedula.ConfigError, match=rf"asks for a login \(.*SCRAM-SHA-512.*\): set {listener}"
    ) as raised:
        read({**settings, **PATIENT}, "any")
    assert raised.value.key == "security.protocol"


def test_each_later_call_tells_it_again(secured: SecuredKafka) -> None:
    settings = secured.client_settings("SASL_SSL", "PLAIN", WRONG, group_id="later")
    with monedula.Consumer(settings, ["any"]) as consumer:
        for _ in range(2):
            with pytest.raises(monedula.errors.AuthenticationError):
                poll_until_error(consumer)
        with pytest.raises(monedula.errors.AuthenticationError):
            consumer.end_offsets([("any", 0)])


# ---- what an ACL does not allow


def test_a_topic_that_may_not_be_read(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = topic(cluster=secured)
    with pytest.raises(monedula.errors.AuthorizationError) as raised:
        read(secured.client_settings("SASL_SSL", "PLAIN", BORIS), name)
    assert raised.value.topic == name


def test_a_topic_that_may_not_be_written(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = topic(cluster=secured)
    with pytest.raises(monedula.errors.AuthorizationError) as raised:
        produce(secured.client_settings("SASL_SSL", "PLAIN", BORIS), name)
    assert raised.value.topic == name


def test_a_group_that_may_not_be_joined(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = topic(cluster=secured)
    secured.allow(BORIS, "READ", "TOPIC", name)
    try:
        with pytest.raises(monedula.errors.GroupAuthorizationError, match=f"of-{name}"):
            consume(secured.client_settings("SASL_SSL", "PLAIN", BORIS), name)
    finally:
        secured.remove_acls("TOPIC", name)


def test_a_right_that_is_taken_away_while_reading(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = topic(cluster=secured)
    secured.allow(BORIS, "READ", "TOPIC", name)
    try:
        with monedula.Consumer(secured.client_settings("SASL_SSL", "PLAIN", BORIS)) as consumer:
            consumer.assign({(name, 0): 0})
            written(secured, name, 3)
            assert take(consumer, 3) == 3
            secured.remove_acls("TOPIC", name)
            with pytest.raises(monedula.errors.AuthorizationError) as raised:
                poll_until_error(consumer)
            assert raised.value.topic == name
            # Once the right is given back, a seek goes on reading.
            secured.allow(BORIS, "READ", "TOPIC", name)
            written(secured, name, 2)
            assert take_once_allowed(consumer, (name, 0), 3) == 2
    finally:
        secured.remove_acls("TOPIC", name)


def take_once_allowed(consumer: monedula.Consumer, partition: tuple[str, int], offset: int) -> int:
    """Seek and poll until there are records: the node hears of an ACL a little later."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        consumer.seek(partition, offset)
        try:
            return take(consumer, 1)
        except monedula.errors.AuthorizationError:
            continue
    raise AssertionError(consumer.health())


def send_until_error(producer: monedula.Producer, topic: str) -> None:
    """Send one record after the other until that raises."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        producer.send(topic, b"x").result(TIMEOUT_SECONDS)


def test_a_right_that_is_taken_away_while_writing(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = topic(cluster=secured)
    secured.allow(BORIS, "WRITE", "TOPIC", name)
    try:
        with monedula.Producer(secured.client_settings("SASL_SSL", "PLAIN", BORIS)) as producer:
            assert producer.send(name, b"x").result(TIMEOUT_SECONDS).offset == 0
            secured.remove_acls("TOPIC", name)
            with pytest.raises(monedula.errors.AuthorizationError):
                send_until_error(producer, name)
    finally:
        secured.remove_acls("TOPIC", name)
