"""Exit codes: 2 for a command line or settings that make no sense, 1 if the cluster or a file stands in the way."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from monedula.cli import running
from monedula.cli.app import FAMILIES, app
from monedula.testing import Broker

from tests.cli.processes import problem

WRONG: dict[str, str] = {
    "quickstart": "--port x",
    "consume": "orders --from soon",
    "produce": "orders --key-separator a -f json",
    "bench": "--embedded -b 127.0.0.1:1",
    "completion": "tcsh",
    "broker": "--setting num.partition=1",
    "topics list": "^(",
    "topics create": "orders --partitions many",
    "topics describe": "",
    "topics configs": "orders --set retention.ms=1 --unset retention.ms",
    "topics add-partitions": "orders",
    "topics elect-leaders": "--partition 0",
    "topics offsets": "orders --at 42",
    "topics delete-records": "orders --before earliest --yes",
    "topics delete": "orders",
    "groups list": "--state Asleep",
    "groups describe": "",
    "groups lag": "--watch",
    "groups offsets": "",
    "groups reset": "etl",
    "groups export": "etl -o etl.xlsx",
    "groups import": "",
    "groups delete-offsets": "etl",
    "groups delete": "etl",
    "transactions list": "--state Asleep",
    "transactions describe": "",
    "transactions producers": "",
    "transactions find-hanging": "--partition 0",
    "transactions abort": "orders --partition 0",
    "cluster describe": "-X bootstrap",
    "cluster quorum": "-X acks=maybe",
    "brokers list": "-X sasl.password=secret",
    "brokers describe": "one",
    "configs list": "tables",
    "configs describe": "broker one",
    "configs set": "topic orders",
    "configs delete": "topic orders",
    "reassignments plan": "--brokers one",
    "reassignments start": "",
    "reassignments status": "--interval soon",
    "reassignments cancel": "--topic ^(",
    "log-dirs list": "--broker one",
    "log-dirs replicas": "--largest many",
    "log-dirs move": "orders --broker 1",
    "acls list": "--operation fly",
    "acls add": "--principal User:anna",
    "acls remove": "",
    "users list": "-X no.such.setting=1",
    "users set": "anna --mechanism PLAIN",
    "users delete": "",
    "quotas list": "--user anna --default user",
    "quotas set": "producer_byte_rate=1",
    "quotas remove": "producer_byte_rate",
    "tokens list": "--nothing",
    "tokens create": "--lifetime soon",
    "tokens renew": "",
    "tokens expire": "",
    "land topic": "orders ./lake --format csv",
    "land check": "./lake",
    "land compact": "./lake --target-size much",
    "land clean": "./lake --older-than long",
    "schema infer": "orders -o yaml",
    "schemas list": "",
    "schemas show": "orders-value",
    "schemas versions": "orders-value",
    "schemas register": "orders-value {lines} --type xml",
    "schemas check": "orders-value {lines} --reference item",
}
"""A command line for each command that makes no sense, also without a cluster."""

FAILING: dict[str, str] = {
    "consume": "missing",
    "produce": "missing -i {lines}",
    "topics create": "orders",
    "topics describe": "missing",
    "topics configs": "missing",
    "topics add-partitions": "orders --to 1",
    "topics elect-leaders": "orders --partition 9",
    "topics offsets": "missing",
    "topics delete-records": "missing --before latest --yes",
    "topics delete": "missing --yes",
    "groups describe": "missing",
    "groups lag": "missing",
    "groups reset": "missing --to earliest --yes",
    "groups export": "missing",
    "groups import": "{lines} --group etl --yes",
    "groups delete-offsets": "missing --topic orders --yes",
    "groups delete": "missing --yes",
    "transactions describe": "missing",
    "transactions producers": "missing",
    "transactions find-hanging": "--topic missing",
    "transactions abort": "orders --partition 0 --start-offset 7 --yes",
    "brokers describe": "99",
    "configs describe": "topic missing",
    "configs set": "topic orders retention.ms=soon",
    "configs delete": "topic orders --all --yes",
    "reassignments plan": "--brokers 99",
    "reassignments start": "{lines} --yes",
    "log-dirs move": "orders --broker 1 --to /nowhere --yes",
    "acls remove": "--principal User:nobody --yes",
    "users delete": "nobody --yes",
    "quotas remove": "producer_byte_rate --user nobody",
    "tokens renew": "missing",
    "tokens expire": "missing",
    "schema infer": "missing",
    "schemas list": "-X schema.registry.url=http://127.0.0.1:1 -X schema.registry.max.retries=0",
    "schemas show": "s -X schema.registry.url=http://127.0.0.1:1 -X schema.registry.max.retries=0",
    "schemas versions": "s -X schema.registry.url=http://127.0.0.1:1 -X schema.registry.max.retries=0",
    "schemas register": "s {lines} -X schema.registry.url=http://127.0.0.1:1",
    "schemas check": "s {lines} -X schema.registry.url=http://127.0.0.1:1",
    "broker": "--users-file /nowhere",
}
"""A command line for each command that the state of this cluster, or of a file, keeps from working."""

WITHOUT_CLUSTER = ("quickstart", "bench", "completion", "broker")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(topics={"orders": 1}, settings={"auto.create.topics.enable": False}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines"
    file.write_text("no plan, and no offsets\n")
    return file


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    # Its handler would write to a stream that ends with the test.
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    monkeypatch.setattr(sys, "argv", ["monedula", *arguments])
    with pytest.raises(SystemExit) as ended:
        running.run(app)
    return ended.value.code


def test_every_command_is_in_the_table() -> None:
    alone = {command.name for command in app.registered_commands}
    nested = {f"{name} {verb}" for name, family in FAMILIES.items() for verb, *_ in family.COMMANDS}
    assert WRONG.keys() == alone | nested


@pytest.mark.parametrize("command", WRONG)
def test_a_command_line_that_makes_no_sense_is_code_2(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MONEDULA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert exit_code(monkeypatch, *command.split(), *WRONG[command].split()) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1), said
    assert said.err.startswith(f"monedula {command}: ")


@pytest.mark.parametrize("command", FAILING)
def test_a_command_that_the_cluster_or_a_file_stands_in_the_way_of_is_code_1(
    command: str, servers: str, lines: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MONEDULA_BOOTSTRAP_SERVERS", servers)
    assert exit_code(monkeypatch, *command.split(), *FAILING[command].format(lines=lines).split()) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1), said
    assert said.err.startswith(f"monedula {command}: ")


@pytest.mark.parametrize("command", [command for command in FAILING if command not in WITHOUT_CLUSTER])
def test_a_cluster_that_does_not_answer_is_code_1(
    command: str, lines: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MONEDULA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    arguments = [*command.split(), *FAILING[command].format(lines=lines).split()]
    assert exit_code(monkeypatch, *arguments, "-X", "bootstrap.timeout.ms=100") == 1
    assert capsys.readouterr().err.startswith(f"monedula {command}: ")


ELSEWHERE: dict[str, str] = {
    "consume -t orders": "the topic stands alone: monedula consume orders",
    "consume orders -c 3": "here: -n COUNT",
    "consume -C orders": "leave it out",
    "consume orders -o beginning": "where reading begins is --from WHERE",
    "consume --from-beginning orders": "leave it out",
    "produce orders text": "echo text | monedula produce orders",
    "produce -P orders": "leave it out",
    "topics list --bootstrap-server 127.0.0.1:1": "here: -b HOST:PORT",
    "consume orders --key-as number": "Invalid value for '--key-as': 'number' is not one of 'auto', 'string',",
    "configs describe tables orders": "Invalid value for 'kind': 'tables' is not one of 'topic', 'broker',",
}
"""Command lines in the manner of kcat and of Kafka's own tools, and what the message says to write."""


@pytest.mark.parametrize("line", ELSEWHERE)
def test_who_writes_what_another_tool_takes_is_told_what_to_write(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    assert exit_code(monkeypatch, *line.split()) == running.WRONG_ARGUMENTS
    told = capsys.readouterr().err
    assert ELSEWHERE[line] in told
    assert "Value error" not in told


def test_a_file_of_users_that_is_no_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_bytes(b"anna=\xff\n")
    assert problem("broker", "--port", "0", "--users-file", str(file)).endswith(f"{file} is not UTF-8\n")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("consume orders --decode json --schema none.json", "--schema none.json: there is no such file"),
        ("consume orders --decode avro --schema none.avsc", "--schema none.avsc: there is no such file"),
        ("consume orders --decode protobuf --schema none.proto", "--schema none.proto: there is no such file"),
        ("consume orders --decode avro --schema {binary}", "the file is not UTF-8"),
        (
            "consume orders --decode avro --schemas none.json",
            "--schemas: none.json: No such file or directory; expected {",
        ),
        ("consume orders --decode avro --schemas {binary}", "--schemas: "),
        ("consume orders --decode avro --schemas {ids}", "--schemas none.avsc: there is no such file"),
        ("produce orders --encode avro --schema none.avsc", "--schema none.avsc: there is no such file"),
        ("produce orders --key-encode json --key-schema none.json", "--key-schema none.json: there is no such file"),
        ("produce orders -i none", "none: No such file or directory"),
        ("topics list -F none", "none: No such file or directory"),
        ("topics list -F {binary}", "is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_code_1_whatever_option_names_it(tmp_path: Path, line: str, told: str) -> None:
    binary, ids = tmp_path / "binary", tmp_path / "ids"
    binary.write_bytes(b"\xff")
    ids.write_text('{"7": "none.avsc"}')
    said = problem(*(each.format(binary=binary, ids=ids) for each in line.split()), cwd=tmp_path)
    assert told in said
    assert "--help" not in said


@pytest.mark.parametrize("line", ["produce a,b", "schema infer a,b", "topics describe a,b", "topics list a,b"])
def test_a_name_that_no_topic_can_have_is_code_2(line: str) -> None:
    told = problem(*line.split(), code=2)
    assert "'a,b' is no topic's name: expected 1 to 249 of" in told
    assert "()" not in told


def test_numbers_of_thousands_of_digits_are_told(servers: str) -> None:
    many = "9" * 5000
    for option, told in (
        (("consume", "orders", "-p", many), "expected a number, or several"),
        (("consume", "orders", "--from", many), "expected an offset"),
        (("groups", "reset", "etl", "--by-duration", f"{many}m"), "expected a time"),
        (("groups", "reset", "etl", "--by-duration", f"PT{many}H"), "expected a time"),
    ):
        assert told in problem(*option, servers=servers, code=2)
