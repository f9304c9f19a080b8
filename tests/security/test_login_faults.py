"""What goes wrong with logging in on demand of the embedded broker: what clients say, and what they survive."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import monedula
import pytest
from monedula import KafkaError
from monedula.errors import AuthenticationError
from monedula.testing import Broker
from monedula.testing.security import Flaw

PATIENCE_SECONDS = 60.0
QUICKLY_GIVEN_UP = {"socket.connection.setup.timeout.ms": 300}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(security="SASL_SSL", users={"anna": "secret"}, topics={"orders": 1}) as made:
        yield made


def settings(broker: Broker, more: Mapping[str, object] | None = None) -> dict[str, Any]:
    quick = {"reconnect.backoff.max.ms": 100, "retry.backoff.max.ms": 100}
    return {**broker.client_settings("anna"), **quick, **(more or {})}


def ask(broker: Broker, more: Mapping[str, object] | None = None, *, timeout: float = PATIENCE_SECONDS) -> None:
    with monedula.Admin(settings(broker, more)) as admin:
        assert admin.describe_cluster(timeout=timeout).nodes


@pytest.mark.parametrize("lie", ["wrong_signature", "no_signature", "foreign_nonce"])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_broker_that_does_not_know_the_password_is_refused_whatever_else_it_says(
    broker: Broker, lie: Literal["wrong_signature", "no_signature", "foreign_nonce"], mechanism: str
) -> None:
    fault = broker.fault(api="SaslAuthenticate", scram=lie)
    with pytest.raises(AuthenticationError, match=mechanism):
        ask(broker, {"sasl.mechanism": mechanism})
    assert fault.hits > 0
    fault.remove()
    ask(broker, {"sasl.mechanism": mechanism})


@pytest.mark.parametrize("iterations", [1, 4095, 1_000_001, 2**31 - 1])
def test_a_number_of_iterations_that_is_no_sign_of_good_will_is_refused(broker: Broker, iterations: int) -> None:
    broker.fault(api="SaslAuthenticate", scram_iterations=iterations)
    with pytest.raises(AuthenticationError, match=f"{iterations}"):
        ask(broker)


@pytest.mark.parametrize("flaw", [flaw for flaw in get_args(Flaw) if flaw != "none"])
def test_a_wrong_certificate_is_refused(broker: Broker, flaw: Flaw) -> None:
    broker.show_certificate(flaw)
    with pytest.raises(AuthenticationError, match="certificate"):
        ask(broker)
    broker.show_certificate()
    ask(broker)


@pytest.mark.parametrize(
    ("api", "told"), [("ApiVersions", "ApiVersions"), ("SaslHandshake", "login"), ("SaslAuthenticate", "login")]
)
def test_a_login_that_stalls_is_given_up_and_tried_again(broker: Broker, api: str, told: str) -> None:
    stalled = broker.fault(api=api, hold=True)
    with pytest.raises(KafkaError, match=told) as raised:
        ask(broker, QUICKLY_GIVEN_UP, timeout=3.0)
    assert not isinstance(raised.value, AuthenticationError)
    assert stalled.hits > 1, "one attempt does not take all of the time"
    stalled.remove()
    ask(broker)


def test_a_broker_that_says_nothing_at_all_is_given_up(broker: Broker) -> None:
    broker.stay_silent()
    with pytest.raises(KafkaError, match="TLS handshake"):
        ask(broker, QUICKLY_GIVEN_UP, timeout=3.0)
    broker.stay_silent(False)
    ask(broker)


def test_a_client_whose_session_ended_logs_in_anew_and_reads_on(broker: Broker) -> None:
    broker.append("orders", ["a"])
    with monedula.Consumer(settings(broker, {"auto.offset.reset": "earliest"})) as consumer:
        consumer.assign("orders")
        assert read(consumer) == 1
        logins = broker.observe(api="SaslHandshake")
        assert broker.expire_sessions("anna") > 0
        # The fetch in flight is answered; the next one comes after the end of the session.
        broker.append("orders", ["b"])
        assert read(consumer) == 1
        assert logins.wait(1, timeout=PATIENCE_SECONDS) >= 1
        broker.append("orders", ["c"])
        assert read(consumer) == 1


def test_a_client_whose_session_ended_hears_that_its_password_was_changed(broker: Broker) -> None:
    with monedula.Admin(settings(broker)) as admin:
        assert admin.describe_cluster().nodes
        broker.set_password("anna", "another")
        broker.expire_sessions()
        with pytest.raises(AuthenticationError, match="SCRAM-SHA-512"):
            admin.describe_cluster(timeout=PATIENCE_SECONDS)


def read(consumer: monedula.Consumer) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS
    rows = 0
    while not rows:
        assert time.monotonic() < deadline, consumer.health()
        rows = consumer.poll(timeout=0.2).num_rows
    return rows


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_to_commit_nothing_is_an_error_once_the_membership_ended_with_one(protocol: str) -> None:
    with Broker(
        security="SASL_PLAINTEXT", users={"anna": "secret"}, max_reauth_ms=1000, topics={"orders": 1}
    ) as broker:
        broker.append("orders", ["a"] * 5)
        group = {"group.id": "etl", "group.protocol": protocol, "auto.offset.reset": "earliest"}
        with monedula.Consumer(settings(broker, group), topics=["orders"]) as consumer:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not (batch := consumer.poll(timeout=1.0)):
                assert time.monotonic() < deadline
            broker.set_password("anna", "another")
            while consumer.assignment():
                assert time.monotonic() < deadline
                consumer.keep_alive()
                time.sleep(0.02)
            with pytest.raises(AuthenticationError):
                consumer.commit()
            with pytest.raises(AuthenticationError):
                consumer.commit(batch)
