"""Java's command line tools."""

import json
from pathlib import Path

import pytest

from tests.interop import java
from tests.interop.conftest import Unique
from tests.interop.servers import Server

pytestmark = pytest.mark.jvm


def test_topics_and_configs(server: Server, unique: Unique) -> None:
    topic, at = unique("topic"), server.bootstrap
    java.tool(java.TOPICS, at, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=60000")
    with pytest.raises(java.ToolFailed, match="already exists"):
        java.tool(java.TOPICS, at, "--create", "--topic", topic)
    java.tool(java.TOPICS, at, "--alter", "--topic", topic, "--partitions", "3")
    described = java.tool(java.TOPICS, at, "--describe", "--topic", topic)
    assert "PartitionCount: 3\tReplicationFactor: 1" in described
    assert "retention.ms=60000" in described
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 3
    java.tool(java.CONFIGS, at, "--alter", "--topic", topic, "--add-config", "cleanup.policy=[compact,delete]")
    java.tool(java.CONFIGS, at, "--alter", "--topic", topic, "--delete-config", "retention.ms")
    configs = java.tool(java.CONFIGS, at, "--describe", "--topic", topic)
    assert "cleanup.policy=compact,delete sensitive=false" in configs
    assert "retention.ms" not in configs
    everything = java.tool(java.CONFIGS, at, "--describe", "--all", "--topic", topic)
    assert "retention.ms=604800000" in everything
    with pytest.raises(java.ToolFailed, match=r"InvalidConfig|Invalid value"):
        java.tool(java.CONFIGS, at, "--alter", "--topic", topic, "--add-config", "retention.ms=soon")
    java.tool(java.TOPICS, at, "--delete", "--topic", topic)
    assert topic not in java.tool(java.TOPICS, at, "--list").split()


def test_groups_and_offsets(server: Server, unique: Unique, tmp_path: Path) -> None:
    topic, group, at = unique("topic"), unique("group"), server.bootstrap
    java.tool(java.CONSOLE_PRODUCER, at, "--topic", topic, given="".join(f"v{n}\n" for n in range(10)))
    java.tool(
        java.CONSOLE_CONSUMER,
        at,
        "--topic",
        topic,
        "--group",
        group,
        "--from-beginning",
        "--max-messages",
        "10",
        "--timeout-ms",
        "30000",
    )
    assert java.tool(java.OFFSETS, at, "--topic", topic).split() == [f"{topic}:0:10"]

    def described() -> tuple[str, str, str]:
        row = java.table(java.tool(java.GROUPS, at, "--describe", "--group", group))[0]
        return row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]

    assert described() == ("10", "10", "0")
    state = java.table(java.tool(java.GROUPS, at, "--describe", "--group", group, "--state"))[0]
    # Which columns are empty in an empty group differs between releases; the last two are the state and the members.
    assert list(state.values())[-2:] == ["Empty", "0"]
    kinds = {row["GROUP"]: row["TYPE"] for row in java.table(java.tool(java.ALL_GROUPS, at, "--list"))}
    assert kinds[group] == "Classic"
    by = ("--reset-offsets", "--group", group, "--topic", topic, "--execute")
    java.tool(java.GROUPS, at, *by, "--shift-by", "-3")
    assert described() == ("7", "10", "3")
    java.tool(java.GROUPS, at, *by, "--to-datetime", "2020-01-01T00:00:00.000")
    assert described() == ("0", "10", "10")

    before = tmp_path / "before.json"
    before.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}))
    deleted = java.tool(java.DELETE_RECORDS, at, "--offset-json-file", str(before))
    assert f"partition: {topic}-0\tlow_watermark: 4" in deleted
    assert java.tool(java.OFFSETS, at, "--topic", topic, "--time", "earliest").split() == [f"{topic}:0:4"]
    java.tool(java.GROUPS, at, "--delete-offsets", "--group", group, "--topic", topic)
    assert "deletion" in java.tool(java.GROUPS, at, "--delete", "--group", group).lower()
    assert group not in java.tool(java.GROUPS, at, "--list").split()


def test_transactions_and_leaders(server: Server, unique: Unique) -> None:
    topic, at = unique("topic"), server.bootstrap
    java.tool(java.CONSOLE_PRODUCER, at, "--topic", topic, given="v\n")
    producers = java.tool(java.TRANSACTIONS, at, "describe-producers", "--topic", topic, "--partition", "0")
    assert [line.split()[3] for line in producers.splitlines()[1:]] == ["0"], "the last sequence"
    assert java.tool(java.TRANSACTIONS, at, "list").startswith("TransactionalId")
    with pytest.raises(java.ToolFailed, match="the ID could not be found"):
        java.tool(java.TRANSACTIONS, at, "describe", "--transactional-id", unique("nobody"))
    elected = java.tool(java.LEADER_ELECTION, at, "--election-type", "PREFERRED", "--topic", topic, "--partition", "0")
    assert "Valid replica already elected for partitions" in elected


def test_api_versions_and_features(server: Server) -> None:
    offered = java.tool(java.API_VERSIONS, server.bootstrap)
    assert offered.startswith(f"{server.bootstrap} (id: 1")
    assert "Metadata(3): 0 to 13 [usable: 13]" in offered
    features = java.tool(java.FEATURES, server.bootstrap, "describe")
    levels = {line.split()[1]: line for line in features.splitlines() if line.startswith("Feature:")}
    assert "FinalizedVersionLevel: 2" in levels["transaction.version"]
    assert "FinalizedVersionLevel: 1" in levels["group.version"]
