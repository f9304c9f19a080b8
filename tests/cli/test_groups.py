"""`monedula groups`: states, members, lag, offsets, and moving them."""

import json
import signal
from collections.abc import Callable

import monedula
import pytest
from monedula.testing import Broker

from tests.cli.processes import Terminal, output, problem, running


@pytest.fixture
def servers(broker: Broker) -> str:
    """A broker with `orders`: ten records in each of two partitions; the group `etl` has read three and ten."""
    broker.create_topic("orders", 2)
    for partition in (0, 1):
        broker.append("orders", [str(row) for row in range(10)], partition=partition)
    with monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl"}) as consumer:
        consumer.commit({("orders", 0): 3, ("orders", 1): 10})
    return broker.bootstrap_servers


def member(servers: str, group: str = "etl") -> monedula.Consumer:
    config = {"bootstrap.servers": servers, "group.id": group, "client.id": "reader"}
    # Records that it reads while it joins must not move the group's offsets.
    return monedula.Consumer({**config, "enable.auto.commit": False}, ["orders"])


def offsets(servers: str) -> dict[int, int]:
    rows = [line.split("\t") for line in output("groups", "offsets", "etl", servers=servers).splitlines()]
    return {int(row[1]): int(row[2]) for row in rows}


def test_groups_are_listed_and_described(servers: str) -> None:
    assert output("groups", "list", servers=servers).split("\t")[:3] == ["etl", "Empty", "classic"]
    with member(servers, "live") as consumer:
        assert consumer.poll(0.0) is not None
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
        objects = [json.loads(line) for line in output("groups", "list", "--json", servers=servers).splitlines()]
        assert {row["group"]: row["state"] for row in objects} == {"etl": "Empty", "live": "Stable"}
        only = output("groups", "list", "--state", "Stable", servers=servers)
        assert [line.split("\t")[0] for line in only.splitlines()] == ["live"]
        (described,) = [
            json.loads(line) for line in output("groups", "describe", "live", "--json", servers=servers).splitlines()
        ]
        assert (described["client_id"], described["partitions"]) == ("reader", ["orders-0", "orders-1"])
        assert "live" in problem("groups", "delete", "live", "--yes", servers=servers)
    assert "none" in problem("groups", "describe", "none", servers=servers)


def test_lag_is_reported_by_partition(servers: str) -> None:
    rows = [line.split("\t") for line in output("groups", "lag", "etl", servers=servers).splitlines()]
    assert rows == [["etl", "orders", "0", "3", "10", "7", "", ""], ["etl", "orders", "1", "10", "10", "0", "", ""]]
    objects = [json.loads(line) for line in output("groups", "lag", "etl", "--json", servers=servers).splitlines()]
    assert [row["lag"] for row in objects] == [7, 0]


def test_a_terminal_sees_lag_change(servers: str, broker: Broker, terminal: Callable[..., Terminal]) -> None:
    screen = terminal("groups", "lag", "etl", "--watch", "--interval", "0.1", servers=servers)
    screen.until("etl: Empty, 7 behind")
    broker.append("orders", ["more"] * 5, partition=0)
    screen.until("12 behind")
    with monedula.Consumer({"bootstrap.servers": servers, "group.id": "etl"}) as consumer:
        consumer.commit({("orders", 0): 15})
    screen.until("etl: Empty, 0 behind")
    screen.interrupt()
    assert screen.end() == 130
    assert "Traceback" not in screen.text


def test_a_pipe_gets_lag_as_rows_with_the_time(servers: str, broker: Broker) -> None:
    with running("groups", "lag", "etl", "--watch", "--interval", "0.1", "--json", servers=servers) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        row = json.loads(process.stdout.readline())
        assert (row["partition"], row["lag"]) == (0, 7)
        assert row["time"].startswith("20")
        broker.append("orders", ["more"], partition=0)
        while json.loads(process.stdout.readline())["lag"] != 8:
            pass
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (130, b"")


def test_offsets_are_moved(servers: str) -> None:
    def reset(*options: str) -> dict[int, int]:
        output("groups", "reset", "etl", *options, "--yes", servers=servers)
        return offsets(servers)

    plan = output("groups", "reset", "etl", "--to", "earliest", "--dry-run", servers=servers)
    assert [line.split("\t") for line in plan.splitlines()] == [["orders", "0", "3", "0"], ["orders", "1", "10", "0"]]
    assert offsets(servers) == {0: 3, 1: 10}
    assert reset("--shift", "-2") == {0: 1, 1: 8}
    assert reset("--to", "latest", "--topic", "orders", "--partition", "0") == {0: 10, 1: 8}
    assert reset("--to", "4", "--topic", "orders") == {0: 4, 1: 4}
    assert reset("--to", "5", "--topic", "orders", "-p", "1") == {0: 4, 1: 5}
    assert reset("--to", "6") == {0: 6, 1: 6}
    assert reset("--to", "1d ago") == {0: 0, 1: 0}
    assert "add --yes" in run_problem(servers, "--to", "earliest", code=2)
    assert "one of --to, --shift, --by-duration and --to-current" in run_problem(servers, code=2)
    assert "--shift moves a group" in run_problem(servers, "--to", "-3", code=2)
    assert "needs a --topic" in run_problem(servers, "--to", "3", "-p", "0", code=2)
    assert "11" in run_problem(servers, "--to", "11", "--yes")


def run_problem(servers: str, *options: str, code: int = 1) -> str:
    from tests.cli.processes import run

    done = run("groups", "reset", "etl", *options, servers=servers)
    assert done.returncode == code, done
    assert done.stderr.count(b"\n") == 1, done.stderr
    return done.stderr.decode()


def test_a_group_with_members_is_left_alone(servers: str) -> None:
    with member(servers) as consumer:
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
        assert "etl" in run_problem(servers, "--to", "earliest", "--yes")
        assert offsets(servers) == {0: 3, 1: 10}


def test_offsets_of_a_topic_are_forgotten(servers: str) -> None:
    def forget(*options: str) -> str:
        return problem("groups", "delete-offsets", "etl", *options, servers=servers)

    with member(servers) as consumer:
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
        assert "stop them" in forget("--topic", "orders", "--yes")
    assert "it has of: orders" in forget("--topic", "evnets", "--yes")
    assert "add --yes" in problem("groups", "delete-offsets", "etl", "-t", "orders", servers=servers, code=2)
    output("groups", "delete-offsets", "etl", "--topic", "orders", "-p", "1", "--yes", servers=servers)
    assert offsets(servers) == {0: 3}
    output("groups", "delete-offsets", "etl", "--topic", "orders", "--yes", servers=servers)
    assert "nothing at all" in forget("--topic", "orders", "--yes")


def test_groups_are_deleted(servers: str) -> None:
    assert "add --yes" in problem("groups", "delete", "etl", servers=servers, code=2)
    output("groups", "delete", "etl", "--yes", servers=servers)
    assert output("groups", "list", servers=servers) == ""
