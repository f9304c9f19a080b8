"""A client whose security.protocol is not that of the port: which setting is wrong is said at once."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import monedula
import pytest
from monedula.testing import Broker
from monedula.testing.security import Protocols

Settings = dict[str, Any]
NEVER_MS = 600_000
SHORT = {"request.timeout.ms": 1500, "delivery.timeout.ms": 2000}
PROTOCOLS: tuple[str, ...] = get_args(Protocols)


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, Broker]]:
    """One for each protocol."""
    started: dict[str, Broker] = {}
    try:
        for protocol in PROTOCOLS:
            users = {"anna": "right"} if protocol.startswith("SASL") else None
            started[protocol] = Broker(security=protocol, users=users, topics={"orders": 1})  # type: ignore[arg-type]
        yield started
    finally:
        for broker in started.values():
            broker.stop()


def admin(settings: Settings) -> object:
    with monedula.Admin(settings) as client:
        return client.list_topics()


def consumer(settings: Settings) -> object:
    with monedula.Consumer(settings) as client:
        client.assign({("orders", 0): 0})
        return client.poll(60.0)


def member(settings: Settings) -> object:
    with monedula.Consumer({**settings, "group.id": "g"}, ["orders"]) as client:
        return client.poll(60.0)


def producer(settings: Settings) -> object:
    with monedula.Producer(settings) as client:
        return client.send("orders", b"x").result(60.0)


CLIENTS = {"admin": admin, "consumer": consumer, "member": member, "producer": producer}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("port", PROTOCOLS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_of_another_protocol_fails_at_once(
    brokers: dict[str, Broker], protocol: str, port: str, client: str
) -> None:
    if protocol == port:
        pytest.skip("the right one")
    user = "anna" if protocol.startswith("SASL") else None
    settings: Settings = {
        **brokers[protocol].client_settings(user),
        "bootstrap.servers": brokers[port].bootstrap_servers,
        "bootstrap.timeout.ms": NEVER_MS,
    }
    if protocol.endswith("SSL") and port.endswith("SSL"):
        settings["ssl.ca.pem"] = brokers[port].ca_pem
    with pytest.raises((monedula.ConfigError, monedula.errors.AuthenticationError)) as raised:
        CLIENTS[client](settings)
    error = raised.value
    assert brokers[port].bootstrap_servers in str(error)
    assert "security.protocol" in str(error)
    assert port in str(error) or port.removeprefix("SASL_") in str(error)
    # The broker refuses a login on a listener without SASL.
    is_refused = protocol.startswith("SASL") and not port.startswith("SASL") and protocol[5:] == port
    assert isinstance(error, monedula.errors.AuthenticationError) == is_refused
    if isinstance(error, monedula.ConfigError):
        assert error.key == "security.protocol"
        assert not error.retriable


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """The address of a server that answers whatever comes, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(16)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_an_http_server_is_an_error_at_once(protocol: str, client: Callable[[Settings], object]) -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n") as address:
        settings = {"bootstrap.servers": address, "security.protocol": protocol, "bootstrap.timeout.ms": NEVER_MS}
        settings |= {"enable.ssl.certificate.verification": "false"} if protocol == "SSL" else {}
        with pytest.raises(monedula.ConfigError, match="an HTTP server") as raised:
            client(settings)
        assert raised.value.key == "bootstrap.servers"
        assert address in str(raised.value)


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_port_that_closes_at_once_may_be_a_broker_that_starts(
    protocol: str, client: Callable[[Settings], object]
) -> None:
    """So it is tried again until `bootstrap.timeout.ms`; the error names what may be wrong."""
    with answering(b"") as address:
        settings = {
            "bootstrap.servers": address,
            "security.protocol": protocol,
            "bootstrap.timeout.ms": 3_000,
            "max.block.ms": 3_000,
        }
        settings |= {"enable.ssl.certificate.verification": "false"} if protocol == "SSL" else {}
        with pytest.raises(monedula.errors.BrokerConnectionError, match=r"security\.protocol") as raised:
            client(settings)
        assert raised.value.retriable
        assert address in str(raised.value)
