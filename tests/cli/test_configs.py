"""`monedula configs`: settings of topics, brokers and groups, and which commands never take a secret."""

import json
from pathlib import Path

import pytest
from monedula.testing import Broker

from tests.cli.processes import output, problem, run


@pytest.fixture
def servers(broker: Broker) -> str:
    """A broker with the topics `orders` and `other`."""
    broker.create_topic("orders", 1)
    broker.create_topic("other", 1)
    return broker.bootstrap_servers


def described(servers: str, *arguments: str) -> dict[str, tuple[str, str]]:
    text = output("configs", "describe", *arguments, "--json", servers=servers)
    return {row["setting"]: (row["value"], row["source"]) for row in map(json.loads, text.splitlines())}


def test_settings_of_a_topic_are_shown_set_and_deleted(servers: str) -> None:
    assert described(servers, "topic", "orders") == {}
    assert described(servers, "topic", "orders", "--all")["retention.ms"] == ("604800000", "default")
    done = run("configs", "set", "topic", "orders", "retention.ms=5", "max.message.bytes=7", servers=servers)
    assert (done.returncode, done.stderr) == (0, b"changed retention.ms, max.message.bytes of topic orders\n")
    output("configs", "set", "topic", "orders", "--append", "cleanup.policy=compact", servers=servers)
    assert described(servers, "topic", "orders") == {
        "cleanup.policy": ("delete,compact", "topic"),
        "max.message.bytes": ("7", "topic"),
        "retention.ms": ("5", "topic"),
    }
    output("configs", "set", "topic", "orders", "--subtract", "cleanup.policy=delete", servers=servers)
    assert described(servers, "topic", "orders")["cleanup.policy"] == ("compact", "topic")
    output("configs", "delete", "topic", "orders", "retention.ms", servers=servers)
    assert "retention.ms" not in described(servers, "topic", "orders")
    assert "add --yes" in problem("configs", "delete", "topic", "orders", "--all", servers=servers, code=2)
    output("configs", "delete", "topic", "orders", "--all", "--yes", servers=servers)
    assert described(servers, "topic", "orders") == {}


def test_settings_of_several_topics_are_shown(servers: str) -> None:
    output("configs", "set", "topic", "orders", "retention.ms=5", servers=servers)
    output("configs", "set", "topic", "other", "retention.ms=6", servers=servers)
    shown = [
        line.split("\t")[:3] for line in output("configs", "describe", "topic", "^o", servers=servers).splitlines()
    ]
    assert shown == [["orders", "retention.ms", "5"], ["other", "retention.ms", "6"]]


def test_settings_of_brokers_and_groups(servers: str) -> None:
    output("configs", "set", "broker", "all", "log.retention.ms=5", servers=servers)
    assert described(servers, "broker", "all")["log.retention.ms"] == ("5", "all brokers")
    output("configs", "set", "broker", "1", "log.retention.ms=6", servers=servers)
    assert described(servers, "broker", "1")["log.retention.ms"] == ("6", "broker")
    output("configs", "delete", "broker", "1", "--all", "--yes", servers=servers)
    output("configs", "delete", "broker", "all", "log.retention.ms", servers=servers)
    assert "log.retention.ms" not in described(servers, "broker", "all")
    output("configs", "set", "group", "etl", "consumer.session.timeout.ms=50000", servers=servers)
    assert output("configs", "list", "group", servers=servers) == "group\tetl\n"
    assert described(servers, "group", "etl") == {"consumer.session.timeout.ms": ("50000", "group")}
    listed = output("configs", "list", servers=servers).splitlines()
    assert {"broker\t1", "group\tetl", "topic\torders", "topic\tother"} <= set(listed)
    assert "expected the id of a broker, or all" in problem(
        "configs", "describe", "broker", "b", servers=servers, code=2
    )


def test_a_dry_run_checks_and_changes_nothing(servers: str) -> None:
    done = run("configs", "set", "topic", "orders", "retention.ms=5", "--dry-run", servers=servers)
    assert done.stderr == b"would change retention.ms of topic orders\n"
    assert "retention.ms" in problem(
        "configs", "set", "topic", "orders", "retention.ms=x", "--dry-run", servers=servers
    )
    assert described(servers, "topic", "orders") == {}


def test_the_broker_documents_its_settings(servers: str) -> None:
    text = output("configs", "describe", "topic", "orders", "--all", "--documentation", "--json", servers=servers)
    assert all("documentation" in json.loads(line) for line in text.splitlines())


@pytest.mark.parametrize(
    "key",
    ["ssl.keystore.password", "listener.name.x.ssl.key.password", "listener.name.x.plain.sasl.jaas.config", "a.secret"],
)
def test_a_secret_is_no_argument_but_comes_from_a_file_or_a_pipe(servers: str, key: str, tmp_path: Path) -> None:
    told = problem("configs", "set", "broker", "1", f"{key}=hush", servers=servers, code=2)
    assert "--file" in told
    assert "hush" not in told
    file = tmp_path / "secret.properties"
    file.write_text(f"{key}=hush\n")
    for options, stdin in ((("--file", str(file)), b""), (("--file", "-"), file.read_bytes())):
        done = run("configs", "set", "broker", "1", *options, "--dry-run", servers=servers, stdin=stdin)
        # The embedded broker does not know each of them; it was asked, and what it says has no secret in it.
        assert b"hush" not in done.stderr
        assert key.encode() in done.stderr


def test_what_is_to_change_has_to_be_said_once(servers: str) -> None:
    change = ("configs", "set", "topic", "orders")
    assert "say what to change" in problem(*change, servers=servers, code=2)
    assert "given twice" in problem(*change, "a=1", "--append", "a=2", servers=servers, code=2)
    assert "expected key=value" in problem(*change, "retention.ms", servers=servers, code=2)
    assert "name the settings, or give --all" in problem(
        "configs", "delete", "topic", "orders", servers=servers, code=2
    )
    assert "no settings of its own" in problem("configs", "delete", "topic", "other", "--all", "-y", servers=servers)
    assert "missing" in problem("configs", "describe", "topic", "missing", servers=servers)
    assert "is not one of" in problem("configs", "describe", "topics", "orders", servers=servers, code=2)
