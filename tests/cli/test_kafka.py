"""Parts of the command line on a real Kafka, in which the embedded broker could differ."""

import json
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.cli.processes import output, problem
from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster


@pytest.fixture
def servers(kafka: KafkaCluster) -> str:
    return kafka.bootstrap


def test_lines_go_in_and_come_out(servers: str, topic: TopicFactory, tmp_path: Path) -> None:
    name = topic(partitions=3)
    lines = "".join(f"key-{row % 7}:value-{row}\n" for row in range(1000))
    output("produce", name, "-k", ":", "-z", "zstd", servers=servers, stdin=lines.encode())
    assert sorted(output("consume", name, "-k", ":", servers=servers).splitlines()) == sorted(lines.splitlines())
    file = tmp_path / "out.parquet"
    output("consume", name, "--from", "1h ago", "-o", str(file), servers=servers)
    assert pyarrow.parquet.read_table(file).num_rows == 1000
    output("produce", name, "-i", str(file), servers=servers)
    assert len(output("consume", name, servers=servers).splitlines()) == 2000


def test_a_topic_and_its_groups_are_administered(servers: str, topic: TopicFactory) -> None:
    name = topic(partitions=1)
    group = f"group-of-{name}"
    output("topics", "add-partitions", name, "--to", "2", servers=servers)
    output("topics", "configs", name, "--set", "retention.ms=86400000", servers=servers)
    shown = output("topics", "configs", name, "--json", servers=servers)
    assert {row["name"]: row["value"] for row in map(json.loads, shown.splitlines())}["retention.ms"] == "86400000"
    output("produce", name, "-p", "1", servers=servers, stdin=b"a\nb\nc\n")
    assert output("consume", name, "--group", group, "-n", "3", servers=servers) == "a\nb\nc\n"
    output("groups", "reset", group, "--shift", "-1", "--yes", servers=servers)
    lag = [json.loads(line) for line in output("groups", "lag", group, "--json", servers=servers).splitlines()]
    assert {row["partition"]: row["lag"] for row in lag}[1] == 1
    rows = [line.split("\t") for line in output("topics", "describe", name, servers=servers).splitlines()]
    assert [row[6:] for row in rows] == [["0", "0"], ["0", "3"]]
    output("groups", "delete", group, "--yes", servers=servers)
    assert group in problem("groups", "lag", group, servers=servers)
    output("topics", "delete", name, "--yes", servers=servers)
    assert name in problem("consume", name, servers=servers)
