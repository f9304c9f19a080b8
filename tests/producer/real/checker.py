"""Checks the outcomes of records that were sent under load against the log at the end.

Every value is sent once. With idempotence an acknowledged record is in the log once, at the offset that its future
named, and the records of a partition lie there in the order in which they were sent. A record whose future failed may
be in the log or not, but not twice.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Sent(NamedTuple):
    """A record that was sent.

    Attributes:
        value: what; no other record has it.
        offset: the offset of its future; `None` if it failed.
        error: the error of its future.
        is_done: whether its future had an outcome in the end.
    """

    value: bytes
    offset: int | None = None
    error: str | None = None
    is_done: bool = True


class Stored(NamedTuple):
    """A record of the log."""

    offset: int
    value: bytes


class Finding(NamedTuple):
    """Something that must not be."""

    kind: str
    partition: int
    text: str


def check(
    sent: Mapping[int, Sequence[Sent]], log: Mapping[int, Sequence[Stored]], *, may_fail: bool = False
) -> list[Finding]:
    """Compare the records that were sent, in order, with the log, by partition.

    Args:
        sent: the records sent to each partition, in the order of the calls.
        log: the records of each partition, by offset.
        may_fail: records may have failed; otherwise each that did is a finding.
    """
    findings = []
    for partition in sorted({*sent, *log}):
        findings += [
            Finding(kind, partition, text)
            for kind, text in _check_partition(sent.get(partition, ()), log.get(partition, ()), may_fail=may_fail)
        ]
    return findings


def _check_partition(sent: Sequence[Sent], log: Sequence[Stored], *, may_fail: bool) -> list[tuple[str, str]]:
    findings: list[tuple[str, str]] = []
    at = {record.offset: record.value for record in log}
    places = {record.value: number for number, record in enumerate(sent)}
    if len(places) != len(sent):
        raise ValueError("a value was sent twice: nothing could be said of it")
    for value, times in Counter(record.value for record in log).items():
        if value not in places:
            findings.append(("alien", f"{value!r} was never sent"))
        elif times > 1:
            findings.append(("duplicate", f"{value!r} is there {times} times"))
    stored = {record.value for record in log}
    for record in sent:
        findings += _check_record(record, at, stored, may_fail=may_fail)
    order = [places[record.value] for record in log if record.value in places]
    for before, after in pairwise(order):
        if after < before:
            findings.append(("reordered", f"{sent[after].value!r} lies behind {sent[before].value!r}, sent later"))
    return findings


def _check_record(
    record: Sent, at: Mapping[int, bytes], stored: set[bytes], *, may_fail: bool
) -> list[tuple[str, str]]:
    if not record.is_done:
        return [("undone", f"{record.value!r} has no outcome")]
    if record.error is not None:
        return [] if may_fail else [("failed", f"{record.value!r}: {record.error}")]
    if record.value not in stored:
        return [("lost", f"{record.value!r} was acknowledged at {record.offset} and is not there")]
    if record.offset is None or at.get(record.offset) != record.value:
        found = None if record.offset is None else at.get(record.offset)
        return [("misplaced", f"{record.value!r} was acknowledged at {record.offset}, where {found!r} is")]
    return []


def in_words(findings: Sequence[Finding], most: int = 20) -> str:
    """Findings for people."""
    counted = ", ".join(f"{kind} {count}" for kind, count in sorted(Counter(it.kind for it in findings).items()))
    return "\n".join([counted, *(f"{kind}: {partition}: {text}" for kind, partition, text in findings[:most])])
