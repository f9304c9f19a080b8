"""Members as processes, what they said, and what can be read from it."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.interop import java

HERE = Path(__file__).parent
DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Delivery:
    """Records of one partition that a member got at once.

    Attributes:
        at: ns on the monotonic clock.
        partition: its index.
        member: who got them, by number.
        count: how many.
    """

    at: int
    partition: int
    member: int
    count: int


@dataclass
class Member:
    """A running member.

    Attributes:
        number: its name; every start has a new one.
        process: it.
        ready: it waits for the word to join.
        closed: its `close()` has returned, or its process has ended.
        owned: partitions, by what it said.
        assigned: all that it was ever told to own.
        deliveries: what it got, oldest first.
    """

    number: int
    process: subprocess.Popen[bytes]
    ready: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)
    owned: set[int] = field(default_factory=set)
    assigned: list[int] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)

    def listen(self) -> None:
        """Take what it says, until it ends."""
        if self.process.stdout is None:
            raise RuntimeError("a member without standard output")
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["what"] == "ready":
                self.ready.set()
            elif event["what"] == "closed":
                self.closed.set()
            elif event["what"] == "records":
                at = event["at"]
                self.deliveries += [
                    Delivery(at, int(partition), self.number, count) for partition, count in event["counts"].items()
                ]
            elif event["what"] == "assigned":
                self.owned |= set(event["partitions"])
                self.assigned += event["partitions"]
            else:
                self.owned -= set(event["partitions"])
        self.owned.clear()
        self.closed.set()


class Group:
    """Members of one client in one group."""

    def __init__(self, client: str, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        self.client = client
        self.partitions = partitions
        self.members: list[Member] = []
        self.gone: list[Member] = []
        self._waiting: list[Member] = []
        self._command = _command(client, topic, settings)
        self._started = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()

    def start(self) -> Member:
        """One member more, which joins at once."""
        return self.join(self.prepare())

    def prepare(self) -> Member:
        """A process that has imported what it needs, and has not joined yet."""
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, cwd=HERE.parents[1]
        )
        member = Member(self._started, process)
        self._started += 1
        self._waiting.append(member)
        threading.Thread(target=member.listen, daemon=True).start()
        if not member.ready.wait(DEADLINE_SECONDS):
            raise SystemExit(f"{self.client}: a member did not start\n{self._said()}")
        return member

    def join(self, member: Member) -> Member:
        """Let it join."""
        self._waiting.remove(member)
        self.members.append(member)
        _input(member).write(b"\n")
        _input(member).flush()
        return member

    def close(self, member: Member) -> int:
        """Have it close in order. Returns when it was told to, ns."""
        self._remove(member)
        at = time.monotonic_ns()
        _input(member).close()
        return at

    def kill(self, member: Member) -> int:
        """End it at once. Returns when, ns."""
        self._remove(member)
        at = time.monotonic_ns()
        member.process.kill()
        return at

    def settle(self, what: str) -> None:
        """Wait until the running members share the partitions evenly.

        Raises:
            SystemExit: they did not in time; with what they wrote to standard error.
        """
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self._is_even():
            if time.monotonic() > deadline or any(member.process.poll() is not None for member in self.members):
                shares = {member.number: sorted(member.owned) for member in self.members}
                raise SystemExit(f"{self.client}: {what}: not even: {shares}\n{self._said()}")
            time.sleep(POLL_SECONDS)

    def owners(self) -> dict[int, int]:
        """Who owns each partition, by what members said."""
        return {partition: member.number for member in self.members for partition in set(member.owned)}

    def deliveries(self, since: int, until: int) -> list[Delivery]:
        """What all members, past ones too, got between two times, oldest first."""
        everything = (delivery for member in [*self.members, *self.gone] for delivery in list(member.deliveries))
        return sorted((it for it in everything if since <= it.at < until), key=lambda it: it.at)

    def end(self) -> None:
        """Close everyone, and kill who does not."""
        for member in list(self._waiting):
            self.join(member)
        for member in list(self.members):
            self.close(member)
        for member in self.gone:
            try:
                member.process.wait(20)
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
        self._errors.close()

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-3000:].decode()

    def _remove(self, member: Member) -> None:
        self.members.remove(member)
        self.gone.append(member)

    def _is_even(self) -> bool:
        shares = [set(member.owned) for member in self.members]
        owned = sorted(partition for share in shares for partition in share)
        sizes = {len(share) for share in shares}
        return owned == list(range(self.partitions)) and max(sizes) - min(sizes) <= 1


@dataclass(frozen=True)
class Gap:
    """A time without records of a partition.

    Attributes:
        partition: its index.
        since: when the last came before it, ns.
        until: when the next came, ns.
    """

    partition: int
    since: int
    until: int

    @property
    def ms(self) -> float:
        """How long it was."""
        return (self.until - self.since) / 1e6


def gaps(deliveries: Iterable[Delivery], partitions: int, since: int, until: int) -> list[Gap]:
    """All times between two deliveries of a partition, as they ended.

    The window's ends count as deliveries: a partition that stood still to the end has stood still at least so long.
    """
    last = dict.fromkeys(range(partitions), since)
    found = []
    for it in deliveries:
        found.append(Gap(it.partition, last[it.partition], it.at))
        last[it.partition] = it.at
    return found + [Gap(partition, at, until) for partition, at in last.items()]


def moved(deliveries: Iterable[Delivery], owners_before: Mapping[int, int]) -> set[int]:
    """The partitions whose records went to anyone but the member that owned them before."""
    return {it.partition for it in deliveries if it.member != owners_before[it.partition]}


class Survivors:
    """Members that stay while another is bounced.

    Args:
        members: they.
    """

    def __init__(self, members: Iterable[Member]) -> None:
        self._before = [(member, set(member.owned), len(member.assigned)) for member in members]

    def disturbed(self) -> int:
        """How many partitions any of them was given for a while or for good, or has no more."""
        partitions: set[int] = set()
        for member, owned, told in self._before:
            partitions |= (set(member.assigned[told:]) - owned) | (owned - member.owned)
        return len(partitions)


def _input(member: Member) -> IO[bytes]:
    if member.process.stdin is None:
        raise RuntimeError("a member without standard input")
    return member.process.stdin


def _command(client: str, topic: str, settings: Mapping[str, str]) -> list[str]:
    given = [topic, *(f"{key}={value}" for key, value in settings.items())]
    if client == "java":
        return java.command(HERE / "Member.java", *given)
    return [sys.executable, "-m", f"benches.groups.member_{client}", *given]
