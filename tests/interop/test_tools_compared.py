"""Kafka's own tools on the embedded broker and on a real Kafka: the same exit codes, and the same output.

Lines are compared without their order. What differs in any case (addresses, ids, times) is replaced; of a failure the
kind of error is compared, not its words.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop import java
from tests.interop.servers import Embedded, RealKafka, Server
from tests.interop.tool_commands import CHAPTERS, FILES, Command

pytestmark = [pytest.mark.slow, pytest.mark.jvms(1), pytest.mark.timeout(1800)]

EXPECTED: dict[str, str] = {}
"""Commands, as they are shown, whose outputs differ on purpose, each with the reason."""

REPLACED = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,+Z]*"), "<time>"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), "<address>"),
    (re.compile(r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])"), "<id>"),
    (re.compile(r"(?<![\w.])1[6-9]\d{11}(?!\w)"), "<ms>"),
    (re.compile(r"/tmp/\S+|/memory\S*"), "<path>"),
)
ERROR = re.compile(r"\b([A-Z]\w*(?:Exception|Error))\b")


@dataclass(frozen=True)
class Outcome:
    """What a tool's user sees, as far as it is compared."""

    code: int
    lines: tuple[str, ...]


def outcome(command: Command, server: Server, names: dict[str, str]) -> Outcome:
    """Run a command."""
    arguments = [_named(word, names) for word in command.line.split()]
    # Some tools have subcommands, and take the server behind them or before them.
    place = 1 if command.main.endswith("ClusterTool") else 0
    arguments[place:place] = ["--bootstrap-server", server.bootstrap]
    ran = subprocess.run(
        java.command(command.main, *arguments), input=command.given, capture_output=True, text=True, timeout=120
    )
    text = f"{ran.stdout}\n{ran.stderr}"
    if ran.returncode != 0:
        return Outcome(ran.returncode, tuple(sorted(set(ERROR.findall(text)))))
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    # Columns are as wide as their longest value.
    lines = (" ".join(line.split()) for line in text.splitlines())
    return Outcome(0, tuple(sorted(line for line in lines if line and not line.startswith(("SLF4J", "[main]")))))


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
    differ: dict[str, str] = {}
    for number, command in enumerate(CHAPTERS[chapter], 1):
        theirs, ours = (outcome(command, server, names) for server in (real, embedded))
        if theirs != ours:
            lines = [f"  kafka: {line}" for line in theirs.lines if line not in ours.lines]
            lines += [f"  ours:  {line}" for line in ours.lines if line not in theirs.lines]
            shown = "\n".join([f"{number}. {command}: {theirs.code}, ours {ours.code}", *lines])
            differ[f"{chapter}: {command}"] = shown
    expected = {command for command in EXPECTED if command.startswith(f"{chapter}: ")}
    unexpected = [shown for command, shown in differ.items() if command not in expected]
    assert not unexpected, "\n".join(unexpected)
    assert expected <= set(differ), "a difference that is expected has gone"
