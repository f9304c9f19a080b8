"""Java's tools and clients, each a JVM of its own as its shell script would start it."""

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.interop.process import Driver
from tests.kafka import jars, prepared
from tests.kafka.embedded import EmbeddedCluster

TOOL_SECONDS = 60.0

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
ACLS = "org.apache.kafka.tools.AclCommand" if jars.speaks("4.0") else "kafka.admin.AclCommand"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"


class ToolFailed(Exception):
    """A tool failed; the message is its output."""


def command(main: str | Path, *arguments: str, java_options: Sequence[str] | None = None) -> list[str]:
    """The command line of a class, or of a source file.

    Args:
        main: the class, or the file.
        arguments: its own.
        java_options: in place of those with which it starts faster.
    """
    options = ["-XX:-UsePerfData", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
    options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", jars.tools_class_path()]
    return [jars.java(), *options, *(java_options or loaded_before()), str(main), *arguments]


@cache
def loaded_before() -> list[str]:
    """Options of a tool's JVM, with which it starts faster."""
    return prepared.loaded_before("tools", jars.tools_class_path(), _list_topics)


def _list_topics(java_options: Sequence[str]) -> None:
    with EmbeddedCluster() as cluster:
        arguments = ("--bootstrap-server", cluster.bootstrap, "--list")
        subprocess.run(
            command(TOPICS, *arguments, java_options=java_options),
            check=True,
            capture_output=True,
            timeout=TOOL_SECONDS,
        )


def tool(main: str, bootstrap: str, *arguments: str, given: str = "") -> str:
    """Run a tool to its end and return its output.

    Args:
        main: its class.
        bootstrap: the server.
        arguments: of the tool.
        given: its standard input.

    Raises:
        ToolFailed: it ended with an error.
    """
    ran = subprocess.run(
        command(main, "--bootstrap-server", bootstrap, *arguments),
        input=given,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
    )
    if ran.returncode != 0:
        raise ToolFailed(f"{main} {' '.join(arguments)}: {ran.returncode}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}")
    return ran.stdout


def table(text: str) -> list[dict[str, str]]:
    """A tool's table, by the names in its head: the first line that is all upper case."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    start = next(n for n, words in enumerate(lines) if words and words[0].isupper())
    return [dict(zip(lines[start], words, strict=False)) for words in lines[start + 1 :]]


def running(main: str | Path, *arguments: str) -> Driver:
    """A tool that keeps running, and prints events as lines of JSON."""
    return Driver(command(main, *arguments))
