"""Logging in to a real Kafka with every mechanism, and being refused."""

import logging
import time
from typing import Any

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.kafka.secured import ANNA, SCRAM_ONLY, TRICKY, SecuredKafka, User, jaas, unsigned
from tests.kafka.secured.users import SCRAM_MODULE

PASSWORDS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
NAMES = ["java", "librdkafka"]


def sent_and_read(settings: dict[str, Any], topic: str) -> list[bytes | None]:
    """The values of the topic, after one more was sent to it."""
    with monedula.Producer(settings) as producer:
        producer.send(topic, value=b"x").result(30)
    return [record.value for batch in monedula.read(settings, topic) for record in batch.records()]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("mechanism", PASSWORDS)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_user_logs_in_by_the_settings_of_either_family(
    secured: SecuredKafka, topic: TopicFactory, listener: str, mechanism: str, names: Any
) -> None:
    settings = secured.client_settings(listener, mechanism, ANNA, names=names)
    assert sent_and_read(settings, topic(cluster=secured)) == [b"x"]


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_a_password_is_taken_as_it_is(secured: SecuredKafka, topic: TopicFactory, mechanism: str) -> None:
    for names in ("java", "librdkafka"):
        settings = secured.client_settings("SASL_PLAINTEXT", mechanism, TRICKY, names=names)
        assert b"x" in sent_and_read(settings, topic(cluster=secured))


def test_a_user_name_is_escaped(secured: SecuredKafka, topic: TopicFactory) -> None:
    settings = secured.client_settings("SASL_PLAINTEXT", "SCRAM-SHA-512", SCRAM_ONLY, names="librdkafka")
    assert sent_and_read(settings, topic(cluster=secured)) == [b"x"]


@pytest.mark.parametrize("user", ["anna", "nobody"])
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_a_refused_login_is_an_authentication_error_of_every_client_at_once(
    secured: SecuredKafka, mechanism: str, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = User(user, "canary-wrong")
    settings = secured.client_settings("SASL_PLAINTEXT", mechanism, wrong, names="librdkafka")
    settings |= {"bootstrap.timeout.ms": 600_000}
    with caplog.at_level(1):
        with monedula.Producer(settings) as producer, pytest.raises(monedula.AuthenticationError):
            producer.send("any", value=b"x").result(60)
        with monedula.Admin(settings) as admin, pytest.raises(monedula.AuthenticationError):
            admin.list_topics()
        with monedula.Consumer(settings) as consumer:
            consumer.assign({("any", 0): 0})
            for _ in range(2):
                with pytest.raises(monedula.AuthenticationError) as raised:
                    consumer.poll(60)
    error = raised.value
    assert isinstance(error, PermissionError)
    assert error.mechanism == mechanism
    assert user in str(error)
    assert "sasl.password" in str(error)
    assert "canary" not in f"{error!r} {error} {caplog.text}"


def test_a_group_member_that_is_refused_raises_it_too(secured: SecuredKafka) -> None:
    settings = secured.client_settings("SASL_PLAINTEXT", "SCRAM-SHA-256", User("anna", "wrong"), names="librdkafka")
    with (
        monedula.Consumer(settings, topics=["any"], group_id="g") as consumer,
        pytest.raises(monedula.AuthenticationError),
    ):
        consumer.poll(60)


def test_the_mechanisms_of_the_broker_are_listed_and_none_is_taken_instead(secured: SecuredKafka) -> None:
    settings = secured.client_settings("UNSIGNED", "OAUTHBEARER", ANNA, names="librdkafka")
    del settings["oauth_cb"]
    settings |= {"sasl.mechanisms": "SCRAM-SHA-256", "sasl.username": "anna", "sasl.password": ANNA.password}
    with monedula.Admin(settings) as admin, pytest.raises(monedula.AuthenticationError, match="it offers OAUTHBEARER"):
        admin.list_topics()


def test_a_delegation_token_logs_in_as_its_owner(secured: SecuredKafka, topic: TopicFactory) -> None:
    token = secured.helper.create_token(secured.client_settings("SASL_PLAINTEXT", "SCRAM-SHA-256", ANNA, names="java"))
    settings = secured.client_settings("SASL_PLAINTEXT", "SCRAM-SHA-256", ANNA, names="java")
    settings["sasl.jaas.config"] = jaas(SCRAM_MODULE, username=token.id, password=token.hmac, tokenauth="true")
    assert sent_and_read(settings, topic(cluster=secured)) == [b"x"]


@pytest.mark.parametrize("names", NAMES)
def test_tokens_come_from_a_file_or_a_function(secured: SecuredKafka, topic: TopicFactory, names: Any) -> None:
    settings = secured.client_settings("SASL_PLAINTEXT", "OAUTHBEARER", ANNA, names=names)
    assert sent_and_read(settings, topic(cluster=secured)) == [b"x"]


@pytest.mark.parametrize("names", NAMES)
def test_unsecured_tokens_serve_where_the_broker_takes_them(
    secured: SecuredKafka, topic: TopicFactory, names: Any
) -> None:
    settings = secured.client_settings("UNSIGNED", "OAUTHBEARER", ANNA, names=names)
    assert sent_and_read(settings, topic(cluster=secured)) == [b"x"]


def test_a_refused_token_is_an_authentication_error(secured: SecuredKafka) -> None:
    def token() -> str:
        return unsigned("anna")

    settings = secured.client_settings("SASL_PLAINTEXT", "OAUTHBEARER", ANNA, names="librdkafka") | {"oauth_cb": token}
    with monedula.Admin(settings) as admin, pytest.raises(monedula.AuthenticationError, match="token"):
        admin.list_topics()


def test_an_object_with_an_asynchronous_token_method_serves(secured: SecuredKafka, topic: TopicFactory) -> None:
    class Provider:
        calls = 0

        async def token(self) -> str:
            self.calls += 1
            return secured.signer.token("anna")

    settings = secured.client_settings("SASL_PLAINTEXT", "OAUTHBEARER", ANNA, names="librdkafka")
    del settings["oauth_cb"]
    provider = Provider()
    settings["sasl_oauth_token_provider"] = provider
    with monedula.Producer(settings) as producer:
        producer.send(topic(cluster=secured), value=b"x").result(30)
    assert provider.calls == 1, "one token serves all connections"


def test_a_token_function_that_hangs_holds_nobody_up_for_long(secured: SecuredKafka) -> None:
    settings = secured.client_settings("SASL_PLAINTEXT", "OAUTHBEARER", ANNA, names="librdkafka")
    settings |= {"oauth_cb": lambda: time.sleep(3600), "socket_connection_setup_timeout_ms": 1000}
    settings |= {"bootstrap_timeout_ms": 2000}
    with monedula.Consumer(settings) as consumer:
        consumer.assign({("any", 0): 0})
        with pytest.raises(monedula.BrokerConnectionError, match="has not returned"):
            consumer.poll(60)


def test_nothing_of_a_login_is_logged(
    secured: SecuredKafka, topic: TopicFactory, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic(cluster=secured)
    with caplog.at_level(1, logger="monedula"):
        for mechanism in PASSWORDS:
            settings = secured.client_settings("SASL_PLAINTEXT", mechanism, ANNA, names="java")
            sent_and_read(settings, name)
    assert any(record.levelno <= logging.DEBUG for record in caplog.records)
    assert ANNA.password not in caplog.text
