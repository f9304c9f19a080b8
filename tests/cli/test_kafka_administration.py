"""The commands that administer, on a real Kafka of three nodes."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from monedula.admin import Admin, NewTopic
from monedula.cli.throttle import throttle
from monedula.types.partitions import TopicPartition

from tests.cli.processes import output, problem, run
from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster

PATIENCE_SECONDS = 60.0


def rows(*arguments: str, servers: str) -> list[list[str]]:
    return [line.split("\t") for line in output(*arguments, servers=servers).splitlines()]


def objects(*arguments: str, servers: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output(*arguments, "--json", servers=servers).splitlines()]


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come true"


@pytest.fixture
def placed(kafka3: KafkaCluster, topic: TopicFactory) -> Iterator[str]:
    """A topic whose two partitions are on the nodes 1 and 2; node 1 is preferred by both."""
    name = f"{topic(cluster=kafka3)}-placed"
    with Admin({"bootstrap.servers": kafka3.bootstrap}) as admin:
        admin.create_topics(NewTopic(name, assignments={0: [1, 2], 1: [1, 2]}))
        until(lambda: name in admin.list_topics())
        yield name
        admin.delete_topics(name)


def test_the_cluster_and_its_brokers_are_described(kafka3: KafkaCluster, placed: str) -> None:
    servers = kafka3.bootstrap
    cluster = dict(rows("cluster", "describe", servers=servers))
    assert (cluster["brokers"], cluster["without_leader"]) == ("3", "0")
    quorum = rows("cluster", "quorum", servers=servers)
    assert sorted(row[0] for row in quorum if row[1] in ("leader", "voter")) == ["1", "2", "3"]
    assert next(row[0] for row in quorum if row[1] == "leader") == cluster["controller"]
    brokers = objects("brokers", "list", servers=servers)
    assert [(row["broker"], row["rack"]) for row in brokers] == [(1, "rack-1"), (2, "rack-2"), (3, "rack-3")]
    described = [row[:2] for row in rows("brokers", "describe", "1", servers=servers)]
    assert [placed, "0"] in described


def test_a_plan_moves_partitions_of_a_real_cluster(kafka3: KafkaCluster, placed: str, tmp_path: Path) -> None:
    servers = kafka3.bootstrap
    output("produce", placed, servers=servers, stdin=b"a\nb\nc\n")
    plan, undo = str(tmp_path / "plan.json"), str(tmp_path / "undo.json")
    output("reassignments", "plan", "-t", placed, "--brokers", "2,3", "-o", plan, servers=servers)
    output("reassignments", "start", plan, "--save-current", undo, "--yes", servers=servers)
    output("reassignments", "status", "--wait", servers=servers)

    def held() -> set[str]:
        return {broker for row in rows("topics", "describe", placed, servers=servers) for broker in row[3].split(",")}

    until(lambda: held() == {"2", "3"})
    assert sorted(output("consume", placed, servers=servers).split()) == ["a", "b", "c"]
    output("reassignments", "start", undo, "--yes", servers=servers)
    output("reassignments", "status", "--wait", servers=servers)
    until(lambda: held() == {"1", "2"})


def test_a_move_that_cannot_end_is_shown_and_cancelled(kafka3: KafkaCluster, placed: str) -> None:
    servers = ",".join(f"{node.host}:{node.port}" for node in kafka3.nodes.values() if node.id != 3)
    output("produce", placed, "-p", "0", servers=servers, stdin=b"a\n")
    kafka3.stop(3)
    try:
        move = {"partitions": [{"topic": placed, "partition": 0, "replicas": [1, 3]}]}
        output("reassignments", "start", "-", "--yes", servers=servers, stdin=json.dumps(move).encode())
        (moving,) = objects("reassignments", "status", servers=servers)
        assert (moving["topic"], moving["adding"], moving["removing"]) == (placed, [3], [2])
        done = run("reassignments", "cancel", "-t", placed, "--yes", servers=servers)
        assert done.stderr == f"cancelled: {placed}-0\n".encode()
        until(lambda: rows("reassignments", "status", servers=servers) == [])
    finally:
        kafka3.start(3)


def test_the_preferred_replica_leads_again(kafka3: KafkaCluster, placed: str) -> None:
    servers = kafka3.bootstrap

    def leaders() -> list[str]:
        return [row[2] for row in rows("topics", "describe", placed, "-X", "metadata.max.age.ms=100", servers=servers)]

    with Admin({"bootstrap.servers": servers}) as admin:
        until(lambda: all(len(part.isr) == 2 for part in admin.describe_topics(placed)[placed].partitions))
        assert output("topics", "elect-leaders", placed, servers=servers) == ""
        kafka3.helper.move_leader(placed, 0, 2)
        # That made the other replica the preferred one too.
        admin.alter_partition_reassignments({(placed, 0): [1, 2]})
        until(lambda: admin.describe_topics(placed)[placed].partitions[0].replicas == (1, 2))
    until(lambda: leaders() == ["2", "1"])
    assert [row[:2] for row in rows("topics", "elect-leaders", placed, servers=servers)] == [[placed, "0"]]
    until(lambda: leaders() == ["1", "1"])


def test_settings_of_every_type_are_set_and_deleted(kafka3: KafkaCluster, placed: str) -> None:
    servers = kafka3.bootstrap
    group = f"group-of-{placed}"

    def value(*resource: str, setting: str) -> object:
        found = objects("configs", "describe", *resource, servers=servers)
        return next((row["value"] for row in found if row["setting"] == setting), None)

    for resource, setting, wanted in (
        (("topic", placed), "retention.ms", "5"),
        (("broker", "1"), "log.cleaner.threads", "2"),
        (("broker", "all"), "log.cleaner.threads", "2"),
        (("group", group), "consumer.session.timeout.ms", "50000"),
        (("client-metrics", group), "interval.ms", "60000"),
    ):
        output("configs", "set", *resource, f"{setting}={wanted}", servers=servers)
        until(lambda: value(*resource, setting=setting) == wanted)  # noqa: B023 - awaited within the iteration
        output("configs", "delete", *resource, setting, servers=servers)
        until(lambda: value(*resource, setting=setting) is None)  # noqa: B023 - likewise
    output("configs", "set", "client-metrics", group, "interval.ms=60000", "metrics=org.apache.kafka.", servers=servers)
    until(lambda: [group] in [row[1:] for row in rows("configs", "list", "client-metrics", servers=servers)])
    output("configs", "delete", "client-metrics", group, "--all", "--yes", servers=servers)
    until(lambda: [group] not in [row[1:] for row in rows("configs", "list", "client-metrics", servers=servers)])
    checked = ("configs", "set", "topic", placed, "--dry-run")
    assert "INVALID_CONFIG" in problem(*checked, "retention.ms=x", servers=servers)


def test_offsets_of_a_group_are_exported_imported_and_counted(
    kafka3: KafkaCluster, placed: str, tmp_path: Path
) -> None:
    servers, group, file = kafka3.bootstrap, f"group-of-{placed}", str(tmp_path / "offsets.csv")
    output("produce", placed, "-p", "0", servers=servers, stdin=b"a\nb\nc\n")
    assert output("consume", placed, "-g", group, "-n", "2", "-f", "%o", servers=servers) == "0\n1\n"
    output("groups", "export", group, "-o", file, servers=servers)
    assert f"{placed},0,2\n" in Path(file).read_text()
    output("groups", "reset", group, "--to-current", "-t", placed, "--yes", servers=servers)
    output("groups", "reset", group, "--by-duration", "1h", "--yes", servers=servers)
    (lag,) = [row for row in objects("groups", "lag", servers=servers) if row["group"] == group]
    assert lag["lag"] == 3
    output("groups", "import", file, "-g", group, "--yes", servers=servers)
    (lag,) = [row for row in objects("groups", "lag", servers=servers) if row["group"] == group]
    assert lag["lag"] == 1
    assert [row[2] for row in rows("topics", "offsets", placed, "--at", "1h ago", servers=servers)] == ["0", ""]
    output("groups", "delete", group, "--yes", servers=servers)


def test_records_are_chosen_on_a_real_kafka(kafka3: KafkaCluster, placed: str) -> None:
    servers = kafka3.bootstrap
    output("produce", placed, "-p", "0", "-k", ":", "-H", "source=web", servers=servers, stdin=b"a:1\nb:2\na:3\n")
    chosen = ("--key", "=a", "--header", "source~^w", "-f", "%t %p %o %k=%s %h")
    written = [f"{placed} 0 0 a=1 source=web", f"{placed} 0 2 a=3 source=web"]
    assert output("consume", placed, *chosen, servers=servers).splitlines() == written
    assert output("consume", f"^{placed}$", *chosen, servers=servers).splitlines() == written


def test_moves_with_a_limit_end_and_the_limit_is_lifted(placed: str, kafka3: KafkaCluster, tmp_path: Path) -> None:
    names = [f"{role}.replication.throttled.{what}" for role in ("leader", "follower") for what in ("rate", "replicas")]

    def settings(admin: Admin) -> list[tuple[str, str, str | None]]:
        found = admin.describe_configs([*(("broker", str(node)) for node in (1, 2, 3)), ("topic", placed)])
        return [
            (resource.name, each, entries[each].value)
            for resource, entries in sorted(found.items())
            for each in names
            if each in entries
        ]

    plan = tmp_path / "plan.json"
    moves = [{"topic": placed, "partition": partition, "replicas": [3, 1]} for partition in (0, 1)]
    plan.write_text(json.dumps({"partitions": moves}))
    with Admin({"bootstrap.servers": kafka3.bootstrap}) as admin:
        usual = settings(admin)
        of_one = {TopicPartition(placed, 1): [1, 2]}, {TopicPartition(placed, 1): [1, 3]}
        lifting = throttle(admin, 5000, *of_one)
        rates = [(str(node), names[which], "5000") for node in (1, 2, 3) for which in (0, 2)]
        lists = [(placed, names[1], "1:1,1:2"), (placed, names[3], "1:3")]
        # A broker hears of its settings from the controller.
        until(lambda: sorted(settings(admin)) == sorted([*rates, *lists]))
        lifting.lift(admin)
        until(lambda: settings(admin) == usual)
        done = run("reassignments", "start", str(plan), "--throttle", "10m", "--yes", servers=kafka3.bootstrap)
        assert done.returncode == 0, done.stderr
        assert done.stderr.endswith(b"the limit on copying is lifted\n")
        until(lambda: settings(admin) == usual)
        (described,) = admin.describe_topics([placed]).values()
        assert [tuple(each.replicas) for each in described.partitions] == [(3, 1), (3, 1)]
