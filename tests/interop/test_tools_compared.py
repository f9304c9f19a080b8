"""Kafka's own tools on the embedded broker and on a real Kafka: the same exit codes, and the same output.

Lines are compared without their order. What differs in any case (addresses, ids, times) is replaced; of a failure the
kind of error is compared, not its words.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.interop import java
from tests.interop.servers import Embedded, RealKafka, Server
from tests.interop.tool_commands import CHAPTERS, FILES, Command

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.timeout(1800)]

_NO_GROUPS = "no share groups and no Streams groups"

EXPECTED: dict[str, tuple[str, str]] = {
    "configs: ConfigCommand --describe --all --topic {t}": ("^segment.bytes=", "segments are of 16 MiB by default"),
    "cluster: FeatureCommand describe": (r"^Feature: (share|streams)\.version ", _NO_GROUPS),
    "cluster: FeatureCommand downgrade --feature group.version=0 --dry-run": (
        "^ended with|^group.version can be downgraded to 0.$",
        "a feature keeps its level; `max_versions` sets which Kafka is simulated",
    ),
    "cluster: BrokerApiVersionsCommand ": (
        r"Share|Streams|RaftVoter\(|UnregisterBroker\(|UNKNOWN\(9[34]\)|WriteTxnMarkers\(",
        f"{_NO_GROUPS}, no changes of the quorum, nothing of what brokers ask each other",
    ),
}
"""Commands whose outputs differ on purpose: the pattern of the lines that do, and the reason (`docs/broker.md`)."""

REPLACED = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,+Z]*"), "<time>"),
    (re.compile(r"(127\.0\.0\.1|localhost)[: ]+\d+"), "<address>"),
    (re.compile(r"(Cluster ?I[dD]: )\S+"), r"\1<id>"),
    (re.compile(r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w(-])"), "<id>"),
    (re.compile(r"(?<![\w.])1[6-9]\d{11}(?!\w)"), "<ms>"),
    (re.compile(r"(/tmp/|/memory)[^\s\"]*"), "<path>"),
    # Times between the records of a batch have more bytes if they are longer.
    (re.compile(r'"size":\d+'), '"size":<bytes>'),
    # How far the metadata have come: by a command, in the table of replicas, and as a feature's epoch.
    (re.compile(r"(HighWatermark: |<id> |Epoch: )\d+\b"), r"\1<offset>"),
    (re.compile(r"(tries=|after )\d+"), r"\1<tries>"),
)
ERROR = re.compile(r"\b([A-Z]\w*(?:Exception|Error))\b")


def outcome(command: Command, server: Server, names: dict[str, str]) -> Counter[str]:
    """Run a command. Returns the lines that its user sees, as far as they are compared."""
    arguments = [_named(word, names) for word in command.line.split()]
    # Some tools have subcommands, and take the server behind them or before them.
    place = 1 if command.main.endswith("ClusterTool") else 0
    arguments[place:place] = ["--bootstrap-server", server.bootstrap]
    ran = subprocess.run(
        java.command(command.main, *arguments), input=command.given, capture_output=True, text=True, timeout=120
    )
    text = f"{ran.stdout}\n{ran.stderr}"
    if ran.returncode != 0:
        return Counter([f"ended with {ran.returncode}", *set(ERROR.findall(text))])
    # Columns are as wide as their longest value.
    text = "\n".join(" ".join(line.split()) for line in text.splitlines())
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    lines = [line for line in text.splitlines() if line and not line.startswith(("SLF4J", "[main]"))]
    return Counter(["ended with 0", *map(_quotas_sorted, lines)])


def _quotas_sorted(line: str) -> str:
    # Kafka has them in the order of a hash table, which is another one after the next change.
    what, are, quotas = line.partition(" are ")
    return f"{what}{are}{', '.join(sorted(quotas.split(', ')))}" if line.startswith("Quota configs") else line


def _named(word: str, names: dict[str, str]) -> str:
    for placeholder, name in names.items():
        word = word.replace(f"{{{placeholder}}}", name)
    return word


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_tool_shows_the_same(chapter: str, real: RealKafka, embedded: Embedded, tmp_path: Path) -> None:
    stem = f"tools-{chapter.replace(' ', '-')}"
    names = {"t": stem, "g": f"{stem}-group", "dir": str(tmp_path)}
    for name, content in FILES.items():
        (tmp_path / name).write_text(_named(content, names))
    problems: list[str] = []
    for number, command in enumerate(CHAPTERS[chapter], 1):
        theirs, ours = (outcome(command, server, names) for server in (real, embedded))
        differ = [("kafka", line) for line in theirs - ours] + [("ours", line) for line in ours - theirs]
        expected = EXPECTED.get(f"{chapter}: {command}")
        lines = [f"  {whose}: {line}" for whose, line in differ if not (expected and re.search(expected[0], line))]
        if expected and not differ:
            lines = [f"  a difference that is expected has gone: {expected[1]}"]
        if lines:
            problems += [f"{number}. {command}", *lines]
    assert not problems, "\n".join(problems)
