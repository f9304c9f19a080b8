"""`monedula cluster`, `brokers`, `log-dirs`, `reassignments`, elections: on three nodes of the embedded broker."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from monedula.admin import Admin, ConfigResource, NewTopic
from monedula.cli.balance import balanced
from monedula.testing import Broker
from monedula.types.partitions import TopicPartition

from tests.cli.processes import output, problem, run, running


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Three nodes, in racks of their own."""
    with Broker(nodes=3, settings={"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def servers(broker: Broker) -> str:
    """A cluster with `orders`, two replicas for each of three partitions, and `payments`, one partition on node 3."""
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.create_topics(NewTopic("orders", assignments={0: [1, 2], 1: [2, 3], 2: [1, 3]}))
        admin.create_topics(NewTopic("payments", assignments={0: [3]}))
    broker.append("orders", ["a", "b", "c"], timestamps=[1000, 2000, 3000])
    return broker.bootstrap_servers


def rows(*arguments: str, servers: str) -> list[list[str]]:
    return [line.split("\t") for line in output(*arguments, servers=servers).splitlines()]


def objects(*arguments: str, servers: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output(*arguments, "--json", servers=servers).splitlines()]


def replicas(servers: str, topic: str) -> dict[int, tuple[int, ...]]:
    with Admin({"bootstrap.servers": servers}) as admin:
        return {part.partition: part.replicas for part in admin.describe_topics(topic)[topic].partitions}


def test_the_cluster_is_described_with_what_is_not_well(servers: str, broker: Broker) -> None:
    well = dict(rows("cluster", "describe", servers=servers))
    assert (well["brokers"], well["topics"], well["partitions"]) == ("3", "2", "4")
    assert [well[name] for name in ("without_leader", "under_replicated", "not_led_by_preferred")] == ["0", "0", "0"]
    assert well["moving_partitions"] == "0"
    broker.stop_node(3)
    (ill,) = objects("cluster", "describe", servers=servers)
    assert (ill["brokers"], ill["without_leader"], ill["under_replicated"]) == (2, 1, 2)


def test_the_quorum_is_shown(servers: str) -> None:
    done = run("cluster", "quorum", servers=servers)
    shown = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert [row[:2] for row in shown] == [["1", "leader"], ["2", "voter"], ["3", "voter"]]
    assert {row[3] for row in shown} == {"0"}
    assert shown[0][5].startswith("CONTROLLER://127.0.0.1:")
    assert done.stderr.startswith(b"leader 1, epoch ")


def test_brokers_are_listed_with_what_they_lead_and_keep(servers: str, broker: Broker) -> None:
    assert [[row[0], *row[3:6]] for row in rows("brokers", "list", servers=servers)] == [
        ["1", "2", "2", "0"],
        ["2", "1", "2", "0"],
        ["3", "1", "3", "0"],
    ]
    first, second, _ = objects("brokers", "list", servers=servers)
    assert str(first["address"]) in servers
    assert first["bytes"] == second["bytes"] != 0
    broker.stop_node(2)
    assert [row["broker"] for row in objects("brokers", "list", servers=servers)] == [1, 3]


def test_a_broker_is_described(servers: str, broker: Broker) -> None:
    shown = rows("brokers", "describe", "3", servers=servers)
    assert [row[:4] for row in shown] == [
        ["orders", "1", "no", "yes"],
        ["orders", "2", "no", "yes"],
        ["payments", "0", "yes", "yes"],
    ]
    assert shown[2][4] == "0"
    broker.stop_node(3)
    assert [row[4:] for row in rows("brokers", "describe", "3", servers=servers)] == [["", ""]] * 3
    assert "there are: 1, 2" in problem("brokers", "describe", "9", servers=servers)


def test_log_directories_and_their_replicas_are_listed(servers: str) -> None:
    listed = rows("log-dirs", "list", servers=servers)
    assert [(row[0], row[2]) for row in listed] == [("1", "2"), ("2", "2"), ("3", "3")]
    assert [row[0] for row in rows("log-dirs", "list", "--broker", "2", servers=servers)] == ["2"]
    shown = rows("log-dirs", "replicas", "--topic", "^pay", "--topic", "orders", "--broker", "3", servers=servers)
    assert [row[2:4] for row in shown] == [["orders", "1"], ["orders", "2"], ["payments", "0"]]
    (largest,) = objects("log-dirs", "replicas", "--largest", "1", servers=servers)
    assert (largest["topic"], largest["partition"], largest["broker"]) == ("orders", 0, 1)
    assert "no topic matches" in problem("log-dirs", "replicas", "-t", "^x", servers=servers)


def test_a_replica_moves_only_to_a_directory_of_its_broker(servers: str) -> None:
    (path,) = {row[1] for row in rows("log-dirs", "list", servers=servers)}
    done = run("log-dirs", "move", "orders", "--broker", "1", "--to", path, "--yes", servers=servers)
    assert (done.returncode, done.stderr) == (0, f"moving to {path}: orders-0, orders-2\n".encode())
    elsewhere = ("log-dirs", "move", "orders", "--broker", "1", "--to")
    assert f"directories of broker 1 are {path}" in problem(*elsewhere, "/x", "--yes", servers=servers)
    assert "no replica of orders-1" in problem(*elsewhere, path, "-p", "1", "--yes", servers=servers)
    assert "add --yes" in problem(*elsewhere, path, servers=servers, code=2)


def test_leaders_are_elected(servers: str, broker: Broker) -> None:
    broker.move_leader("orders", 0, 2)
    broker.move_leader("orders", 1, 3)
    assert rows("topics", "elect-leaders", "orders", "-p", "1", servers=servers) == [["orders", "1", "2"]]
    assert rows("topics", "elect-leaders", servers=servers) == [["orders", "0", "1"]]
    done = run("topics", "elect-leaders", "^ord", servers=servers)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"no leader changed\n")
    assert "no such partition" in problem("topics", "elect-leaders", "orders", "-p", "7", servers=servers)
    assert "needs a topic" in problem("topics", "elect-leaders", "--unclean", servers=servers, code=2)
    assert "add --yes" in problem("topics", "elect-leaders", "orders", "--unclean", servers=servers, code=2)


def test_offsets_are_shown_by_end_and_by_time(servers: str) -> None:
    assert [row[2] for row in rows("topics", "offsets", "orders", servers=servers)] == ["3", "0", "0"]
    assert rows("topics", "offsets", "orders", "-p", "0", "--at", "@1500", servers=servers) == [
        ["orders", "0", "1", "1970-01-01T00:00:02.000Z"]
    ]
    assert rows("topics", "offsets", "^o", "-p", "0", "--at", "@3001", servers=servers) == [["orders", "0", "", ""]]
    assert "is milliseconds" in problem("topics", "offsets", "orders", "--at", "5", servers=servers, code=2)


def test_a_plan_is_made_started_and_undone(servers: str, tmp_path: Path) -> None:
    plan, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    done = run("reassignments", "plan", "--brokers", "1,2", "-o", str(plan), servers=servers)
    assert done.stderr.decode() == f"3 of 4 partitions move; the plan is in {plan}\n"
    expected = ["orders\t1\t2,3\t2,1", "orders\t2\t1,3\t2,1", "payments\t0\t3\t1"]
    assert done.stdout.decode().splitlines() == expected
    assert replicas(servers, "payments") == {0: (3,)}
    started = run(
        "reassignments", "start", str(plan), "--save-current", str(undo), "--yes", servers=servers
    ).stderr.decode()
    assert "orders-1: 2,3 -> " in started
    assert started.endswith("started: 3\n")
    assert {broker for brokers in replicas(servers, "orders").values() for broker in brokers} == {1, 2}
    again = run("reassignments", "start", str(plan), "--yes", servers=servers).stderr
    assert b"nothing was started" in again
    assert json.loads(undo.read_text())["partitions"][2] == {"topic": "payments", "partition": 0, "replicas": [3]}
    output("reassignments", "start", "-", "--yes", servers=servers, stdin=undo.read_bytes())
    assert replicas(servers, "orders") == {0: (1, 2), 1: (2, 3), 2: (1, 3)}


def test_replicas_are_added(servers: str) -> None:
    text = output("reassignments", "plan", "-t", "payments", "-r", "3", "-o", "-", servers=servers)
    output("reassignments", "start", "-", "--yes", servers=servers, stdin=text.encode())
    assert set(replicas(servers, "payments")[0]) == {1, 2, 3}


def test_a_move_under_way_is_shown_and_cancelled(servers: str, broker: Broker) -> None:
    broker.stop_node(3)
    move = {"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3], "log_dirs": ["any", "any"]}]}
    output("reassignments", "start", "-", "--yes", servers=servers, stdin=json.dumps(move).encode())
    (moving,) = objects("reassignments", "status", servers=servers)
    assert (moving["topic"], moving["adding"], moving["removing"], moving["percent"]) == ("orders", [3], [2], 0.0)
    assert (
        "nothing was cancelled"
        in run("reassignments", "cancel", "-t", "payments", "-y", servers=servers).stderr.decode()
    )
    assert "add --yes" in problem("reassignments", "cancel", servers=servers, code=2)
    assert run("reassignments", "cancel", "--yes", servers=servers).stderr == b"cancelled: orders-0\n"
    assert run("reassignments", "status", "--wait", servers=servers).stderr == b"no partition moves\n"
    assert replicas(servers, "orders")[0] == (1, 2)


THROTTLES = [f"{role}.replication.throttled.{what}" for role in ("leader", "follower") for what in ("rate", "replicas")]


def throttles(servers: str) -> dict[str, str]:
    """What limits the copying of replicas, on brokers and topics."""
    with Admin({"bootstrap.servers": servers}) as admin:
        resources = [ConfigResource("broker", str(node)) for node in (1, 2, 3)]
        resources += [ConfigResource("topic", name) for name in ("orders", "payments")]
        found = admin.describe_configs(resources, errors="return")
    # The embedded broker keeps what it does not know to itself, as Kafka does.
    return {
        f"{resource.name} {name}": entries[name].value or "hidden"
        for resource, entries in found.items()
        for name in THROTTLES
        if name in entries and entries[name].value != ""
    }


def test_moves_with_a_limit_are_waited_for_and_the_limit_is_lifted(
    servers: str, broker: Broker, tmp_path: Path
) -> None:
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.alter_configs({("topic", "orders"): {THROTTLES[1]: "2:1"}})
    others = throttles(servers)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3]}]}))
    broker.stop_node(3)
    with running("reassignments", "start", str(plan), "--throttle", "10m", "--yes", servers=servers) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        while b"moving: 1 partition" not in told:
            told += process.stderr.readline()
        assert throttles(servers) == {
            "1 leader.replication.throttled.rate": "hidden",
            "1 follower.replication.throttled.rate": "hidden",
            "2 leader.replication.throttled.rate": "hidden",
            "2 follower.replication.throttled.rate": "hidden",
            "orders leader.replication.throttled.replicas": "2:1,0:1,0:2",
            "orders follower.replication.throttled.replicas": "0:3",
        }
        process.send_signal(signal.SIGINT)
        assert b"the same command waits for their end" in process.stderr.read()
        assert process.wait(60) == 130
    assert len(throttles(servers)) == 6
    broker.start_node(3)
    done = run("reassignments", "start", str(plan), "--throttle", "10m", "--yes", servers=servers)
    assert (done.returncode, done.stderr.splitlines()[-1].endswith(b"the limit on copying is lifted")) == (0, True)
    assert throttles(servers) == others
    assert replicas(servers, "orders")[0] == (1, 3)


def test_a_limit_is_lifted_if_no_move_starts_and_when_moves_are_cancelled(
    servers: str, broker: Broker, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": 0, "replicas": [9]}]}))
    start = ("reassignments", "start", str(plan), "--throttle", "500k", "--yes")
    assert b"no such broker" in run(*start, servers=servers).stderr
    assert throttles(servers) == {}
    plan.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3]}]}))
    broker.stop_node(3)
    with running(*start, servers=servers) as process:
        assert process.stderr is not None
        while b"moving" not in process.stderr.readline():
            pass
        assert throttles(servers)
        done = run("reassignments", "cancel", "--yes", servers=servers)
        assert b"the limit on their copying is lifted" in done.stderr
        assert process.wait(60) == 0
    assert throttles(servers) == {}
    for rate in ("0", "-1", "fast", "1x", "9" * 20):
        assert "expected bytes a second" in problem(*start[:4], rate, "--yes", servers=servers, code=2)


def test_a_plan_that_makes_no_sense_is_refused(servers: str, tmp_path: Path) -> None:
    def refused(*entries: object) -> str:
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"partitions": entries}))
        return problem("reassignments", "start", str(plan), "--yes", servers=servers)

    first = {"topic": "orders", "partition": 0, "replicas": [1]}
    assert "no partition orders-7" in refused({**first, "partition": 7})
    assert "ids of brokers" in refused({**first, "replicas": ["1"]})
    assert "ids of brokers" in refused({**first, "replicas": []})
    assert "orders-x: a topic is a text and a partition a number" in refused({**first, "partition": "x"})
    assert "1-0: a topic is a text" in refused({**first, "topic": 1})
    assert "orders--1: a topic is a text" in refused({**first, "partition": -1})
    assert "log-dirs move" in refused({**first, "log_dirs": ["/data"]})
    assert "expected {" in refused("orders")
    deep = b"[" * 200_000 + b"]" * 200_000
    assert b"expected {" in run("reassignments", "start", "-", "--yes", servers=servers, stdin=deep).stderr
    move = json.dumps({"partitions": [{**first, "replicas": [9]}]}).encode()
    assert b"no such broker" in run("reassignments", "start", "-", "--yes", servers=servers, stdin=move).stderr
    assert "3 replicas need as many" in problem(
        "reassignments", "plan", "-r", "3", "--brokers", "1,2", servers=servers, code=2
    )
    assert "there is no broker 9" in problem("reassignments", "plan", "--brokers", "9", servers=servers)
    for ids in ("a", "9" * 5000):
        assert "expected ids" in problem("reassignments", "plan", "--brokers", ids, servers=servers, code=2)


def partitions(count: int, *replicas: int) -> dict[TopicPartition, list[int]]:
    return {TopicPartition("t", index): list(replicas) for index in range(count)}


def test_a_balanced_plan_spreads_replicas_and_leaders_evenly() -> None:
    plan = balanced(partitions(9, 1, 2), [1, 2, 3], {})
    held = [sum(broker in brokers for brokers in plan.values()) for broker in (1, 2, 3)]
    led = [sum(broker == brokers[0] for brokers in plan.values()) for broker in (1, 2, 3)]
    assert (held, led) == ([6, 6, 6], [3, 3, 3])
    assert all(len(set(brokers)) == 2 for brokers in plan.values())


def test_a_balanced_plan_moves_nothing_that_is_even_and_no_more_than_it_must() -> None:
    even = {TopicPartition("t", 0): [1, 2], TopicPartition("t", 1): [2, 3], TopicPartition("t", 2): [3, 1]}
    assert balanced(even, [1, 2, 3], {}) == even
    without_3 = balanced(even, [1, 2], {})
    assert without_3[TopicPartition("t", 0)] == [1, 2]
    more = balanced({at: brokers[:1] for at, brokers in even.items()}, [1, 2, 3], {}, replication_factor=2)
    assert all(even[at][0] in brokers for at, brokers in more.items())
    assert all(len(set(brokers)) == 2 for brokers in more.values())


def test_a_balanced_plan_uses_several_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = balanced(partitions(8, 1), [1, 2, 3, 4], racks, replication_factor=2)
    assert all({racks[broker] for broker in brokers} == {"a", "b"} for brokers in plan.values())
    held = [sum(broker in brokers for brokers in plan.values()) for broker in racks]
    assert max(held) - min(held) <= 1
