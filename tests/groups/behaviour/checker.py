"""Checks a history: the properties that hold in a group whatever happens to its members and brokers.

| finding | |
|---|---|
| `lost` | a record that no member finished, although the group had the time for it |
| `clean-dup` | a record that is repeated without a crash, loss, failed commit or cut connection of its former owner |
| `poll-skip`, `nonmonotonic` | offsets left out, or going back, within one ownership |
| `corrupt` | values that are not those of the log at these offsets |
| `unowned` | a batch of a partition that was not assigned, or not any more |
| `resume` | an ownership that does not begin at the committed offset |
| `commit-gap` | a commit beyond a record that nobody finished |
| `overlap` | two members own a partition at once, or one delivers what another owns |
| `zombie` | a delivery after a pause longer than the session, before the partition was assigned anew |
| `zombie-commit` | a commit that succeeded though another owned the partition, or after such a pause |
| `unbalanced` | callbacks that do not balance: each assigned partition is revoked or lost once |
| `liveness` | a partition without owner, or with several, at the end |

Duplicates with an excuse are no finding; `Verdict.repeated` counts them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.groups.behaviour.history import Event, TopicPartition, Truth, crc, offsets_of, partitions_of

SECOND = 1_000_000_000


class Finding(NamedTuple):
    """Something that must not be."""

    kind: str
    member: str
    partition: TopicPartition | None
    text: str


@dataclass
class Verdict:
    """The result of a check.

    Attributes:
        findings: violations.
        repeated: records handed out more than once, with an excuse.
        delivered: records handed out, each time counted.
        committed: the last offset that was committed, by partition.
    """

    findings: list[Finding] = field(default_factory=list)
    repeated: int = 0
    delivered: int = 0
    committed: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def kinds(self) -> set[str]:
        """The kinds of findings."""
        return {finding.kind for finding in self.findings}


@dataclass
class _Member:
    """A member's process while its history is replayed."""

    owned: dict[TopicPartition, int] = field(default_factory=dict)
    """Since when."""
    next_offset: dict[TopicPartition, int] = field(default_factory=dict)
    batches: dict[int, list[list[int | str]]] = field(default_factory=dict)
    commits: dict[int, Event] = field(default_factory=dict)
    stopped_at: int | None = None
    continued_at: int = 0
    zombie: set[TopicPartition] = field(default_factory=set)
    """Owned before a pause that was longer than the session, and not assigned anew since."""
    trouble: dict[TopicPartition | None, int] = field(default_factory=dict)
    """When records of a partition, or of all (`None`), last got an excuse for coming again."""
    contested: dict[TopicPartition, str] = field(default_factory=dict)
    """Owned, but assigned to another member meanwhile: only a loss explains that, of which a member may learn late."""
    repeated: dict[TopicPartition, list[tuple[int, str]]] = field(default_factory=dict)
    """The records of it that another member was handed again, and that member: a loss explains that too."""
    is_cut: bool = False
    gone: bool = False


class _Commit(NamedTuple):
    """A commit of one partition. `done` is `None` while nothing is known of it: it may still be stored."""

    number: tuple[str, int]
    invoked: int
    offset: int
    done: int | None


class Checker:
    """Replays a history.

    Args:
        truth: the log at the end.
        session_seconds: `session.timeout.ms` of the members.
        automatic: the members commit automatically, so that their commits are not in the history.
        ended: whether the group had the time to read everything and to assign all partitions.
    """

    def __init__(self, truth: Truth, session_seconds: float, *, automatic: bool = False, ended: bool = True) -> None:
        self._truth = truth
        self._session = int(session_seconds * SECOND)
        self._automatic = automatic
        self._ended = ended
        self._members: defaultdict[str, _Member] = defaultdict(_Member)
        self._commits: defaultdict[TopicPartition, list[_Commit]] = defaultdict(list)
        self._finished: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        self._frontier: Counter[TopicPartition] = Counter()
        self._seen: dict[TopicPartition, dict[int, tuple[str, int]]] = defaultdict(dict)
        self._verdict = Verdict()
        self._find = self._verdict.findings

    def check(self, history: Iterable[Event]) -> Verdict:
        """Replay it and judge."""
        for event in history:
            step = getattr(self, f"_on_{event['event']}", None)
            if step is not None:
                step(event["member"], self._members[event["member"]], event)
        self._check_lost()
        self._check_owners()
        self._verdict.committed = {
            partition: max(done, key=lambda commit: commit.invoked).offset
            for partition, commits in self._commits.items()
            if (done := [commit for commit in commits if commit.done is not None])
        }
        return self._verdict

    # Membership

    def _on_assigned(self, name: str, member: _Member, event: Event) -> None:
        for partition in partitions_of(event):
            if partition in member.owned:
                self._found("unbalanced", name, partition, "assigned, though it was not given up")
            for other, it in self._members.items():
                if other != name and partition in it.owned:
                    it.contested.setdefault(partition, name)
            member.owned[partition] = event["t"]
            member.next_offset.pop(partition, None)
            member.contested.pop(partition, None)
            member.zombie.discard(partition)

    def _on_revoked(self, name: str, member: _Member, event: Event) -> None:
        for partition in partitions_of(event):
            if partition in member.contested:
                self._found("overlap", name, partition, f"revoked after {member.contested[partition]} was assigned it")
            self._drop(name, member, partition, event)
        self._settle_repeated(name, member, excused=False)

    def _on_lost(self, name: str, member: _Member, event: Event) -> None:
        # A busy member, or one that is cut off, may learn of a loss late. Its records are checked at once.
        for partition in partitions_of(event):
            self._drop(name, member, partition, event)
            member.trouble[partition] = event["t"]
        self._settle_repeated(name, member, excused=True)

    def _drop(self, name: str, member: _Member, partition: TopicPartition, event: Event) -> None:
        if member.owned.pop(partition, None) is None:
            self._found("unbalanced", name, partition, f"{event['event']}, though it was not owned")
        member.contested.pop(partition, None)
        member.zombie.discard(partition)

    def _on_closed(self, name: str, member: _Member, event: Event) -> None:  # noqa: ARG002 - one shape for all
        for partition in member.owned:
            self._found("unbalanced", name, partition, "still owned after close()")
        self._check_contested(name, member)
        member.owned.clear()
        self._settle_repeated(name, member, excused=False)
        member.gone = True

    def _on_killed(self, name: str, member: _Member, event: Event) -> None:
        member.owned.clear()
        self._settle_repeated(name, member, excused=True)
        member.gone = True
        member.trouble[None] = event["t"]

    def _on_stopped(self, name: str, member: _Member, event: Event) -> None:  # noqa: ARG002
        member.stopped_at = event["t"]

    def _on_continued(self, name: str, member: _Member, event: Event) -> None:  # noqa: ARG002
        if member.stopped_at is not None and event["t"] - member.stopped_at > self._session:
            member.zombie |= set(member.owned)
            member.continued_at = event["t"]
            member.trouble[None] = event["t"]
        member.stopped_at = None

    def _on_cut(self, name: str, member: _Member, event: Event) -> None:  # noqa: ARG002
        member.is_cut = True

    def _on_healed(self, name: str, member: _Member, event: Event) -> None:  # noqa: ARG002
        member.is_cut = False
        member.trouble[None] = event["t"]

    # Records

    def _on_batch(self, name: str, member: _Member, event: Event) -> None:
        member.batches[event["n"]] = event["parts"]
        for topic, index, first, last, count, checked in event["parts"]:
            partition = (topic, index)
            self._verdict.delivered += count
            self._check_owner(name, member, partition, event["t"])
            self._check_order(name, member, partition, first, last, count)
            self._check_repeated(name, partition, first, last, event["t"])
            values = self._truth.get(partition, ())[first : last + 1]
            if len(values) != last + 1 - first or crc(values) != checked:
                self._found("corrupt", name, partition, f"{first}..{last} are not what the log holds there")

    def _check_owner(self, name: str, member: _Member, partition: TopicPartition, now: int) -> None:
        if partition not in member.owned:
            self._found("unowned", name, partition, "handed out, though it was not assigned")
        if partition in member.zombie:
            self._found("zombie", name, partition, "handed out after a pause longer than the session")
        for other, it in self._members.items():
            since = it.owned.get(partition)
            if other == name or since is None or it.gone or partition in it.zombie:
                continue
            # If two members count it as theirs, the one that was assigned last is right.
            if since > member.owned.get(partition, 0):
                late = (now - since) / SECOND
                self._found("overlap", name, partition, f"handed out {late:.3f} s after it was assigned to {other}")

    def _check_order(
        self, name: str, member: _Member, partition: TopicPartition, first: int, last: int, count: int
    ) -> None:
        expected = member.next_offset.get(partition)
        if expected is None:
            self._check_resume(name, member, partition, first)
        elif first > expected:
            self._found("poll-skip", name, partition, f"{first} follows {expected - 1}")
        elif first < expected:
            self._found("nonmonotonic", name, partition, f"{first} follows {expected - 1}")
        if count != last + 1 - first:
            self._found("poll-skip", name, partition, f"{count} records in {first}..{last}")
        member.next_offset[partition] = last + 1

    def _check_resume(self, name: str, member: _Member, partition: TopicPartition, first: int) -> None:
        if self._automatic:
            if first > self._frontier[partition]:
                self._found(
                    "resume", name, partition, f"begins at {first}, {self._frontier[partition]} is not finished"
                )
            return
        expected = self._resumable(partition, member.owned.get(partition, 0))
        if first not in expected:
            self._found("resume", name, partition, f"begins at {first}, committed is {sorted(expected)}")

    def _resumable(self, partition: TopicPartition, assigned_at: int) -> set[int]:
        """Where an ownership may begin: the last stored commit, or one whose fate was open when it was looked up."""
        # In their order: Java tells of two commits in one millisecond with the same time.
        commits = self._commits[partition]
        stored = [at for at, commit in enumerate(commits) if commit.done is not None and commit.done <= assigned_at]
        last = stored[-1] if stored else None
        later = commits if last is None else commits[last + 1 :]
        open_then = {commit.offset for commit in later if commit.done is None or commit.done > assigned_at}
        return {0 if last is None else commits[last].offset} | open_then

    def _check_repeated(self, name: str, partition: TopicPartition, first: int, last: int, now: int) -> None:
        seen = self._seen[partition]
        unexcused = []
        for offset in range(first, last + 1):
            if offset in seen:
                before, at = seen[offset]
                it = self._members[before]
                if max(it.trouble.get(partition, 0), it.trouble.get(None, 0)) >= at or it.is_cut:
                    self._verdict.repeated += 1
                elif before != name and partition in it.owned:
                    it.repeated.setdefault(partition, []).append((offset, name))
                else:
                    unexcused.append((offset, before))
            seen[offset] = (name, now)
        if unexcused:
            (offset, before), count = unexcused[0], len(unexcused)
            self._found(
                "clean-dup", name, partition, f"{count} records from {offset} on were handed to {before} before"
            )

    def _settle_repeated(self, name: str, member: _Member, *, excused: bool) -> None:
        """The former owner has now reported whether it lost the partition or revoked it."""
        for partition in [partition for partition in member.repeated if partition not in member.owned]:
            repeated = member.repeated.pop(partition)
            if excused:
                self._verdict.repeated += len(repeated)
            else:
                (offset, other), count = repeated[0], len(repeated)
                self._found(
                    "clean-dup", other, partition, f"{count} records from {offset} on were handed to {name} before"
                )

    # Commits

    def _on_finished(self, name: str, member: _Member, event: Event) -> None:  # noqa: ARG002
        for topic, index, first, last, _, _ in member.batches.pop(event["n"], []):
            partition = (str(topic), int(index))
            finished = self._finished[partition]
            finished.update(range(int(first), int(last) + 1))
            while self._frontier[partition] in finished:
                finished.discard(self._frontier[partition])
                self._frontier[partition] += 1

    def _on_commit(self, name: str, member: _Member, event: Event) -> None:
        member.commits[event["c"]] = event
        for partition, offset in offsets_of(event).items():
            self._commits[partition].append(_Commit((name, event["c"]), event["t"], offset, None))
            if offset > self._frontier[partition]:
                text = f"commits {offset}, {self._frontier[partition]} is not finished"
                self._found("commit-gap", name, partition, text)

    def _on_committed(self, name: str, member: _Member, event: Event) -> None:
        invoked = member.commits.get(event["c"])
        if invoked is None:
            self._found("commit-gap", name, None, f"commit {event['c']} was done but never asked for")
            return
        asked = offsets_of(invoked)
        for partition, offset in offsets_of(event).items():
            if asked.get(partition) != offset:
                text = f"committed {offset}, asked for was {asked.get(partition)}"
                self._found("commit-gap", name, partition, text)
            self._settle((name, event["c"]), partition, event["t"])
            # One that was stored before the pause is answered after it.
            if partition in member.zombie and invoked["t"] > member.continued_at:
                self._found("zombie-commit", name, partition, "committed after a pause longer than the session")
            for other, it in self._members.items():
                since = it.owned.get(partition)
                if other != name and since is not None and not it.gone and since < invoked["t"]:
                    mine = member.owned.get(partition, 0)
                    if mine < since and partition not in it.zombie:
                        self._found("zombie-commit", name, partition, f"committed after {other} was assigned it")

    def _on_commit_failed(self, name: str, member: _Member, event: Event) -> None:  # noqa: ARG002
        for partition in offsets_of(event):
            member.trouble[partition] = event["t"]

    def _settle(self, number: tuple[str, int], partition: TopicPartition, now: int) -> None:
        commits = self._commits[partition]
        for index in range(len(commits) - 1, -1, -1):
            if commits[index].number == number:
                commits[index] = commits[index]._replace(done=now)
                return

    # The end

    def _check_lost(self) -> None:
        if not self._ended:
            return
        for partition, values in self._truth.items():
            if (first := self._frontier[partition]) < len(values):
                missing = sum(offset not in self._finished[partition] for offset in range(first, len(values)))
                self._found("lost", "", partition, f"{missing} records from {first} on were never finished")

    def _check_contested(self, name: str, member: _Member) -> None:
        for partition, other in member.contested.items():
            self._found("overlap", name, partition, f"still owned at the end, though {other} was assigned it")

    def _check_owners(self) -> None:
        for name, member in self._members.items():
            if not member.gone:
                self._check_contested(name, member)
        if not self._ended or all(member.gone for member in self._members.values()):
            return
        for partition in self._truth:
            owners = sorted(name for name, member in self._members.items() if partition in member.owned)
            if len(owners) != 1:
                self._found("liveness", "", partition, f"owned by {', '.join(owners) or 'nobody'} at the end")

    def _found(self, kind: str, member: str, partition: TopicPartition | None, text: str) -> None:
        self._find.append(Finding(kind, member, partition, text))


def in_words(findings: Sequence[Finding], most: int = 20) -> str:
    """Findings for people."""
    lines = []
    for kind, member, partition, text in findings[:most]:
        where = "" if partition is None else f"{partition[0]}-{partition[1]}: "
        lines.append(f"{kind}: {member} {where}{text}")
    counted = Counter(finding.kind for finding in findings)
    return "\n".join([", ".join(f"{kind} {count}" for kind, count in sorted(counted.items())), *lines])
