"""`monedula groups`: the lag of all groups, offsets in files, and where a group can be moved."""

import json
from pathlib import Path

import monedula
import pytest
from monedula.testing import Broker
from monedula.types.times import time_of

from tests.cli.processes import output, problem, run


@pytest.fixture
def servers(broker: Broker) -> str:
    """`orders`: ten records in each of two partitions; `etl` has read three and ten, `nightly` four of the first."""
    broker.create_topic("orders", 2)
    for partition in (0, 1):
        broker.append("orders", [str(row) for row in range(10)], partition=partition)
    config = {"bootstrap.servers": broker.bootstrap_servers}
    for group, offsets in (("etl", {("orders", 0): 3, ("orders", 1): 10}), ("nightly", {("orders", 0): 4})):
        with monedula.Consumer({**config, "group.id": group}) as consumer:
            consumer.commit(offsets)
    return broker.bootstrap_servers


def offsets(servers: str, group: str) -> dict[int, int]:
    rows = [line.split("\t") for line in output("groups", "offsets", group, servers=servers).splitlines()]
    return {int(row[1]): int(row[2]) for row in rows}


def test_the_lag_of_all_groups_comes_with_a_total(servers: str, broker: Broker) -> None:
    done = run("groups", "lag", servers=servers)
    assert done.stdout.decode().splitlines() == ["etl\tEmpty\t1\t2\t7\t7", "nightly\tEmpty\t1\t1\t6\t6"]
    assert done.stderr == b"total: 13 behind, in 2 partitions of 2 groups\n"
    objects = [json.loads(line) for line in output("groups", "lag", "--json", servers=servers).splitlines()]
    assert [(row["group"], row["lag"], row["largest_lag"]) for row in objects] == [("etl", 7, 7), ("nightly", 6, 6)]
    broker.create_topic("other", 1)
    assert run("groups", "lag", "--topic", "other", servers=servers).stdout == b""
    assert len(output("groups", "lag", "--topic", "^ord", servers=servers).splitlines()) == 2


def test_the_lag_of_some_groups_is_told_by_partition(servers: str) -> None:
    done = run("groups", "lag", "nightly", "etl", servers=servers)
    assert [line.split("\t")[:3] for line in done.stdout.decode().splitlines()] == [
        ["nightly", "orders", "0"],
        ["etl", "orders", "0"],
        ["etl", "orders", "1"],
    ]
    assert done.stderr == b"total: 13 behind, in 2 partitions of 2 groups\n"
    assert run("groups", "lag", "etl", "--json", servers=servers).stderr == b""
    assert "--watch is for one group" in problem("groups", "lag", "--watch", servers=servers, code=2)


def test_offsets_are_exported_as_kafkas_own_tool_does(servers: str, tmp_path: Path) -> None:
    assert output("groups", "export", "etl", servers=servers) == "orders,0,3\norders,1,10\n"
    both = "etl,orders,0,3\netl,orders,1,10\nnightly,orders,0,4\n"
    assert output("groups", "export", "etl", "nightly", servers=servers) == both
    file = tmp_path / "etl.jsonl"
    output("groups", "export", "etl", "-t", "^o", "-o", str(file), servers=servers)
    assert json.loads(file.read_text().splitlines()[0]) == {
        "group": "etl",
        "topic": "orders",
        "partition": 0,
        "offset": 3,
        "metadata": "",
    }
    assert "etl has committed nothing of these" in problem("groups", "export", "etl", "-t", "orders2", servers=servers)
    assert "name the format" in problem("groups", "export", "etl", "-o", "etl.txt", servers=servers, code=2)


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_exported_offsets_come_back(servers: str, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"offsets.{suffix}"
    output("groups", "export", "etl", "nightly", "-o", str(file), servers=servers)
    output("groups", "reset", "etl", "--to", "latest", "--yes", servers=servers)
    shown = output("groups", "import", str(file), "--dry-run", servers=servers).splitlines()
    assert shown[0] == "etl\torders\t0\t10\t3"
    assert "add --yes" in run("groups", "import", str(file), servers=servers).stderr.decode()
    assert offsets(servers, "etl") == {0: 10, 1: 10}
    output("groups", "import", str(file), "--yes", servers=servers)
    assert (offsets(servers, "etl"), offsets(servers, "nightly")) == ({0: 3, 1: 10}, {0: 4})


def test_offsets_of_one_group_can_be_set_for_another(servers: str) -> None:
    text = output("groups", "export", "etl", servers=servers)
    output("groups", "import", "-", "-g", "copy", "--yes", servers=servers, stdin=text.encode())
    assert offsets(servers, "copy") == {0: 3, 1: 10}
    headed = "topic,partition,offset\norders,0,5\n\n"
    output("groups", "import", "-", "-g", "copy", "--yes", servers=servers, stdin=headed.encode())
    assert offsets(servers, "copy") == {0: 5, 1: 10}


def test_metadata_of_offsets_is_kept_by_json(servers: str) -> None:
    with monedula.Admin({"bootstrap.servers": servers}) as admin:
        admin.alter_group_offsets("etl", {("orders", 0): (3, "checked")})
        text = output("groups", "export", "etl", "-f", "json", servers=servers)
        output("groups", "import", "-", "-g", "copy", "--yes", servers=servers, stdin=text.encode())
        assert {at.partition: found.metadata for at, found in admin.list_group_offsets("copy").items() if found} == {
            0: "checked",
            1: "",
        }


def test_imported_offsets_outside_of_the_log_are_refused_or_moved_to_its_ends(servers: str, broker: Broker) -> None:
    broker.delete_records("orders", 0, 5)
    lines = b"orders,0,3\norders,1,99\n"
    told = problem("groups", "import", "-", "-g", "etl", "--yes", servers=servers, stdin=lines)
    assert "orders-0" in told
    output("groups", "import", "-", "-g", "etl", "--clamp", "--yes", servers=servers, stdin=lines)
    assert offsets(servers, "etl") == {0: 5, 1: 10}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("orders,0,3\n", "add --group"),
        ("a,orders,0,3\nb,orders,0,3\n", "is for a file of one group"),
        ("orders,0\n", "line 1: expected topic,partition,offset"),
        ("orders,0,3\norders,0,4\n", "line 2: orders-0 is there twice"),
        ("orders,0,-3\n", "line 1: expected"),
        ('{"topic": "orders", "partition": "0", "offset": 3}\n', "line 1: expected texts"),
        ('{"topic": "orders"}\n', "line 1: expected {"),
        ('{"topic": "orders", "partition": true, "offset": 3}\n', "line 1: expected texts"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "line 1: expected {"),
        (f"orders,0,{'9' * 5000}\n", "line 1: expected topic,partition,offset"),
        (f"orders,0,3\n{'x' * 200_000},0,3\n", "line 2: field larger than field limit"),
        ("\n", "no offsets"),
    ],
)
def test_a_file_that_holds_no_offsets_says_where(servers: str, text: str, told: str) -> None:
    group = [] if told == "add --group" else ["-g", "etl"]
    done = run("groups", "import", "-", *group, "--yes", servers=servers, stdin=text.encode())
    assert done.returncode in (1, 2)
    assert told in done.stderr.decode()
    assert offsets(servers, "etl") == {0: 3, 1: 10}


def test_a_file_that_is_no_text_is_told(servers: str, tmp_path: Path) -> None:
    file = tmp_path / "latin-1"
    file.write_bytes("ž,0,3\n".encode("iso-8859-2"))
    for command in (("groups", "import", str(file), "-g", "etl"), ("reassignments", "start", str(file))):
        assert problem(*command, "--yes", servers=servers).endswith(f": {file} is not UTF-8\n")
    assert "is not UTF-8" in problem("users", "set", "anna", "--password-file", str(file), servers=servers)
    assert offsets(servers, "etl") == {0: 3, 1: 10}


def test_a_group_is_moved_to_what_it_has_and_to_the_end_elsewhere(servers: str) -> None:
    output("groups", "reset", "nightly", "--to-current", "--topic", "orders", "--yes", servers=servers)
    assert offsets(servers, "nightly") == {0: 4, 1: 10}


@pytest.mark.parametrize(
    "line",
    [
        "offsets et1",
        "reset et1 --to 1 --yes",
        "reset et1 --to 5",
        "reset et1 --to-current --yes",
        "reset et1 --to-current --dry-run",
        "reset et1 --to earliest --yes",
        "export et1",
        "export etl et1",
        "delete-offsets et1 --topic orders --yes",
    ],
)
def test_a_group_that_does_not_exist_is_told_with_those_that_are_like_it(servers: str, line: str) -> None:
    told = problem("groups", *line.split(), servers=servers)
    assert "GROUP_ID_NOT_FOUND" in told
    assert told.endswith("; did you mean etl?\n")
    assert "et1" in told


@pytest.mark.parametrize("where", ["--to 4", "--to-current", "--to latest"])
def test_a_group_that_is_new_gets_offsets_of_a_topic(servers: str, where: str) -> None:
    output("groups", "reset", "fresh", *where.split(), "--topic", "orders", "-p", "1", "--yes", servers=servers)
    assert offsets(servers, "fresh") == {1: 4 if where == "--to 4" else 10}


def test_an_offset_that_looks_like_a_time_is_told_how_times_are_written(servers: str) -> None:
    time = "1796067079408"
    for command in (
        ("groups", "reset", "etl", "--to", time, "--yes"),
        ("consume", "orders", "--from", time),
        ("topics", "delete-records", "orders", "--before", time, "--yes"),
    ):
        assert problem(*command, servers=servers, code=1).rstrip().endswith(f"; for a time write @{time}")
    assert "for a time" not in problem("groups", "reset", "etl", "--to", "77", "--yes", servers=servers, code=1)


def test_a_group_that_has_committed_nothing_cannot_be_reset_as_a_whole(servers: str) -> None:
    # It exists with neither offsets nor members for a moment: once its only member has left.
    settings = {"bootstrap.servers": servers, "group.id": "idle", "enable.auto.commit": False}
    with monedula.Consumer(settings, ["orders"]) as consumer:
        while not consumer.assignment():
            consumer.poll(1)
    assert output("groups", "offsets", "idle", servers=servers) == ""
    for where in (("--to", "1"), ("--to-current",)):
        told = problem("groups", "reset", "idle", *where, "--yes", servers=servers)
        assert told.endswith("idle has committed nothing; --topic TOPIC sets its offsets of a topic\n")
    told = problem("groups", "export", "idle", servers=servers)
    assert told.endswith("idle has committed nothing\n")


def test_a_group_is_moved_by_a_duration(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    hours = 3_600_000
    with monedula.Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        now = time_of("0s ago")
        assert now is not None
        at = int(now.timestamp() * 1000)
        broker.append("orders", ["a", "b", "c"], timestamps=[at - 50 * hours, at - 3 * hours, at - hours])
        admin.alter_group_offsets("etl", {("orders", 0): 3})
    moved = []
    for duration in ("2h", "PT4H30M", "P3D", "100w"):
        output("groups", "reset", "etl", "--by-duration", duration, "--yes", servers=broker.bootstrap_servers)
        moved.append(offsets(broker.bootstrap_servers, "etl")[0])
    assert moved == [2, 1, 0, 0]
    for wrong in ("P", "PT", "2", "2y", "-2h"):
        told = problem("groups", "reset", "etl", f"--by-duration={wrong}", servers=broker.bootstrap_servers, code=2)
        assert "expected a time such as 30m" in told


def test_topics_of_a_group_are_named_by_a_pattern(servers: str) -> None:
    output("groups", "reset", "etl", "--to", "2", "--topic", "^ord", "--yes", servers=servers)
    assert offsets(servers, "etl") == {0: 2, 1: 2}
    output("groups", "delete-offsets", "etl", "--topic", "^o", "-p", "1", "--yes", servers=servers)
    assert offsets(servers, "etl") == {0: 2}
    assert "no topic matches ^x" in problem("groups", "reset", "etl", "--to", "2", "-t", "^x", servers=servers)
