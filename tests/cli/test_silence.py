"""Commands that run until Ctrl-C say for how long no broker has answered."""

import re
import signal
from collections.abc import Callable

import monedula
import pytest
from monedula.testing import Broker

from tests.cli.processes import Terminal, running

Way = Callable[[Broker], object]


def stop(broker: Broker) -> None:
    broker.stop_node(1)


def swallow(broker: Broker) -> None:
    broker.fault(black_hole="both")


@pytest.fixture
def broker() -> Broker:
    return Broker(topics={"orders": 1})


@pytest.mark.parametrize("way", [stop, swallow])
def test_a_picture_of_lag_says_that_it_is_old(broker: Broker, way: Way, terminal: Callable[..., Terminal]) -> None:
    with broker:
        broker.append("orders", ["a"] * 7)
        with monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl"}) as consumer:
            consumer.commit({("orders", 0): 0})
        servers = broker.bootstrap_servers
        screen = terminal("groups", "lag", "etl", "--watch", "--interval", "0.1", servers=servers)
        screen.until("7 behind")
        way(broker)
        screen.until("no answer for 3 s")
        assert "7 behind" in screen.text
        broker.remove_faults()
        if way is stop:
            broker.start_node(1)
        broker.append("orders", ["a"])
        screen.until("8 behind")
        screen.interrupt()
        assert screen.end() == 130


@pytest.mark.parametrize("way", [stop, swallow])
def test_a_reader_that_follows_says_that_no_broker_answers(broker: Broker, way: Way) -> None:
    with broker:
        broker.append("orders", ["a"])
        command = ("consume", "orders", "--from", "-1", "--follow")
        with running(*command, servers=broker.bootstrap_servers) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"a\n"
            way(broker)
            said = b""
            while b"no answer for" not in said:
                said = process.stderr.readline()
            assert re.search(rb"no answer for 1[2-9] s: .*127\.0\.0\.1:\d+", said)
            broker.remove_faults()
            if way is stop:
                broker.start_node(1)
            broker.append("orders", ["b"])
            assert process.stdout.readline() == b"b\n"
            while b"answer again" not in said:
                said = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
