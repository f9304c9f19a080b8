"""Addresses that are dead, connections that idle, brokers that move to other ports, several consumers at once."""

import logging
import re
import socket
import threading

import monedula
import pytest

from tests.conftest import TopicFactory
from tests.interop.process import eventually
from tests.kafka import KafkaCluster
from tests.real.reading import consumer, offsets, poll_until, take, values


def dead_address() -> str:
    """An address that refuses connections."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.req("S094")
def test_dead_bootstrap_addresses_are_passed_over(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": "x"}])
    with consumer(f"{dead_address()},{dead_address()},{kafka.bootstrap}") as reader:
        reader.assign(name)
        assert values(take(reader, 1)) == [b"x"]


@pytest.mark.req("S094")
def test_none_but_dead_addresses_are_an_error_that_names_each() -> None:
    first, second = dead_address(), dead_address()
    with consumer(f"{first},{second}", bootstrap_timeout_ms=500) as reader:
        reader.assign("any")
        for _ in range(2):
            with pytest.raises(monedula.errors.BrokerConnectionError) as raised:
                poll_until(reader, lambda: False)
            assert first in str(raised.value)
            assert second in str(raised.value)


@pytest.mark.req("S094")
def test_the_next_address_is_tried_at_once_and_each_of_them_again_after_a_growing_delay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = dead_address(), dead_address()
    settings = {"bootstrap_timeout_ms": 3000, "reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 400}
    with (
        caplog.at_level(logging.DEBUG, logger="monedula"),
        consumer(f"{first},{second}", **settings) as reader,
    ):
        reader.assign("any")
        with pytest.raises(monedula.errors.BrokerConnectionError):
            poll_until(reader, lambda: False)
    # After the end: until then more attempts are made.
    failed = reader.metrics()["connections_failed"]
    # Clients of other tests may be connecting still.
    own = re.compile(rf"(?:connecting to )?(?:{re.escape(first)}|{re.escape(second)})\b")

    def lines() -> list[str]:
        return [line for line in caplog.messages if own.match(line)]

    eventually("each attempt is told of", lambda: "".join(lines()).count("; attempt ") == failed)
    begun = [line.removeprefix("connecting to ") for line in lines() if line.startswith("connecting to ")]
    assert set(begun[:2]) == {first, second}, "none is tried twice before all were tried once"
    failure = re.compile(r"(\S+): Connection refused .*; attempt (\d+), next in (\d+) ms at the earliest")
    failures = [found.groups() for line in lines() if (found := failure.match(line))]
    assert len(failures) == failed
    for address in (first, second):
        delays = [(int(attempt), int(delay_ms)) for at, attempt, delay_ms in failures if at == address]
        assert [attempt for attempt, _ in delays] == list(range(1, len(delays) + 1))
        # Twice as long each time, a fifth more or less: 10, 20, 40 ms and so on, up to the most.
        expected_ms = [min(10 * 2**attempt, 400) for attempt in range(len(delays))]
        assert all(
            expected * 0.79 <= delay <= expected * 1.21
            for (_, delay), expected in zip(delays, expected_ms, strict=True)
        ), delays
        assert len(delays) > 3
        # A busy machine makes it fewer. Without growing, it would be hundreds.
        assert len(delays) <= 18, delays


def test_idle_connections_are_closed_and_made_again(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": "x"}])
    with consumer(kafka.bootstrap, connections_max_idle_ms=300) as reader:
        reader.assign(name)
        take(reader, 1)
        reader.pause((name, 0))
        poll_until(reader, lambda: reader.health()["connections"] == 0)
        opened = reader.metrics()["connections_opened"]
        kafka.helper.produce(name, [{"value": "y"}])
        reader.resume((name, 0))
        assert values(take(reader, 1)) == [b"y"]
        assert reader.metrics()["connections_opened"] > opened


class Forwarder:
    """A bootstrap address that leads to whatever broker it is told to."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            try:
                outer = socket.create_connection(self.target)
            except OSError:
                inner.close()
                continue
            for source, sink in ((inner, outer), (outer, inner)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    finally:
        for end in (source, sink):
            end.close()


@pytest.mark.jvm
@pytest.mark.timeout(240)
def test_brokers_replaced_by_others_are_found_through_the_bootstrap_addresses() -> None:
    with KafkaCluster() as second:
        with KafkaCluster() as first:
            for cluster, word in ((first, "first"), (second, "second")):
                cluster.helper.create_topic("moved")
                cluster.helper.produce("moved", [{"value": word}])
            forwarder = Forwarder(("127.0.0.1", first.nodes[1].port))
            reader = consumer(forwarder.address, metadata_max_age_ms=500)
            reader.assign({("moved", 0): 0})
            assert values(take(reader, 1)) == [b"first"]
            forwarder.target = ("127.0.0.1", second.nodes[1].port)
        with reader:
            # The other cluster's topic has another id: an error, not a jump, and a seek goes on there.
            with pytest.raises(monedula.errors.TopicRecreatedError):
                poll_until(reader, lambda: False)
            reader.seek(("moved", 0), 0)
            assert values(take(reader, 1)) == [b"second"]
    forwarder.close()


def test_three_consumers_in_one_process_each_read_everything(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(partitions=3)
    kafka.helper.produce(name, [{"value": str(number), "partition": number % 3} for number in range(300)])
    found: dict[int, list[int]] = {}

    def read(number: int) -> None:
        with consumer(kafka.bootstrap) as reader:
            reader.assign(name)
            found[number] = sorted(offsets(take(reader, 300)))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: sorted(list(range(100)) * 3) for number in range(3)}
