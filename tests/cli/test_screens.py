"""Lists on a terminal of 80 columns: sorted, and no line is wider or broken."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import monedula
import pytest
from monedula.admin import Admin, NewTopic
from monedula.cli.app import FAMILIES
from monedula.testing import Broker

from tests.cli.processes import COMMAND, Terminal, environment, output, run

TOPIC = "a-topic-with-a-name-of-some-length"


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Three nodes, with topics, groups and settings; names are long."""
    with Broker(nodes=3, settings={"auto.create.topics.enable": False}) as broker:
        with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            admin.create_topics(NewTopic(TOPIC, assignments={0: [1, 2, 3], 1: [2, 3, 1]}))
            admin.create_topics(["zebra", "cobra"], partitions=1, replication_factor=1)
            admin.alter_group_offsets("some-service-in-production", {(TOPIC, 0): 3, (TOPIC, 1): 0, ("cobra", 0): 0})
            admin.fence_producers(["some-service-in-production-7", "some-service-in-production-8"])
            admin.alter_configs({TOPIC: {"retention.ms": 86_400_000, "max.message.bytes": 2_000_000}})
        broker.append(TOPIC, [("key", "x")] * 1000)
        yield broker


LISTS = [
    ("topics", "list", "--internal"),
    ("topics", "describe", TOPIC),
    ("topics", "configs", TOPIC),
    ("topics", "offsets", TOPIC, "--at", "earliest"),
    ("groups", "list"),
    ("groups", "lag"),
    ("groups", "lag", "some-service-in-production"),
    ("groups", "offsets", "some-service-in-production"),
    ("transactions", "list"),
    ("transactions", "describe", "some-service-in-production-7"),
    ("cluster", "describe"),
    ("cluster", "quorum"),
    ("brokers", "list"),
    ("brokers", "describe", "1"),
    ("configs", "list"),
    ("configs", "describe", "topic", TOPIC),
    ("log-dirs", "list"),
    ("log-dirs", "replicas", "--topic", TOPIC),
    ("reassignments", "plan", "--topic", TOPIC, "--brokers", "1,2", "-r", "2"),
]


@pytest.mark.parametrize("arguments", LISTS, ids=" ".join)
def test_a_list_fits_80_columns_and_breaks_no_cell(
    arguments: tuple[str, ...], broker: Broker, terminal: Callable[..., Terminal]
) -> None:
    screen = terminal(*arguments, servers=broker.bootstrap_servers, columns=80)
    assert screen.end() == 0
    lines = [line.rstrip() for line in screen.text.splitlines() if line.strip()]
    assert max(map(len, lines)) <= 80
    rule = next(number for number, line in enumerate(lines) if set(line.strip()) == {"─"})
    piped = output(*arguments, servers=broker.bootstrap_servers).splitlines()
    # A broken cell would make more lines than rows; what a command says comes after the table, or before it.
    said = ("not shown:", "total:", "0 of", "1 of", "2 of")
    body = [line for line in lines[rule + 1 :] if not line.startswith(said)]
    assert len(body) == len(piped)


def test_lists_are_sorted(broker: Broker) -> None:
    servers = broker.bootstrap_servers

    def first_column(*arguments: str) -> list[str]:
        return [line.split("\t")[0] for line in output(*arguments, servers=servers).splitlines()]

    for arguments in (("topics", "list"), ("topics", "describe", "zebra", "cobra"), ("groups", "list")):
        assert first_column(*arguments) == sorted(first_column(*arguments))


def test_columns_that_do_not_fit_are_named(broker: Broker, terminal: Callable[..., Terminal]) -> None:
    narrow = terminal("topics", "describe", TOPIC, servers=broker.bootstrap_servers, columns=80)
    assert narrow.end() == 0
    assert "not shown: offline" in narrow.text
    wide = terminal("topics", "describe", TOPIC, servers=broker.bootstrap_servers, columns=160)
    assert wide.end() == 0
    assert "not shown" not in wide.text
    assert "offline" in wide.text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    script = output("completion", shell)
    assert f"_MONEDULA_COMPLETE=complete_{shell}" in script
    words = {"COMP_WORDS": "monedula reass", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "monedula reass"}
    more = {"_MONEDULA_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        COMMAND, env=environment(None, **words, **more), capture_output=True, text=True, timeout=60, check=False
    )
    assert "reassignments" in done.stdout
    assert "is not one of" in run("completion", "tcsh").stderr.decode()


def test_completion_in_bash() -> None:
    script = f"""
monedula() {{ {sys.executable} -m monedula "$@"; }}
source <(monedula completion bash)
COMP_WORDS=(monedula groups ex) COMP_CWORD=2
_monedula_completion {sys.executable.rsplit("/", 1)[0]}/monedula
echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "export\n", done.stderr


def test_a_member_is_described_in_80_columns(broker: Broker, terminal: Callable[..., Terminal]) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "live", "client.id": "a-reader-with-a-name"}
    with monedula.Consumer(config, [TOPIC]) as consumer:
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
        screen = terminal("groups", "describe", "live", servers=broker.bootstrap_servers, columns=80)
        assert screen.end() == 0
    assert max(len(line.rstrip()) for line in screen.text.splitlines()) <= 80
    assert "a-reader-with-a-name" in screen.text


def completed(line: str, servers: str) -> tuple[str, str]:
    """What a shell is offered at the end of a line, and the standard error."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1), "_MONEDULA_COMPLETE": "complete_bash"}
    done = subprocess.run(
        COMMAND, env=environment(servers, **words), capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("monedula topics describe ze", "zebra"),
        ("monedula consume a-", TOPIC),
        ("monedula groups lag --topic co", "cobra"),
        ("monedula groups reset some-", "some-service-in-production"),
        ("monedula topics describe x", ""),
        ("monedula configs describe topic ze", "zebra"),
        ("monedula configs describe broker a", "all"),
        ("monedula configs delete broker-logger 1", "1"),
        ("monedula configs set group some-", "some-service-in-production"),
        ("monedula configs set topic zebra retention.m", "retention.ms="),
        ("monedula configs delete topic zebra retention.m", "retention.ms"),
    ],
)
def test_names_of_the_cluster_are_completed(broker: Broker, line: str, names: str) -> None:
    assert completed(line, broker.bootstrap_servers) == (names, "")


@pytest.mark.parametrize("line", ["monedula topics describe ze", "monedula configs set topic zebra retention.m"])
def test_nothing_is_completed_where_no_broker_answers(line: str) -> None:
    assert completed(line, "127.0.0.1:1") == ("", "")


@pytest.mark.parametrize("family", ["", *FAMILIES])
def test_no_summary_of_a_command_is_cut_at_80_columns(family: str) -> None:
    done = run(*filter(None, [family]), "--help", COLUMNS="80")
    _, commands = done.stdout.decode().split("Commands:\n")
    assert [line for line in commands.splitlines() if line.endswith("...") or len(line) > 80] == []
