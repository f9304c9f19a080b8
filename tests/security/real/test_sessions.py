"""What goes on while a session ends (KIP-368), a certificate changes, a password changes, or brokers restart."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.interop.process import eventually
from tests.kafka.secured import ANNA, MECHANISMS, REAUTH_MS, SecuredKafka, User
from tests.security.real.clients import QUICK, TIMEOUT_SECONDS, produce, take, written

pytestmark = pytest.mark.jvm
WITHOUT_KERBEROS = [mechanism for mechanism in MECHANISMS if mechanism != "GSSAPI"]  # test_kerberos.py has it
ENDS = 2.5 * REAUTH_MS / 1000
"""In this time, each connection has to log in again at least twice."""


def settings_of(secured: SecuredKafka, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    """Of a client whose sessions are short."""
    return {**secured.client_settings("REAUTH", mechanism, names="librdkafka"), **QUICK}


def for_long(step: Callable[[], object]) -> None:
    """Repeat for as long as sessions end."""
    until = time.monotonic() + ENDS
    while time.monotonic() < until:
        step()


def connections_of(client: Any) -> float:
    """How many connections a client has made."""
    return float(client.metrics()["connections_opened"])


@pytest.mark.parametrize("mechanism", WITHOUT_KERBEROS)
def test_reading_and_writing_go_on_over_the_same_connections(
    secured: SecuredKafka, topic: TopicFactory, mechanism: str
) -> None:
    name = topic(cluster=secured)
    settings = settings_of(secured, mechanism)
    with monedula.Producer(settings) as producer, monedula.Consumer(settings) as consumer:
        consumer.assign({(name, 0): 0})
        sent = read = 0

        def step() -> None:
            nonlocal sent, read
            producer.send(name, b"x").result(TIMEOUT_SECONDS)
            sent += 1
            read += consumer.poll(TIMEOUT_SECONDS).num_rows

        step()
        before = connections_of(producer), connections_of(consumer)
        for_long(step)
        read += take(consumer, sent - read) if read < sent else 0
        assert read == sent
        assert (connections_of(producer), connections_of(consumer)) == before


def test_a_session_ends_in_a_long_fetch(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = topic(cluster=secured)
    settings = {**settings_of(secured), "fetch.wait.max.ms": 2 * REAUTH_MS, "fetch.min.bytes": 1_000_000}
    with monedula.Consumer(settings) as consumer:
        consumer.assign({(name, 0): 0})
        for_long(lambda: consumer.poll(0.5))  # nothing comes
        before = connections_of(consumer)
        written(secured, name, 5)
        assert take(consumer, 5) == 5
        assert connections_of(consumer) == before


def test_a_session_ends_in_a_transaction(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = topic(cluster=secured)
    settings = {**settings_of(secured), "transactional.id": f"of-{name}"}
    with monedula.Producer(settings) as producer:
        sent = 0
        with producer.transaction():

            def step() -> None:
                nonlocal sent
                producer.send(name, b"x").result(TIMEOUT_SECONDS)
                sent += 1
                time.sleep(0.05)

            for_long(step)
    committed = {**secured.client_settings("SASL_SSL"), "isolation.level": "read_committed"}
    # Kafka writes the markers of a transaction after it has answered that it is committed.
    eventually("all", lambda: sum(batch.num_rows for batch in monedula.read(committed, name)) == sent)


def test_sessions_end_while_a_group_rebalances(secured: SecuredKafka, topic: TopicFactory) -> None:
    """A JoinGroup waits at the coordinator for a member that does not poll, for longer than a session lasts."""
    name = topic(4, cluster=secured)
    group = {"group.id": f"of-{name}", "auto.offset.reset": "earliest", "max.poll.interval.ms": 30_000}
    settings = {**settings_of(secured), **group}
    with monedula.Consumer(settings, [name]) as first:
        for partition in range(4):
            written(secured, name, 10, partition)
        assert take(first, 40) == 40
        first.commit()
        read: list[int] = []
        is_done = threading.Event()

        def join() -> None:
            with monedula.Consumer(settings, [name]) as second:
                while not is_done.is_set():
                    read.append(second.poll(0.2).num_rows)

        thread = threading.Thread(target=join)
        thread.start()
        try:
            threading.Event().wait(ENDS)  # the first member holds the rebalance up
            for partition in range(4):
                written(secured, name, 10, partition)
            rows = 0
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while rows + sum(read) < 40:
                assert time.monotonic() < deadline, f"{rows}, {sum(read)}: {first.health()}"
                rows += first.poll(0.2).num_rows
                first.commit()
            assert sum(read) > 0
        finally:
            is_done.set()
            thread.join()


def test_sessions_end_while_nothing_is_acknowledged(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = topic(cluster=secured)
    settings = {**settings_of(secured), "acks": 0, "enable.idempotence": False}
    with monedula.Producer(settings) as producer:
        sent = 0

        def step() -> None:
            nonlocal sent
            producer.send(name, b"x").result(TIMEOUT_SECONDS)
            sent += 1
            time.sleep(0.01)

        step()
        before = connections_of(producer)
        for_long(step)
        producer.flush(TIMEOUT_SECONDS)
        assert connections_of(producer) == before
    (end,) = (end for _, end in secured.helper.offsets(name).values())
    assert end == sent


def test_a_token_that_ends_before_the_session(secured: SecuredKafka, topic: TopicFactory) -> None:
    """The broker ends the session with the token; the client has another one by then."""
    name = topic(cluster=secured)
    asked: list[float] = []

    def token(_settings: object) -> tuple[str, float]:
        asked.append(time.time())
        return secured.signer.token(ANNA.name, lifetime_seconds=4), time.time() + 4

    settings = {**secured.client_settings("SASL_SSL", "OAUTHBEARER", names="librdkafka"), "oauth_cb": token}
    refresh = {"sasl.login.refresh.min.period.seconds": 1, "sasl.login.refresh.buffer.seconds": 1}
    with monedula.Producer({**settings, **refresh, **QUICK}) as producer:
        for_long(lambda: producer.send(name, b"x").result(TIMEOUT_SECONDS))
    assert len(asked) > 1


def test_a_password_that_is_changed_is_reported_when_the_session_ends(
    secured: SecuredKafka, topic: TopicFactory
) -> None:
    name = topic(cluster=secured)
    user = User("changing", "first-secret")
    secured.set_password(user, user.password)
    secured.allow(user, "ALL", "TOPIC", name)
    settings = {**secured.client_settings("REAUTH", "SCRAM-SHA-256", user), **QUICK}
    with monedula.Producer(settings) as producer:
        producer.send(name, b"x").result(TIMEOUT_SECONDS)
        secured.set_password(user, "second-secret")
        with pytest.raises(monedula.errors.AuthenticationError, match="changing") as raised:
            for_long(lambda: producer.send(name, b"x").result(TIMEOUT_SECONDS))
        assert "first-secret" not in str(raised.value)
    assert produce(secured.client_settings("REAUTH", "SCRAM-SHA-256", User(user.name, "second-secret")), name) > 0


def test_a_certificate_of_the_server_changes_while_reading(secured: SecuredKafka, topic: TopicFactory) -> None:
    """Connections stay; new ones see the new certificate, and take it."""
    name = topic(cluster=secured)
    settings = {**secured.client_settings("CHANGING"), **QUICK}
    try:
        with monedula.Consumer(settings) as consumer:
            consumer.assign({(name, 0): 0})
            written(secured, name, 1)
            take(consumer, 1)
            secured.show_certificate(secured.certificates.rsa_server)
            written(secured, name, 1)
            take(consumer, 1)
            assert produce(settings, name) == 2
    finally:
        secured.show_certificate(secured.certificates.server)


def test_a_certificate_of_the_client_changes_on_disk(
    secured: SecuredKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """The next connection shows it."""
    name = topic(cluster=secured)
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"

    def install(user: str) -> None:
        issued = secured.certificates.client(user)
        key.write_text(issued.key_pem)
        chain.write_text(issued.chain_pem)

    install("boris")
    settings = secured.client_settings("SSL_REQUIRED", names="librdkafka")
    settings |= {"ssl.certificate.location": str(chain), "ssl.key.location": str(key), **QUICK}
    with monedula.Producer(settings) as producer:
        with pytest.raises(monedula.errors.AuthorizationError):
            producer.send(name, b"x").result(TIMEOUT_SECONDS)
        install("anna")
        secured.restart(1)
        assert producer.send(name, b"x").result(TIMEOUT_SECONDS).offset == 0


def test_clients_log_in_again_when_a_broker_restarts(secured: SecuredKafka, topic: TopicFactory) -> None:
    name = topic(cluster=secured)
    settings = {
        **secured.client_settings("SASL_SSL"),
        **QUICK,
        "group.id": f"of-{name}",
        "auto.offset.reset": "earliest",
    }
    with (
        monedula.Producer({**secured.client_settings("SASL_SSL"), **QUICK}) as producer,
        monedula.Consumer(settings, [name]) as consumer,
    ):
        producer.send(name, b"x").result(TIMEOUT_SECONDS)
        take(consumer, 1)
        secured.restart(1)
        producer.send(name, b"x").result(TIMEOUT_SECONDS)
        take(consumer, 1)


def test_three_nodes(secured3: SecuredKafka, topic: TopicFactory) -> None:
    """Each connection logs in, also those to brokers that only metadata names, and after one is killed."""
    name = topic(6, cluster=secured3, replication=3)
    settings = {**secured3.client_settings("SASL_SSL"), **QUICK}
    group = {"group.id": f"of-{name}", "auto.offset.reset": "earliest", "session.timeout.ms": 6000}
    with monedula.Producer(settings) as producer, monedula.Consumer({**settings, **group}, [name]) as consumer:

        def send() -> None:
            for partition in range(6):
                producer.send(name, b"x", partition=partition).result(TIMEOUT_SECONDS)

        send()
        take(consumer, 6)
        secured3.kill(2)
        try:
            send()
            take(consumer, 6)
        finally:
            secured3.start(2)
