"""Other projects' clients on the embedded broker with TLS and SASL, unmodified: each logs in with each mechanism."""

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from monedula import Admin
from monedula.admin import QuotaEntity
from monedula.testing import Broker

from tests.conftest import give_up
from tests.interop import installed, java
from tests.interop.conftest import Unique
from tests.interop.process import Driver, Refused
from tests.kafka import KafkaUnavailable

PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*PASSWORDS, "OAUTHBEARER")
USER = "anna"
PASSWORD = 'a "b" \\c, =d ö'
DEADLINE_SECONDS = 60.0
VALUES = [f"v{n}" for n in range(10)]

# As many as a client asks for: each of these is refused in some way.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """With an authorizer: a client has the permissions of the user who logged in."""
    users = {USER: PASSWORD, "ben": "other"}
    with Broker(security="SASL_SSL", users=users, super_users=[USER], unsecured_tokens=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def certified() -> Iterator[Broker]:
    """Clients have the principals of their certificates."""
    with Broker(security="SSL", client_auth="required", super_users=[f"User:CN={USER}"]) as broker:
        yield broker


# librdkafka


def librdkafka(broker: Broker, mechanism: str, **more: object) -> dict[str, Any]:
    settings: dict[str, Any] = dict(broker.client_settings(USER, mechanism=mechanism))  # type: ignore[arg-type]
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (broker.mint_token(USER), time.time() + 3600)
    return settings | more


def written_and_read_by_librdkafka(settings: dict[str, Any], topic: str) -> list[str]:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_SECONDS) == 0
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read: list[str] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(read) < len(VALUES):
        assert time.monotonic() < deadline, read
        message = consumer.poll(1.0)
        if message is not None and message.error() is not None:
            raise KafkaException(message.error())
        if message is not None:
            read.append((message.value() or b"").decode())
    consumer.close()
    return read


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in(broker: Broker, unique: Unique, mechanism: str) -> None:
    topic = unique("topic")
    broker.create_topic(topic, 1)
    assert written_and_read_by_librdkafka(librdkafka(broker, mechanism), topic) == VALUES


def test_librdkafka_gets_its_token_from_the_brokers_endpoint(unique: Unique) -> None:
    # librdkafka takes the authorities of an identity provider from the system alone, so without TLS.
    with Broker(security="SASL_PLAINTEXT", users={USER: "secret"}, super_users=[USER]) as broker:
        settings: dict[str, Any] = {
            **broker.client_settings(mechanism="OAUTHBEARER"),
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": USER,
            "sasl.oauthbearer.client.secret": "secret",
            "sasl.oauthbearer.token.endpoint.url": broker.token_endpoint,
        }
        topic = unique("topic")
        broker.create_topic(topic, 1)
        assert written_and_read_by_librdkafka(settings, topic) == VALUES


def test_librdkafka_knows_that_it_is_throttled(unique: Unique) -> None:
    from confluent_kafka import Producer

    with Broker() as broker:
        topic = unique("topic")
        broker.create_topic(topic, 1)
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        with Admin(servers) as admin:
            admin.alter_client_quotas({QuotaEntity(client_id="slow"): {"producer_byte_rate": 10_000}})
        events: list[float] = []
        producer = Producer(
            {**servers, "client.id": "slow", "throttle_cb": lambda event: events.append(event.throttle_time)}
        )
        producer.produce(topic, b"x" * 104_000)
        assert producer.flush(DEADLINE_SECONDS) == 0
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not events:
            assert time.monotonic() < deadline
            producer.poll(0.1)
        # 0.4 seconds and a little for the request around the record.
        assert 0.4 <= events[0] < 1


def test_librdkafka_shows_a_certificate(certified: Broker, unique: Unique) -> None:
    topic = unique("topic")
    certified.create_topic(topic, 1)
    settings = dict(certified.client_settings(USER))
    assert written_and_read_by_librdkafka(settings, topic) == VALUES


def test_librdkafka_is_told_that_the_password_is_wrong(broker: Broker) -> None:
    from confluent_kafka import KafkaError, Producer

    told: list[KafkaError] = []
    settings = librdkafka(broker, "SCRAM-SHA-256", error_cb=told.append) | {"sasl.password": "wrong"}
    producer = Producer(settings)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not any(error.code() == KafkaError._AUTHENTICATION for error in told):
        assert time.monotonic() < deadline, told
        producer.poll(0.1)


def test_librdkafka_logs_in_again_before_its_session_ends() -> None:
    from confluent_kafka import Producer

    options: dict[str, Any] = {"users": {USER: PASSWORD}, "max_reauth_ms": 1500, "topics": ["orders:1"]}
    with Broker(security="SASL_SSL", **options) as broker, broker.observe(api="SaslHandshake") as handshakes:
        producer = Producer(librdkafka(broker, "SCRAM-SHA-512"))
        producer.produce("orders", "before")
        assert producer.flush(DEADLINE_SECONDS) == 0
        first = handshakes.hits
        # One connection or two have logged in; each does so again at nine tenths of the session.
        handshakes.wait(first + 2, timeout=DEADLINE_SECONDS)
        producer.produce("orders", "after")
        assert producer.flush(DEADLINE_SECONDS) == 0


# kafka-python


def kafka_python(broker: Broker, mechanism: str) -> dict[str, Any]:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc, unused-ignore]
        def token(self) -> str:
            return broker.mint_token(USER)

    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(broker.ca_file),
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return settings | {"sasl_oauth_token_provider": Tokens()}
    return settings | {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in(broker: Broker, unique: Unique, mechanism: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    topic = unique("topic")
    broker.create_topic(topic, 1)
    producer = KafkaProducer(**kafka_python(broker, mechanism))
    for value in VALUES:
        producer.send(topic, value.encode(), partition=0)
    producer.flush(DEADLINE_SECONDS)
    producer.close()
    consumer = KafkaConsumer(**kafka_python(broker, mechanism), auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    read: list[str] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(read) < len(VALUES):
        assert time.monotonic() < deadline, read
        for records in consumer.poll(1000).values():
            read += [record.value.decode() for record in records]
    consumer.close()
    assert read == VALUES


# aiokafka


def aiokafka_settings(broker: Broker, mechanism: str) -> dict[str, Any]:
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc, unused-ignore]
        async def token(self) -> str:
            return broker.mint_token(USER)

    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cadata=broker.ca_pem),
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return settings | {"sasl_oauth_token_provider": Tokens()}
    return settings | {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in(broker: Broker, unique: Unique, mechanism: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    topic = unique("topic")
    broker.create_topic(topic, 1)

    async def write_and_read() -> list[str]:
        async with AIOKafkaProducer(**aiokafka_settings(broker, mechanism)) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value.encode(), partition=0)
        settings = aiokafka_settings(broker, mechanism) | {"auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **settings) as consumer:
            return [(await consumer.getone()).value.decode() for _ in VALUES]

    async def within_the_deadline() -> list[str]:
        return await asyncio.wait_for(write_and_read(), DEADLINE_SECONDS)

    assert asyncio.run(within_the_deadline()) == VALUES


# KafkaJS


@pytest.fixture
def kafkajs_as(broker: Broker) -> Iterator[Callable[..., Driver]]:
    try:
        modules = installed.kafkajs_modules()
    except KafkaUnavailable as error:
        give_up(error)
    with ExitStack() as stack:

        def start(mechanism: str, password: str = PASSWORD, retries: int = 20) -> Driver:
            login = {"mechanism": mechanism.lower(), "username": USER, "password": password}
            if mechanism == "OAUTHBEARER":
                login = {"mechanism": "oauthbearer", "token": broker.mint_token(USER)}
            environment = {
                "NODE_PATH": str(modules),
                "KAFKAJS_SECURITY": json.dumps({"ca": broker.ca_pem, "sasl": login}),
                "KAFKAJS_RETRIES": str(retries),
            }
            command = ["node", str(installed.KAFKAJS / "client.js"), broker.bootstrap_servers]
            return stack.enter_context(Driver(command, environment))

        yield start


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkajs_logs_in(broker: Broker, kafkajs_as: Callable[..., Driver], unique: Unique, mechanism: str) -> None:
    topic = unique("topic")
    broker.create_topic(topic, 1)
    kafkajs = kafkajs_as(mechanism)
    kafkajs.call("produce", topic=topic, messages=[{"value": value} for value in VALUES])
    kafkajs.call("consume", name="c", topics=[topic], settings={"groupId": unique("group")})

    def values() -> list[str]:
        return [event["value"] for event in list(kafkajs.events) if event["event"] == "record"]

    kafkajs.wait("all records", lambda _: len(values()) == len(VALUES))
    assert values() == VALUES


def test_kafkajs_is_told_that_the_password_is_wrong(kafkajs_as: Callable[..., Driver], unique: Unique) -> None:
    with pytest.raises(Refused, match="KafkaJSSASLAuthenticationError"):
        kafkajs_as("SCRAM-SHA-256", password="wrong", retries=0).call(
            "produce", topic=unique("topic"), messages=[{"value": "v"}]
        )


# franz-go


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_franz_go_logs_in(broker: Broker, unique: Unique, mechanism: str) -> None:
    try:
        program = installed.franz_program()
    except KafkaUnavailable as error:
        give_up(error)
    topic = unique("topic")
    broker.create_topic(topic, 1)
    security = {
        "ca": broker.ca_pem,
        "mechanism": mechanism,
        "username": USER,
        "password": PASSWORD,
        "token": broker.mint_token(USER),
    }
    with Driver([str(program), broker.bootstrap_servers], {"FRANZ_SECURITY": json.dumps(security)}) as franz:
        assert franz.call("produce", topic=topic, values=VALUES, codec="none", acks="all") == list(range(len(VALUES)))
        franz.call("consume", name="m", group=unique("group"), topic=topic)

        def values() -> list[str]:
            return [event["value"] for event in list(franz.events) if event["event"] == "record"]

        franz.wait("all records", lambda _: len(values()) == len(VALUES))
        assert values() == VALUES


# Java


def properties(path: Path, settings: dict[str, str]) -> Path:
    def escaped(text: str) -> str:
        # Java's tools read these files as Latin-1.
        ascii_only = (c if c.isascii() else f"\\u{ord(c):04x}" for c in text.replace("\\", "\\\\"))
        return "".join(ascii_only).replace("\n", "\\n")

    path.write_text("".join(f"{key}={escaped(value)}\n" for key, value in settings.items()))
    return path


def written_and_read_by_java(settings: Path, bootstrap: str, topic: str) -> list[str]:
    given = "".join(f"{value}\n" for value in VALUES)
    config = ("--command-config", str(settings))
    java.tool(java.CONSOLE_PRODUCER, bootstrap, "--topic", topic, *config, given=given)
    reading = ("--topic", topic, "--from-beginning", "--max-messages", str(len(VALUES)), "--timeout-ms", "30000")
    return java.tool(java.CONSOLE_CONSUMER, bootstrap, *reading, *config).splitlines()


@pytest.mark.jvm
@pytest.mark.parametrize(
    "mechanism",
    [
        "SCRAM-SHA-512",
        pytest.param("PLAIN", marks=pytest.mark.thorough),
        pytest.param("SCRAM-SHA-256", marks=pytest.mark.thorough),
    ],
)
def test_java_logs_in(broker: Broker, unique: Unique, tmp_path: Path, mechanism: Any) -> None:
    topic = unique("topic")
    broker.create_topic(topic, 1)
    settings = dict(broker.client_settings(USER, mechanism=mechanism, names="java"))
    path = properties(tmp_path / "client.properties", settings)
    assert written_and_read_by_java(path, broker.bootstrap_servers, topic) == VALUES


@pytest.mark.jvm
def test_java_logs_in_with_a_token_that_has_no_signature(broker: Broker, unique: Unique, tmp_path: Path) -> None:
    topic = unique("topic")
    broker.create_topic(topic, 1)
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    settings = dict(broker.client_settings(USER, mechanism="OAUTHBEARER", names="java"))
    settings["sasl.jaas.config"] = f'{module} required unsecuredLoginStringClaim_sub="{USER}";'
    path = properties(tmp_path / "client.properties", settings)
    assert written_and_read_by_java(path, broker.bootstrap_servers, topic) == VALUES


@pytest.mark.jvm
def test_java_shows_a_certificate(certified: Broker, unique: Unique, tmp_path: Path) -> None:
    topic = unique("topic")
    certified.create_topic(topic, 1)
    path = properties(tmp_path / "client.properties", dict(certified.client_settings(USER, names="java")))
    assert written_and_read_by_java(path, certified.bootstrap_servers, topic) == VALUES
