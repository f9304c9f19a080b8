"""Checks the history of a share group: what holds for each record, whatever happens to members and brokers.

| finding | |
|---|---|
| `lost` | a record that nobody has accepted or rejected, although the group had the time for it |
| `twice` | a record of which a second acceptance or rejection was confirmed |
| `after-end` | a record handed out after its end was confirmed; one acquired before may be, if brokers failed since |
| `overlap` | a record that is handed out while the lock of another member that works on it is valid |
| `repeated` | a record that is handed out again without a release, a refusal, an end or standstill of who had it |
| `count` | a delivery count that does not rise, or rises by more than what is seen |
| `refused` | an acknowledgement that was refused though nothing had happened to the member or the brokers |
| `corrupt` | a value that is not that of the log at this offset |
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.groups.behaviour.checker import Finding, Verdict
from tests.groups.behaviour.history import Event, TopicPartition, Truth, crc

STAGE = "stage"
"""The member of events about the brokers."""


@dataclass
class _Row:
    """A record while the history is replayed."""

    deliveries: int = 0
    member: str = ""
    at: int = 0
    lock_end: int = -1
    """Until when `member` works on it under a valid lock; -1 from when it says what becomes of it."""
    may_come_again: bool = True
    ended_by: str = ""
    ended_at: int = -1
    may_have_ended: bool = False


@dataclass
class _Batch:
    at: int
    rows: list[tuple[TopicPartition, int, str]] = field(default_factory=list)


class ShareChecker:
    """Replays a history.

    Args:
        truth: the log at the end.
        lock_seconds: how long records are locked.
        ended: whether the group had the time to read everything.
    """

    def __init__(self, truth: Truth, *, lock_seconds: float, ended: bool = True) -> None:
        self._truth = truth
        self._lock = round(lock_seconds * 1e9)
        self._ended = ended
        self._rows: defaultdict[tuple[TopicPartition, int], _Row] = defaultdict(_Row)
        self._batches: dict[tuple[str, int], _Batch] = {}
        self._trouble: defaultdict[str, int] = defaultdict(lambda: -1)
        """When a member, or the brokers, last got an excuse for records that come again."""
        self._away: set[str] = set()
        """Members that stand still: they may give back what they have acquired and not handed out."""
        self._given_back = -1
        """When a member last may have done so."""
        self._verdict = Verdict()

    def check(self, history: Iterable[Event]) -> Verdict:
        """Replay it and judge; `committed` has where the first record is that is not done."""
        for event in history:
            match event["event"]:
                case "batch":
                    self._on_batch(event["member"], event)
                case "finished":
                    self._on_finished(event["member"], event)
                case "acknowledged":
                    self._on_acknowledged(event["member"], event)
                case "dying" | "killed" | "stopped" | "continued" | "disturbed" | "quiet":
                    self._trouble[event["member"]] = event["t"]
                    self._stands(event, is_away=event["event"] in ("dying", "stopped", "disturbed"))
                case "held" | "closing" | "closed":
                    self._stands(event, is_away=event["event"] == "held")
        self._check_ends()
        return self._verdict

    def _on_batch(self, name: str, event: Event) -> None:
        batch = self._batches[name, event["n"]] = _Batch(event["t"])
        for topic, index, offset, deliveries, decision, checked in event["rows"]:
            partition, row = (topic, index), self._rows[(topic, index), offset]
            self._verdict.delivered += 1
            self._check_end(name, partition, offset, event)
            self._check_row(name, partition, offset, deliveries, event["t"])
            values = self._truth.get(partition, ())[offset : offset + 1]
            if self._ended and crc(values) != checked:
                self._found("corrupt", name, partition, f"{offset} is not what the log holds there")
            row.deliveries, row.member, row.at = deliveries, name, event["t"]
            row.lock_end, row.may_come_again = event["deadline"], False
            batch.rows.append((partition, offset, decision))

    def _check_end(self, name: str, partition: TopicPartition, offset: int, event: Event) -> None:
        row, asked_at = self._rows[partition, offset], event["deadline"] - self._lock
        # A member may not know yet that a leader has moved, and with it the locks of what it has not handed out.
        is_left_over = asked_at <= min(row.ended_at, self._excuse(STAGE, event["t"]))
        if row.ended_by and not is_left_over:
            self._found("after-end", name, partition, f"{offset} comes after {row.ended_by} ended it")

    def _check_row(self, name: str, partition: TopicPartition, offset: int, deliveries: int, now: int) -> None:
        row = self._rows[partition, offset]
        excuse = self._excuse(row.member, now)
        if now < row.lock_end and row.member != name and excuse < row.at:
            self._found(
                "overlap", name, partition, f"{row.member} has {offset} for {(row.lock_end - now) / 1e9} s more"
            )
        if row.member and not row.may_come_again and excuse < row.at:
            self._found("repeated", name, partition, f"{offset} was handed to {row.member} before")
        self._verdict.repeated += bool(row.member)
        if self._excuse(STAGE, now) >= row.at:
            return  # A count that a dead leader had not stored is lost with it.
        is_hidden = bool(self._away) or self._given_back >= row.at  # deliveries that nobody saw
        if deliveries <= row.deliveries or (deliveries > row.deliveries + 1 and not is_hidden):
            self._found("count", name, partition, f"delivery {deliveries} of {offset} follows {row.deliveries}")

    def _on_finished(self, name: str, event: Event) -> None:
        self._stands(event, is_away=False)
        for partition, offset, decision in self._batches[name, event["n"]].rows:
            row = self._mine(name, partition, offset)
            row.lock_end, row.may_come_again = -1, decision == "release"

    def _stands(self, event: Event, *, is_away: bool) -> None:
        was_away = event["member"] in self._away
        (self._away.add if is_away else self._away.discard)(event["member"])
        if is_away or was_away or event["event"] != "finished":
            self._given_back = event["t"]

    def _on_acknowledged(self, name: str, event: Event) -> None:
        batch = self._batches[name, event["n"]]
        outcomes = {(topic, index): outcome for topic, index, outcome in event["outcomes"]}
        for partition, offset, decision in batch.rows:
            row, outcome, is_final = self._rows[partition, offset], outcomes[partition], decision != "release"
            self._mine(name, partition, offset).may_come_again |= outcome != "done"
            # A leader that is moved away may have stored what it refuses (Kafka 4.4: NOT_LEADER_OR_FOLLOWER).
            is_open = outcome == "unknown" or (outcome == "failed" and self._excuse(STAGE, event["t"]) >= batch.at)
            row.may_have_ended |= is_open and is_final
            if outcome == "failed" and self._excuse(name, event["t"]) < batch.at:
                self._found("refused", name, partition, f"the acknowledgement of {offset}: {event['reason']}")
            if outcome == "done" and is_final:
                if row.ended_by:
                    self._found("twice", name, partition, f"{offset} was ended by {row.ended_by} before")
                row.ended_by, row.ended_at = name, event["t"]

    def _excuse(self, name: str, now: int) -> int:
        """When the member or the brokers last got an excuse."""
        return now if STAGE in self._away else max(self._trouble[name], self._trouble[STAGE])

    def _mine(self, name: str, partition: TopicPartition, offset: int) -> _Row:
        """The record if this member had it last, and else one that is of no interest."""
        row = self._rows[partition, offset]
        return row if row.member == name else _Row()

    def _check_ends(self) -> None:
        for partition, values in self._truth.items():
            rows = (self._rows[partition, offset] for offset in range(len(values)))
            ended = [bool(row.ended_by) or row.may_have_ended for row in rows]
            self._verdict.committed[partition] = ended.index(False) if False in ended else len(values)
            if self._ended and not all(ended):
                text = f"{ended.count(False)} records from {ended.index(False)} on were never ended"
                self._found("lost", "", partition, text)

    def _found(self, kind: str, member: str, partition: TopicPartition, text: str) -> None:
        self._verdict.findings.append(Finding(kind, member, partition, text))
