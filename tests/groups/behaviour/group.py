"""A group of members in processes of their own, and its history."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

from tests.groups.behaviour.checker import Checker, Verdict, in_words
from tests.groups.behaviour.history import Event, TopicPartition, Truth, merged, of_kind, partitions_of, save
from tests.interop.process import Driver, eventually
from tests.standing import stand_still

ROOT = Path(__file__).resolve().parents[3]
WAIT_SECONDS = 90.0
HEARTBEAT_MS_MAX = 300
"""A rebalance is noticed after that: the suite has some hundreds of them."""


class Member:
    """A running member.

    Args:
        name: in histories, and its client id.
        options: the options of `member.py`.
        prefix: of the command line, for another network.
    """

    def __init__(self, name: str, options: dict[str, Any], prefix: Iterable[str] = ()) -> None:
        self.name = name
        self.options = options
        self.noted: list[Event] = []
        self._begin()
        command = [*prefix, sys.executable, "-m", "tests.groups.behaviour.member", json.dumps(options)]
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        self.driver = Driver(command, {"PYTHONPATH": paths})

    def _begin(self) -> None:
        self.alive = True
        self.is_leaving = False
        self._seen = 0
        self._owned: set[TopicPartition] = set()
        self._batches: dict[int, list[list[Any]]] = {}
        self._finished: dict[TopicPartition, int] = {}

    @property
    def events(self) -> list[Event]:
        """The events that it has printed so far."""
        return self.driver.events

    @property
    def owned(self) -> set[TopicPartition]:
        """The partitions that it has by its callbacks."""
        self._advance()
        return set(self._owned) if self.alive else set()

    @property
    def finished(self) -> dict[TopicPartition, int]:
        """The offset after the last that it finished, by partition."""
        self._advance()
        return self._finished

    @property
    def generations(self) -> list[int]:
        """The generations that it was part of."""
        return [event["generation"] for event in of_kind(self.events, "generation")]

    def history(self) -> list[Event]:
        """The events of the member, and of the test about it."""
        own = [{**event, "member": self.name} for event in self.events]
        return merged(own, self.noted)

    def call(self, command: str, **arguments: Any) -> Any:
        """Tell it something; see `member.py`."""
        return self.driver.call(command, **arguments)

    def note(self, event: str) -> None:
        """Record an event of the test."""
        self.noted.append({"t": time.monotonic_ns(), "member": self.name, "event": event})

    def stop(self) -> None:
        """Send SIGSTOP; returns when the process is stopped."""
        stand_still(self.driver.pid)
        self.note("stopped")

    def go_on(self) -> None:
        """SIGCONT."""
        self.note("continued")
        os.kill(self.driver.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        self.note("dying")
        os.kill(self.driver.pid, signal.SIGKILL)
        self.driver.wait_ended()
        self.note("killed")
        self.alive = False

    def leave(self) -> None:
        """Have it close its consumer, and wait for that."""
        self.wait_for("opened")
        self.is_leaving = True
        self.call("close")
        ended = self.driver.wait_ended(WAIT_SECONDS)
        self.alive = False
        assert ended == 0, f"{self.name} ended with {ended}\n{self.driver.log_tail()}"

    def wait(self, what: str, condition: Callable[[list[Event]], Any], timeout_seconds: float = WAIT_SECONDS) -> Any:
        """Wait until its events fulfil a condition."""
        return self.driver.wait(f"{self.name}: {what}", lambda _: condition(self.events), timeout_seconds)

    def wait_for(self, kind: str, after: int = 0) -> Event:
        """Wait for an event of this kind, later than the first `after` of all kinds."""
        found: list[Event] = self.wait(kind, lambda events: list(of_kind(events[after:], kind)))
        return found[0]

    def silent_for(self, seconds: float) -> bool:
        """Whether it has handed out nothing for this long."""
        last = next((event["t"] for event in reversed(self.events) if event["event"] == "batch"), 0)
        return time.monotonic_ns() - int(last) > seconds * 1e9

    def _advance(self) -> None:
        """Read the events that it printed since the last look."""
        events = self.events
        while self._seen < len(events):
            event = events[self._seen]
            self._seen += 1
            match event["event"]:
                case "assigned":
                    self._owned |= set(partitions_of(event))
                case "revoked" | "lost":
                    self._owned -= set(partitions_of(event))
                case "batch":
                    self._batches[event["n"]] = event["parts"]
                case "finished":
                    for topic, partition, _, last, _, _ in self._batches.pop(event["n"]):
                        # What was released comes again after later records.
                        at = (topic, partition)
                        self._finished[at] = max(self._finished.get(at, 0), last + 1)


class Group:
    """The members of a group.

    Args:
        bootstrap: where.
        group: its id.
        topics: the topics that all subscribe to.
        session_seconds: their `session.timeout.ms`.
        settings: of all members, on top.
        protocol: their `group.protocol`.
        options: of `member.py`, for all members.
        directory: where histories are kept.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: list[str],
        *,
        session_seconds: float,
        directory: Path,
        settings: dict[str, Any] | None = None,
        protocol: str = "classic",
        **options: Any,
    ) -> None:
        self.group = group
        self.protocol = protocol
        self.topics = topics
        self.session_seconds = session_seconds
        self.members: list[Member] = []
        self._directory = directory
        heartbeat_ms = min(round(session_seconds * 1000 / 10), HEARTBEAT_MS_MAX)
        self.heartbeat_seconds = heartbeat_ms / 1000
        membership: dict[str, Any] = {}  # a share group's is its own
        if protocol != "share":
            how = {"heartbeat.interval.ms": heartbeat_ms} if protocol == "classic" else {"group.protocol": protocol}
            membership = {"session.timeout.ms": round(session_seconds * 1000), **how}
        timing = {
            **membership,
            "reconnect.backoff.max.ms": 500,
            "retry.backoff.max.ms": 500,
        }
        self._settings = {**timing, **(settings or {})}
        self._options = {"bootstrap": bootstrap, "group": group, "topics": topics, **options}
        self._named: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        save(self.history(), self._directory / f"{self.group}.jsonl")
        for member in self.members:
            with contextlib.suppress(ProcessLookupError, OSError):
                os.kill(member.driver.pid, signal.SIGKILL)
            member.driver.close()

    def join(
        self, name: str, *, settings: dict[str, Any] | None = None, prefix: Iterable[str] = (), **options: Any
    ) -> Member:
        """Start another member. A name may be used again: histories distinguish its lives."""
        self._named[name] = self._named.get(name, 0) + 1
        lives = self._named[name]
        all_settings = {**self._settings, "client.id": name, **(settings or {})}
        all_options = {**self._options, "settings": all_settings, **options}
        member = Member(name if lives == 1 else f"{name}.{lives}", all_options, prefix)
        self.members.append(member)
        return member

    def add(self, member: Member) -> Member:
        """Take in a member that was started elsewhere."""
        self.members.append(member)
        return member

    @property
    def alive(self) -> list[Member]:
        """Members that were neither killed nor left."""
        return [member for member in self.members if member.alive]

    def history(self) -> list[Event]:
        """The history of the group."""
        return merged(*[member.history() for member in self.members])

    def owners(self) -> dict[TopicPartition, list[str]]:
        """The owner of each partition."""
        owners: dict[TopicPartition, list[str]] = {}
        for member in self.alive:
            for partition in member.owned:
                owners.setdefault(partition, []).append(member.name)
        return owners

    def wait_shared(self, partitions: int | Iterable[TopicPartition], *, evenly: bool = True) -> None:
        """Wait until each partition has one owner, and each member its share."""
        wanted = self._all(partitions) if isinstance(partitions, int) else set(partitions)

        def shared() -> bool:
            self._check_alive()
            owners = self.owners()
            sizes = [len(member.owned) for member in self.alive]
            once = set(owners) == wanted and all(len(names) == 1 for names in owners.values())
            return once and (not evenly or max(sizes) - min(sizes) <= 1)

        self.eventually(f"{len(self.alive)} members to share {len(wanted)} partitions", shared)

    def wait_taken_over(self, member: Member, partitions: int) -> None:
        """Wait until the others own everything, whatever this one believes."""
        others = [other for other in self.alive if other is not member]

        def taken() -> bool:
            owned = [partition for other in others for partition in other.owned]
            return len(owned) == len(set(owned)) and set(owned) == self._all(partitions)

        self.eventually(f"the others to own what {member.name} had", taken)

    def wait_finished(self, ends: dict[TopicPartition, int]) -> None:
        """Wait until every record below these offsets is finished, and commits are answered."""

        def finished() -> bool:
            self._check_alive()
            reached = self.reached()
            return all(reached.get(partition, 0) >= end for partition, end in ends.items())

        self.eventually("all records to be finished", finished)

    def reached(self) -> dict[TopicPartition, int]:
        """The offset after the last that anyone finished, by partition."""
        reached: dict[TopicPartition, int] = {}
        for member in self.members:
            for partition, offset in member.finished.items():
                reached[partition] = max(reached.get(partition, 0), offset)
        return reached

    def leave(self) -> None:
        """Have all leave in order, one after the other."""
        for member in self.alive:
            member.leave()

    def verify(self, truth: Truth, **options: bool) -> Verdict:
        """Have the history judged.

        Raises:
            AssertionError: the checker found a violation; the message says where the history is.
        """
        history = self.history()
        verdict = self.judge(truth, history, **options)
        if verdict.findings:
            path = self._directory / f"{self.group}.jsonl"
            save(history, path)
            raise AssertionError(f"{in_words(verdict.findings)}\nthe history is {path}")
        return verdict

    def judge(self, truth: Truth, history: list[Event], **options: bool) -> Verdict:
        """Have a history of it judged."""
        return Checker(truth, self.session_seconds, **options).check(history)

    def _all(self, partitions: int) -> set[TopicPartition]:
        return {(topic, partition) for topic in self.topics for partition in range(partitions)}

    def _check_alive(self) -> None:
        for member in self.alive:
            ended = None if member.is_leaving else member.driver.poll()
            assert ended is None, f"{member.name} ended with {ended}\n{member.driver.log_tail()}"

    def eventually(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; the error says how the members are."""
        try:
            eventually(what, condition, WAIT_SECONDS)
        except AssertionError as error:
            path = self._directory / f"{self.group}.jsonl"
            save(self.history(), path)
            states = {
                member.name: [sorted(member.owned), member.events[-3:], member.call("status")] for member in self.alive
            }
            raise AssertionError(f"{error}: {states}\nthe history is {path}") from None
