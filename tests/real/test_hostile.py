"""Listeners that are no brokers: silent, or with frames that must not be believed."""

import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import monedula
import pytest

from tests.real.reading import consumer

TIMEOUT_SECONDS = 20.0
MEMORY_SLACK_BYTES = 100 << 20


class Listener:
    """Accepts connections, and answers every request with what `answer` makes of it; `None` for silence."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while request := connection.recv(65536):
                answer = self._answer(request)
                if answer is not None:
                    connection.sendall(answer)
        except OSError:
            pass
        finally:
            connection.close()


@pytest.fixture
def listen() -> Iterator[Callable[[Callable[[bytes], bytes | None]], Listener]]:
    """A factory of listeners."""
    listeners: list[Listener] = []

    def start(answer: Callable[[bytes], bytes | None]) -> Listener:
        listeners.append(Listener(answer))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.close()


def expect_unreachable(address: str) -> str:
    return expect_error(address, monedula.errors.BrokerConnectionError)


def expect_error(address: str, kind: type[monedula.KafkaError]) -> str:
    """The error that a consumer raises before its timeout, which raises nothing, and with little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with consumer(address, bootstrap_timeout_ms=1500, request_timeout_ms=400, fetch_max_wait_ms=100) as reader:
        reader.assign("any")
        with pytest.raises(kind) as raised:
            reader.poll(TIMEOUT_SECONDS)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < before + MEMORY_SLACK_BYTES
    return str(raised.value)


Listen = Callable[[Callable[[bytes], bytes | None]], Listener]


def correlation_id(request: bytes) -> bytes:
    return request[8:12]


def test_a_broker_that_never_answers_is_an_error_that_says_so(listen: Listen) -> None:
    listener = listen(lambda _: None)
    message = expect_unreachable(listener.address)
    assert listener.address in message
    assert "400" in message or "0.4" in message, message


GARBAGE = {
    "a huge length": struct.pack(">i", 2**31 - 1) + b"\0" * 64,
    "a negative length": struct.pack(">i", -1) + b"\0" * 64,
    "a length of zero": struct.pack(">i", 0) * 16,
    "the cap, and then nothing": struct.pack(">i", (256 << 20) - 1) + b"\0" * 64,
}
HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_frames_of_impossible_lengths_are_errors_that_name_the_address(listen: Listen, garbage: bytes) -> None:
    listener = listen(lambda _: garbage)
    assert listener.address in expect_unreachable(listener.address)


def test_a_server_of_another_protocol_is_a_wrong_setting_that_names_the_address(listen: Listen) -> None:
    address = listen(lambda _: HTTP).address
    assert address in expect_error(address, monedula.ConfigError)


def test_another_correlation_id_closes_the_connection(listen: Listen) -> None:
    listener = listen(lambda _: struct.pack(">ii", 4, 12345))
    message = expect_unreachable(listener.address)
    assert "12345" in message
    assert listener.accepted > 1


def test_a_body_that_is_no_answer_is_an_error(listen: Listen) -> None:
    def answer(request: bytes) -> bytes:
        body = correlation_id(request) + b"\0\0" + b"\xff" * 40
        return struct.pack(">i", len(body)) + body

    assert expect_unreachable(listen(answer).address)


def test_an_array_that_claims_billions_of_entries_is_an_error(listen: Listen) -> None:
    def answer(request: bytes) -> bytes:
        # A compact array of 2**28 - 1 entries in an ApiVersions answer of version 3 and newer.
        body = correlation_id(request) + b"\0\0" + b"\xff\xff\xff\x7f" + b"\0" * 40
        return struct.pack(">i", len(body)) + body

    assert expect_unreachable(listen(answer).address)


def test_a_broker_that_hangs_up_at_once_is_not_called_in_a_spin(listen: Listen) -> None:
    def hang_up(_: bytes) -> bytes:
        raise OSError

    listener = listen(hang_up)
    expect_unreachable(listener.address)
    assert 1 < listener.accepted < 60
