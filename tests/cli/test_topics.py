"""`monedula topics`: creates, shows, changes and deletes topics."""

import json
from collections.abc import Callable

import monedula
import pytest
from monedula.testing import Broker

from tests.cli.processes import Terminal, output, problem, run


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


def names(servers: str) -> list[str]:
    return [line.split("\t")[0] for line in output("topics", "list", servers=servers).splitlines()]


def test_topics_are_made_listed_and_deleted(servers: str) -> None:
    done = run("topics", "create", "b", "a", "-p", "2", "-c", "retention.ms=1000", servers=servers)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"created a, partitions: 2\n" in done.stderr
    rows = [line.split("\t") for line in output("topics", "list", servers=servers).splitlines()]
    assert [row[:3] for row in rows] == [["a", "2", "1"], ["b", "2", "1"]]
    objects = [json.loads(line) for line in output("topics", "list", "--json", servers=servers).splitlines()]
    assert [(row["topic"], row["partitions"]) for row in objects] == [("a", 2), ("b", 2)]
    assert "'retention.ms'" in repr(output("topics", "configs", "a", servers=servers).split("\t"))
    assert "a" in problem("topics", "create", "a", servers=servers)
    output("topics", "create", "a", "c", "--if-not-exists", servers=servers)
    assert names(servers) == ["a", "b", "c"]
    assert "add --yes" in problem("topics", "delete", "a", servers=servers, code=2)
    output("topics", "delete", "a", "b", "--yes", servers=servers)
    assert names(servers) == ["c"]
    assert "a" in problem("topics", "delete", "a", "--yes", servers=servers)
    output("topics", "delete", "a", "--yes", "--if-exists", servers=servers)


def test_a_topic_is_described_with_its_offsets(servers: str, broker: Broker) -> None:
    broker.create_topic("orders", 2)
    broker.append("orders", ["a", "b", "c"], partition=1)
    rows = [line.split("\t") for line in output("topics", "describe", "orders", servers=servers).splitlines()]
    assert [row[:2] + row[6:] for row in rows] == [["orders", "0", "0", "0"], ["orders", "1", "0", "3"]]
    first, _ = (
        json.loads(line) for line in output("topics", "describe", "orders", "--json", servers=servers).splitlines()
    )
    assert first["replicas"] == first["isr"] == [first["leader"]]
    assert "missing" in problem("topics", "describe", "missing", servers=servers)


def test_partitions_are_added(servers: str, broker: Broker) -> None:
    broker.create_topic("orders", 2)
    output("topics", "add-partitions", "orders", "--to", "5", servers=servers)
    with monedula.Consumer({"bootstrap.servers": servers}) as consumer:
        assert len(consumer.partitions_of("orders")) == 5
    assert "orders" in problem("topics", "add-partitions", "orders", "--to", "3", servers=servers)


def test_settings_are_shown_and_changed(servers: str, broker: Broker) -> None:
    def shown(*options: str) -> dict[str, str]:
        text = output("topics", "configs", "orders", *options, "--json", servers=servers)
        return {row["name"]: row["value"] for row in map(json.loads, text.splitlines())}

    broker.create_topic("orders", 1)
    assert shown() == {}
    assert shown("--all")["retention.ms"] == "604800000"
    output(
        "topics", "configs", "orders", "--set", "retention.ms=1000", "--set", "cleanup.policy=compact", servers=servers
    )
    assert shown() == {"retention.ms": "1000", "cleanup.policy": "compact"}
    output("topics", "configs", "orders", "--unset", "cleanup.policy", servers=servers)
    assert shown() == {"retention.ms": "1000"}
    assert "both name a" in problem(
        "topics", "configs", "orders", "--set", "a=1", "--unset", "a", servers=servers, code=2
    )
    assert problem("topics", "configs", "orders", "--set", "retention.ms=x", servers=servers)


def test_the_oldest_records_are_deleted(servers: str, broker: Broker) -> None:
    def delete(*options: str) -> list[list[str]]:
        text = output("topics", "delete-records", "orders", *options, "--yes", servers=servers)
        return [line.split("\t") for line in text.splitlines()]

    broker.create_topic("orders", 2, config={"retention.ms": "-1"})
    broker.append(
        "orders", [str(row) for row in range(10)], partition=0, timestamps=[day * 86_400_000 for day in range(10)]
    )
    broker.append("orders", ["x"] * 4, partition=1)
    assert delete("--before", "2") == [["orders", "0", "0", "2"], ["orders", "1", "0", "2"]]
    assert delete("--before", "-3", "-p", "0") == [["orders", "0", "2", "7"]]
    assert delete("--before", "1970-01-09T00:00:00Z", "-p", "0") == [["orders", "0", "7", "8"]]
    assert delete("--before", "1") == []
    assert "add --yes" in problem(
        "topics", "delete-records", "orders", "--before", "9", "-p", "0", servers=servers, code=2
    )
    beyond = problem("topics", "delete-records", "orders", "--before", "5", "--yes", servers=servers)
    assert "orders-1 ends at 4" in beyond
    assert "--before latest" in beyond
    assert delete("--before", "latest") == [["orders", "0", "8", "10"], ["orders", "1", "2", "4"]]
    refused = ("topics", "delete-records", "orders")
    assert "nothing would be deleted" in problem(*refused, "--before", "earliest", servers=servers, code=2)
    assert "Missing option '--before'" in problem(*refused, servers=servers, code=2)
    assert "numbered from 0" in problem(*refused, "--before", "1", "-p", "7", "--yes", servers=servers)
    assert "missing" in problem("topics", "delete-records", "missing", "--before", "1", servers=servers)


def test_a_terminal_is_asked_before_anything_is_deleted(
    servers: str, broker: Broker, terminal: Callable[..., Terminal]
) -> None:
    broker.create_topic("orders", 1)
    for answer, code, left in (("n", 1, ["orders"]), ("y", 0, [])):
        screen = terminal("topics", "delete", "orders", servers=servers)
        screen.until("Delete orders with all records? [y/N]")
        screen.type(f"{answer}\n")
        assert screen.end() == code
        assert names(servers) == left


def test_a_terminal_sees_a_table_with_a_head(servers: str, broker: Broker, terminal: Callable[..., Terminal]) -> None:
    broker.create_topic("orders", 3)
    screen = terminal("topics", "list", servers=servers)
    assert screen.end() == 0
    head, _, row = (line.split() for line in screen.text.splitlines() if line.strip())
    assert head[:3] == ["topic", "partitions", "replication"]
    assert row[:3] == ["orders", "3", "1"]
