"""`monedula.testing.Broker`: start and stop, topics and records, nodes, what it tells of itself."""

import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula.errors import ArgumentError, BrokerCommandError, BrokerStartError, ClosedError, ConfigError
from monedula.testing import Broker


def read(broker: Broker, topic: str) -> pa.Table:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    return pa.table(monedula.read(settings, topic, headers=True)).sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )


def connect(broker: Broker, node: int = 1) -> socket.socket:
    host, port = broker.addresses[node].split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_topics_are_there_from_the_start() -> None:
    with Broker(topics={"orders": 3}) as one, Broker(topics=["events:2", "plain"]) as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        assert one.bootstrap_servers.startswith("127.0.0.1:")
        assert read(one, "orders").num_rows == 0
        assert list(other.append("events", ["a"], partition=1)) == [0]
        with pytest.raises(BrokerCommandError, match="plain-1"):
            other.append("plain", ["a"], partition=1)


def test_records_come_back_as_they_were_appended() -> None:
    with Broker(topics=["orders"]) as broker:
        when = datetime(2024, 5, 1, tzinfo=UTC)
        assert broker.append("orders", ["a", b"b", None], timestamps=when, headers={"h": b"1"}) == range(3)
        assert broker.append("orders", [("k", "c"), (None, None)], timestamps=[1, 2], compression="zstd") == range(3, 5)
        table = read(broker, "orders")
        assert table["value"].to_pylist() == [b"a", b"b", None, b"c", None]
        assert table["key"].to_pylist() == [None, None, None, b"k", None]
        assert table["timestamp"].cast(pa.int64()).to_pylist() == [1714521600000000] * 3 + [1000, 2000]
        assert table["headers"].to_pylist()[0] == [{"key": "h", "value": b"1"}]
        # A table that was read can be appended as it is, with all its columns.
        assert broker.append("orders", table) == range(5, 10)
        again = read(broker, "orders").slice(5).drop_columns(["offset"])
        assert again.equals(table.drop_columns(["offset"]))


def test_many_records_take_several_batches() -> None:
    with Broker(topics=["orders"]) as broker:
        values = [str(number) * 10 for number in range(200_000)]
        assert broker.append("orders", values) == range(200_000)
        assert read(broker, "orders")["value"].to_pylist() == [value.encode() for value in values]


@pytest.mark.parametrize(
    ("records", "options", "problem"),
    [
        ("text", {}, "as a list of values"),
        ([1], {}, "bytes, str or None, not int"),
        ([("a", "b", "c")], {}, r"\(key, value\) pair"),
        (["a"], {"timestamps": [1, 2]}, "2 timestamps for 1 record"),
        (pa.table({"key": [b"a"]}), {}, "column `value`"),
    ],
)
def test_records_of_another_kind_are_refused(records: object, options: dict[str, object], problem: str) -> None:
    with Broker(topics=["orders"]) as broker, pytest.raises(ArgumentError, match=problem):
        broker.append("orders", records, **options)  # type: ignore[arg-type]


def test_a_log_is_shortened_at_both_ends_and_compacted() -> None:
    with Broker() as broker:
        broker.create_topic("orders", 1, config={"cleanup.policy": "compact"})
        broker.append("orders", [("a", "1"), ("b", "1"), ("a", "2"), ("b", "2"), ("a", "3")])
        broker.truncate("orders", 0, 4)
        broker.compact("orders")
        assert read(broker, "orders")["offset"].to_pylist() == [2, 3]
        broker.delete_records("orders", 0, 3)
        assert read(broker, "orders")["offset"].to_pylist() == [3]
        reason = r"^orders-0: OFFSET_OUT_OF_RANGE \(1\): the offset is outside the partition's log$"
        with pytest.raises(BrokerCommandError, match=reason):
            broker.delete_records("orders", 0, 99)
        with pytest.raises(BrokerCommandError, match=reason):
            broker.truncate("orders", 0, 99)


def test_a_manual_clock_moves_when_it_is_advanced() -> None:
    with Broker(clock="manual", settings={"log.retention.check.interval.ms": 1000}) as broker:
        broker.create_topic("orders", 1, config={"retention.ms": 60_000, "segment.ms": 1000})
        broker.append("orders", ["old"])
        broker.advance(120)
        broker.append("orders", ["new"])
        broker.advance(2)
        assert read(broker, "orders")["value"].to_pylist() == [b"new"]
    with Broker() as broker, pytest.raises(BrokerCommandError, match='clock="manual"'):
        broker.advance(1)


def test_topics_change() -> None:
    with Broker(nodes=2) as broker:
        assert len(broker.create_topic("orders", 1, replicas=2)) == 22
        broker.add_partitions("orders", 3)
        broker.append("orders", ["a"], partition=2)
        broker.delete_topic("orders")
        commands: list[tuple[Callable[[], object], str]] = [
            (lambda: broker.delete_topic("orders"), "no topic orders"),
            (lambda: broker.add_partitions("orders", 4), "no topic orders"),
            (lambda: broker.create_topic("a b"), "ASCII alphanumerics"),
            (lambda: broker.create_topic("orders", 0), "0 partitions"),
            (lambda: broker.create_topic("orders", 1, replicas=3), "3 replicas, but 2 nodes"),
            (lambda: broker.create_topic("orders", 1, config={"retention.ms": "x"}), "retention.ms"),
        ]
        for command, problem in commands:
            with pytest.raises(BrokerCommandError, match=problem):
                command()


def test_nodes_stop_start_lead_and_have_racks() -> None:
    with Broker(nodes=2, racks=["a", "b"]) as broker:
        broker.create_topic("orders", 1, replicas=2)
        broker.append("orders", ["a"])
        assert broker.move_leader("orders", 0, 2) == 1
        broker.stop_node(2)
        with pytest.raises(OSError, match="refused"):
            connect(broker, 2)
        assert read(broker, "orders").num_rows == 1
        broker.start_node(2)
        connect(broker, 2).close()
        broker.set_isr("orders", 0, [1])
        broker.set_rack(2, "c")
        broker.move_coordinator(2, group="g")
        assert broker.group("g").coordinator == 2
        commands: list[tuple[Callable[[], object], str]] = [
            (lambda: broker.stop_node(3), "no node 3; there are 1, 2"),
            (lambda: broker.start_node(1), "runs already"),
            (lambda: broker.set_isr("orders", 0, [2]), "leader is always in sync"),
            (lambda: broker.move_coordinator(1), "either a group or a transactional id"),
        ]
        for command, problem in commands:
            with pytest.raises(BrokerCommandError, match=problem):
                command()


def test_locks_of_a_share_group_without_any_are_none() -> None:
    with Broker() as broker:
        assert broker.expire_locks("jobs") == 0


def test_what_is_wrong_at_the_start_is_reported() -> None:
    with Broker() as broker:
        port = int(broker.bootstrap_servers.split(":")[1])
        with pytest.raises(BrokerStartError, match=f"cannot listen on 127.0.0.1:{port}"):
            Broker(port=port)
    for options, problem in [
        ({"topics": ["a:b"]}, "name:partitions"),
        ({"topics": [("a", 3)]}, r"topics: \('a', 3\) is no topic's name"),
        ({"settings": {"num.partition": 1}}, "perhaps num.partitions"),
        ({"settings": {"num.partitions": "many"}}, "not a number"),
        ({"max_versions": {"Fetsh": 1}}, "no API Fetsh"),
        ({"nodes": 0}, "nodes=0: expected a whole number of nodes, from 1 to 65535"),
        ({"nodes": "2"}, "nodes='2': expected a whole number of nodes"),
        ({"nodes": 2.5}, "nodes=2.5: expected a whole number of nodes"),
        ({"port": 70_000}, "port=70000: expected a port, a whole number, from 0 to 65535"),
        ({"port": -1}, "port=-1: expected a port"),
        ({"control_port": "x"}, "control_port='x': expected a port"),
        ({"seed": "x"}, "seed='x': expected a whole number, 0 or more"),
        ({"max_reauth_ms": "x"}, "max_reauth_ms='x': expected a whole number of milliseconds, 0 or more"),
        ({"host": 3}, "host=3: expected a text such as '127.0.0.1'"),
        ({"client_metrics": "x"}, "client_metrics='x': expected True or False"),
        ({"racks": [1]}, r'racks: 1 is no text; expected \["rack-1"\]'),
        ({"max_versions": {"Fetch": "x"}}, "max_versions: 'Fetch': 'x': expected the number of a version"),
        ({"topics": 3}, "topics=3: expected"),
        ({"topics": {3: 1}}, "topics: 3 is no topic's name"),
        ({"data_dir": 3}, "data_dir=3: expected the path of a directory"),
        ({"clock": "sundial"}, "sundial"),
    ]:
        with pytest.raises(ConfigError, match=problem):
            Broker(**options)  # type: ignore[arg-type]


def test_an_unknown_command_is_an_argument_error() -> None:
    with Broker() as broker, pytest.raises(ArgumentError, match="unknown variant `explode`"):
        broker.control("explode")


def test_a_stopped_broker_says_so() -> None:
    broker = Broker(topics=["orders"])
    connection = connect(broker)
    connection.sendall(bytes.fromhex("0000000a0012000000000007ffff"))  # ApiVersions
    assert connection.recv(1) == b"\0"
    broker.stop()
    while connection.recv(1000):
        pass
    broker.stop()
    with pytest.raises(ClosedError, match="has stopped"):
        broker.append("orders", ["a"])
    with pytest.raises(ClosedError, match="has stopped"), broker:
        pytest.fail("entered")


def test_a_group_is_shown_as_a_client_would_see_it() -> None:
    from confluent_kafka import Consumer

    with Broker(topics={"orders": 2}) as broker:
        broker.append("orders", ["a"])
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "client.id": "me", "enable.auto.commit": False})
        consumer.subscribe(["orders"])
        message = consumer.poll(30)
        assert message is not None
        consumer.commit(message, asynchronous=False)
        (listing,) = broker.groups()
        assert (listing.group, listing.state, listing.type) == ("g", "Stable", "classic")
        group = broker.group("g")
        (member,) = group.members
        assert (member.client_id, member.assignment) == ("me", {"orders": [0, 1]})
        assert group.offsets == {("orders", 0): 1}
        assert "me" in {connection.client_id for connection in broker.connections()}
        consumer.close()
        assert broker.group("g").state == "Empty"


def test_a_share_group_is_shown_with_its_members() -> None:
    """It raised a `TypeError`: a member of a share group is never static."""
    with (
        Broker(topics=["orders"]) as broker,
        monedula.ShareConsumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "client.id": "me"}, ["orders"]
        ) as consumer,
    ):
        while not (consumer.health()["group"] or {}).get("assigned"):
            consumer.poll(timeout=0.1)
        group = broker.group("g")
        (member,) = group.members
        assert (group.type, group.state) == ("share", "Stable")
        assert (member.client_id, member.instance_id) == ("me", None)
        assert (member.assignment, member.subscribed) == ({"orders": [0]}, ("orders",))


def test_the_log_goes_to_logging_with_requests_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="monedula.broker"), Broker(topics=["orders"]) as broker:
        read(broker, "orders")
        assert any(line.message.startswith("node 1: Metadata v") for line in broker.log())
    lines = [record.getMessage() for record in caplog.records if record.name == "monedula.broker"]
    assert any(line.startswith("node 1 listens on") for line in lines)
    assert any("answer to ListOffsets" in line for line in lines)


@pytest.mark.req("S177")
@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 104_857_601])
def test_a_frame_of_a_wrong_length_closes_its_connection_with_a_line_in_the_log(length: int) -> None:
    with Broker(topics=["orders"]) as broker:
        with connect(broker) as other:
            with connect(broker) as sender:
                sender.sendall(struct.pack(">i", length))
                assert sender.recv(1) == b""
            # ApiVersions, version 0, correlation id 7, no client id.
            other.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
            assert struct.unpack(">ii", other.recv(8, socket.MSG_WAITALL))[1] == 7
        (line,) = (line for line in broker.log() if "is closed" in line.message)
        assert str(length) in line.message
        read(broker, "orders")


def test_no_log_line_of_a_request_without_debug() -> None:
    with Broker(topics=["orders"]) as broker:
        read(broker, "orders")
        assert not any("Metadata" in line.message for line in broker.log())


def test_interrupts_end_a_wait() -> None:
    with Broker() as broker:
        observer = broker.observe(api="Fetch")
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            observer.wait(timeout=60)
        timer.join()


def test_others_run_while_one_waits() -> None:
    with Broker() as broker:
        observer = broker.observe(api="Metadata")
        ticks: list[None] = []

        def tick() -> None:
            while not done.is_set():
                ticks.append(None)
                time.sleep(0.001)

        def ticks_during(timeout: float) -> int:
            before = len(ticks)
            with pytest.raises(monedula.KafkaTimeoutError, match="0 hits of 1"):
                observer.wait(timeout=timeout)
            return len(ticks) - before

        done = threading.Event()
        thread = threading.Thread(target=tick)
        thread.start()
        # On a busy machine the other thread gets few turns in a short wait.
        assert any(ticks_during(timeout) > 10 for timeout in (0.2, 2.0, 20.0))
        done.set()
        thread.join()


def test_a_forked_child_is_told_that_the_broker_is_its_parents() -> None:
    code = """
import os, sys, warnings
warnings.simplefilter("ignore")
import monedula
from monedula.testing import Broker
broker = Broker()
pid = os.fork()
if pid == 0:
    try:
        broker.create_topic("orders")
    except monedula.errors.ForkError:
        with Broker(topics=["own"]) as own:  # one of its own works
            own.append("own", ["a"])
        sys.exit(7)
    sys.exit(1)
_, status = os.waitpid(pid, 0)
broker.create_topic("orders")
sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = run(code)
    assert done.returncode == 7, done.stderr


def test_a_broker_that_nobody_stops_keeps_no_process_alive() -> None:
    done = run("from monedula.testing import Broker; broker = Broker(topics=['a']); print(broker.bootstrap_servers)")
    assert (done.returncode, done.stderr) == (0, "")
    host, port = done.stdout.strip().split(":")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), timeout=30)


def test_many_idle_and_busy_connections_are_held() -> None:
    code = """
import socket
import struct
import monedula, pyarrow
from monedula.testing import Broker
with Broker(topics=["orders"]) as broker:
    broker.append("orders", ["a"])
    host, port = broker.bootstrap_servers.split(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(1000)]
    busy = [socket.create_connection((host, int(port))) for _ in range(200)]
    request = bytes.fromhex("0000000a" "0012" "0000" "00000007" "ffff")
    for _ in range(20):
        for connection in busy:
            connection.sendall(request)
        for connection in busy:
            assert connection.recv(8, socket.MSG_WAITALL)[4:] == bytes.fromhex("00000007")
            connection.recv(65536)
    assert len(broker.connections()) == 1200, len(broker.connections())
    assert pyarrow.table(monedula.read({"bootstrap.servers": broker.bootstrap_servers}, "orders")).num_rows == 1
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_a_mapping_is_not_taken_for_its_keys() -> None:
    with (
        Broker(topics=["orders"]) as broker,
        pytest.raises(ArgumentError, match=r"list of values or of .key, value. pairs"),
    ):
        broker.append("orders", {"key": "value"})


@pytest.mark.parametrize("records", [("key", "value"), (b"value",), ("a", ("key", "value"))])
def test_a_single_pair_is_not_taken_for_two_values(records: Any) -> None:
    with Broker(topics=["orders"]) as broker:
        with pytest.raises(ArgumentError, match=r"one pair is given as \[\(key, value\)\]"):
            broker.append("orders", records)
        assert broker.append("orders", [("key", "value")]) == range(1)
        assert broker.append("orders", (("key", "value"), ("key", "other"))) == range(1, 3)
