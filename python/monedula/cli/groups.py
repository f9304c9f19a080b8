"""`monedula groups`: lists, describes and deletes groups, and shows their lag."""

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from typer import Argument, Option

from monedula.admin import Admin, GroupLag, Groups
from monedula.cli import group_offsets
from monedula.cli.administration import Connection, Yes, administration
from monedula.cli.completing import complete_groups
from monedula.cli.failures import UsageError
from monedula.cli.group_offsets import Group, name_of
from monedula.cli.rendering import counted
from monedula.cli.running import confirm, say
from monedula.cli.silence import no_answer
from monedula.cli.tables import AsJson, Row, drawn, heading_of, line_of, show
from monedula.cli.topic_names import OnlyTopics, expanded
from monedula.errors import BrokerConnectionError, GroupNotFoundError, KafkaTimeoutError
from monedula.types.partitions import TopicPartition

_STATES = {
    name.lower(): name
    for name in ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
}


class GroupType(StrEnum):
    """The type of a group, as brokers name it."""

    classic = "classic"
    consumer = "consumer"
    share = "share"


@administration("groups list")
def list_groups(
    connection: Connection,
    state: Annotated[
        list[str] | None, Option(help="Only those in this state, such as Stable or Empty. Repeatable.")
    ] = None,
    kind: Annotated[
        list[GroupType] | None, Option("--type", help="Only those of this type. Repeatable.", case_sensitive=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List groups with their states, asked of every broker.

    Examples:
        monedula groups list
        monedula groups list --type share
        monedula groups list --state Empty --json
    """
    unknown = [name for name in state or () if name.lower() not in _STATES]
    if unknown:
        raise UsageError(f"--state {unknown[0]}: expected one of {', '.join(_STATES.values())}")
    with connection.admin() as admin:
        states = [_STATES[name.lower()] for name in state or ()]
        found = admin.list_groups(states=states, types=[each.value for each in kind or ()])
    _tell_missing(found)
    rows = [(g.group_id, g.state, g.type, g.protocol_type, g.coordinator) for g in found.values()]
    names = ("group", "state", "type", "protocol_type", "coordinator")
    show(names, sorted(rows), as_json, spare=("protocol_type", "coordinator"))


@administration("groups describe")
def describe(group: Group, connection: Connection, as_json: AsJson = False) -> None:
    """Show the members of a group, and the partitions of each.

    Examples:
        monedula groups describe etl
        monedula groups describe etl --json
    """
    with connection.admin() as admin:
        (found,) = admin.describe_groups(group).values()
    if not as_json:
        coordinator = "" if found.coordinator is None else f", coordinator {found.coordinator.id}"
        assignor = f", assignor {found.assignor}" if found.assignor else ""
        say(f"{found.group_id}: {found.state}, {found.type}{assignor}{coordinator}, members: {len(found.members)}")
    rows = [
        (member.member_id, member.instance_id, member.client_id, member.host, [name_of(at) for at in member.assignment])
        for member in sorted(found.members, key=lambda member: (member.client_id, member.member_id))
    ]
    names = ("member", "instance_id", "client_id", "host", "partitions")
    show(names, rows, as_json, spare=("instance_id", "member", "host"))


LAG_COLUMNS = ("group", "topic", "partition", "committed", "end_offset", "lag", "client_id", "host")
LAG_OF_GROUPS_COLUMNS = ("group", "state", "topics", "partitions", "largest_lag", "lag")


@administration("groups lag")
def lag(
    connection: Connection,
    groups: Annotated[
        list[str] | None, Argument(help="Ids of groups; without any, a row for each.", autocompletion=complete_groups)
    ] = None,
    topic: OnlyTopics = None,
    watch: Annotated[bool, Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
    interval: Annotated[float, Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Show how far groups are behind.

    Of all groups, or by partition of those that are named; the total is a message. With --watch one group
    is a live table, in a pipe rows with the time.

    Examples:
        monedula groups lag
        monedula groups lag etl
        monedula groups lag etl --watch --interval 1
        monedula groups lag etl --topic orders --json
    """
    if watch and len(groups or ()) != 1:
        raise UsageError("--watch is for one group; name it")
    with connection.admin() as admin:
        topics = expanded(admin, topic) or None
        if not watch:
            _show_lag(admin, groups or (), topics, as_json)
            return
        group = (groups or [""])[0]
        if as_json or not sys.stdout.isatty():
            _write_lag(admin, group, topics, interval, as_json)
        else:
            _draw_lag(admin, group, topics, interval)


def _show_lag(admin: Admin, groups: Sequence[str], topics: list[str] | None, as_json: bool) -> None:
    if groups:
        found = [admin.group_lag(group, topics=topics) for group in dict.fromkeys(groups)]
        rows = [row for each in found for row in _lag_rows(each)]
        show(LAG_COLUMNS, rows, as_json, spare=(*(["group"] if len(found) == 1 else []), "host", "client_id"))
    else:
        found = _lag_of_all(admin, topics)
        show(LAG_OF_GROUPS_COLUMNS, [_summary(each) for each in found], as_json)
    if not as_json:
        partitions = sum(1 for each in found for at in each.values() if at.lag)
        total = sum(each.total for each in found)
        places = f"in {counted(partitions, 'partition')} of {counted(len(found), 'group')}"
        say(f"total: {total} behind, {places}{_unknown(*found)}")


def _unknown(*found: GroupLag) -> str:
    unknown = sum(len(each.unknown) for each in found)
    return f"; unknown in {counted(unknown, 'partition')} of which nothing was committed yet" if unknown else ""


def _tell_missing(groups: Groups) -> None:
    """Say which brokers did not answer, so that a list without their groups does not look whole."""
    for broker, error in groups.missing.items():
        say(f"the groups of broker {broker} are missing: {error}")


def _lag_of_all(admin: Admin, topics: list[str] | None) -> list[GroupLag]:
    """The lag of every group of consumers that has committed or owns something of these topics, by group id."""
    found, listed = [], admin.list_groups()
    _tell_missing(listed)
    for group, listing in sorted(listed.items()):
        is_of_consumers = listing.type in ("classic", "consumer", "") and listing.protocol_type in ("consumer", "")
        if not is_of_consumers and listing.type != "share":
            continue
        try:
            each = admin.group_lag(group, topics=topics)
        except GroupNotFoundError:
            continue  # it has ended since
        if any(at.committed is not None or at.member_id is not None for at in each.values()):
            found.append(each)
    return found


def _summary(found: GroupLag) -> Row:
    topics = {partition.topic for partition in found}
    largest = max((at.lag or 0 for at in found.values()), default=0)
    return (found.group, found.state, len(topics), len(found), largest, found.total)


# Seconds that a look may take before the picture says that no broker answers. A slow cluster gets more in the next.
_SHORTEST_LOOK, _LONGEST_LOOK = 3.0, 15.0


def _lag_rows(found: GroupLag) -> list[Row]:
    rows = sorted(found.values(), key=lambda at: at.partition)
    return [(found.group, *at.partition, at.committed, at.log_end_offset, at.lag, at.client_id, at.host) for at in rows]


def _write_lag(admin: Admin, group: str, topics: list[str] | None, interval: float, as_json: bool) -> None:
    looks = _Looks(admin, group, topics)
    columns = ("time", *LAG_COLUMNS)
    sys.stdout.write(heading_of(columns, as_json))
    while True:
        found = looks.next()
        if isinstance(found, str):
            say(found)
            continue
        now = datetime.now(UTC).isoformat(timespec="seconds")
        for row in _lag_rows(found):
            sys.stdout.write(line_of(columns, (now, *row), as_json))
        sys.stdout.flush()
        time.sleep(interval)


class _Looks:
    """Looks at a group's lag again and again. Brokers that stop to answer are waited for, and told of."""

    def __init__(self, admin: Admin, group: str, topics: list[str] | None) -> None:
        self._admin, self._group, self._topics = admin, group, topics
        self._timeout: float | None = None
        self._answered_at = 0.0

    def next(self) -> GroupLag | str:
        """The lag, or why there is none just now. The first look raises instead."""
        try:
            found = self._admin.group_lag(self._group, topics=self._topics, timeout=self._timeout)
        except (KafkaTimeoutError, BrokerConnectionError) as error:
            if self._timeout is None:
                raise
            self._timeout = min(self._timeout * 2, _LONGEST_LOOK)
            return no_answer(time.monotonic() - self._answered_at, getattr(error, "last_error", None) or error)
        self._timeout, self._answered_at = _SHORTEST_LOOK, time.monotonic()
        return found


def _draw_lag(admin: Admin, group: str, topics: list[str] | None, interval: float) -> None:
    from rich.live import Live

    before: tuple[float, dict[TopicPartition, int]] | None = None
    looks, title = _Looks(admin, group, topics), ""
    rows: list[Row] = []
    names = ("topic", "partition", "committed", "end", "lag", "commits/s", "client", "host")
    with Live(auto_refresh=False) as live:
        while True:
            found = looks.next()
            if isinstance(found, str):
                live.update(drawn(names, rows, f"{title}\n{found}"), refresh=True)
                continue
            now = time.monotonic()
            rows = [
                (*at.partition, at.committed, at.log_end_offset, at.lag, _rate(before, now, at), at.client_id, at.host)
                for at in sorted(found.values(), key=lambda at: at.partition)
            ]
            before = now, {at.partition: at.committed for at in found.values() if at.committed is not None}
            title = f"{group}: {found.state}, {found.total} behind{_unknown(found)}, {datetime.now():%H:%M:%S}"
            live.update(drawn(names, rows, title), refresh=True)
            time.sleep(interval)


def _rate(before: tuple[float, dict[TopicPartition, int]] | None, now: float, at: Any) -> float | None:
    if before is None or at.committed is None or at.partition not in before[1]:
        return None
    return float((at.committed - before[1][at.partition]) / max(now - before[0], 1e-3))


@administration("groups delete")
def delete(
    groups: Annotated[list[str], Argument(help="Ids of groups.", autocompletion=complete_groups)],
    connection: Connection,
    yes: Yes = False,
) -> None:
    """Delete groups with what they have committed.

    Examples:
        monedula groups delete etl --yes
    """
    confirm(f"Delete {', '.join(groups)} with what was committed?", yes)
    with connection.admin() as admin:
        for group in admin.delete_groups(list(dict.fromkeys(groups))):
            say(f"deleted {group}")


HELP = "List, describe, reset and delete groups; show their lag."
COMMANDS = (("list", list_groups), ("describe", describe), ("lag", lag), *group_offsets.COMMANDS, ("delete", delete))
