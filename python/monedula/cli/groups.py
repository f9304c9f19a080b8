"""`monedula groups`: lists and describes consumer groups, shows their lag, and resets or deletes their offsets."""

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from monedula.admin import Admin, GroupLag
from monedula.cli.positions import partitions_of, place_of
from monedula.cli.running import Failure, UsageError, command, confirm, say
from monedula.cli.settings import BootstrapServers, Setting, SettingsFile
from monedula.cli.silence import no_answer
from monedula.cli.tables import AsJson, Row, drawn, line_of, show
from monedula.cli.topics import Partitions, Yes, administering
from monedula.errors import BrokerConnectionError, KafkaTimeoutError
from monedula.partitions import TopicPartition

Group = Annotated[str, typer.Argument(help="Id of the group.")]
Topics = Annotated[list[str] | None, typer.Option("-t", "--topic", help="Only this topic. Repeatable.")]

_STATES = {
    name.lower(): name
    for name in ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
}

LIST_EXAMPLES = """
monedula groups list
monedula groups list --state Empty --json
"""


@command("groups list")
def list_groups(
    bootstrap_servers: BootstrapServers = None,
    state: Annotated[
        list[str] | None, typer.Option(help="Only those in this state, such as Stable or Empty. Repeatable.")
    ] = None,
    as_json: AsJson = False,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    """List groups with their states, asked of every broker."""
    unknown = [name for name in state or () if name.lower() not in _STATES]
    if unknown:
        raise UsageError(f"--state {unknown[0]}: expected one of {', '.join(_STATES.values())}")
    with administering(bootstrap_servers, setting, settings_file) as admin:
        found = admin.list_groups(states=[_STATES[name.lower()] for name in state or ()]).values()
        rows = [(group.group_id, group.state, group.type, group.protocol_type, group.coordinator) for group in found]
    show(("group", "state", "type", "protocol_type", "coordinator"), rows, as_json)


DESCRIBE_EXAMPLES = """
monedula groups describe etl
monedula groups describe etl --json
"""


@command("groups describe")
def describe(
    group: Group,
    bootstrap_servers: BootstrapServers = None,
    as_json: AsJson = False,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    """Show the members of a group, and which partitions each owns."""
    with administering(bootstrap_servers, setting, settings_file) as admin:
        (found,) = admin.describe_groups(group).values()
    if not as_json:
        coordinator = "" if found.coordinator is None else f", coordinator {found.coordinator.id}"
        assignor = f", assignor {found.assignor}" if found.assignor else ""
        say(f"{found.group_id}: {found.state}, {found.type}{assignor}{coordinator}, members: {len(found.members)}")
    rows = [
        (member.member_id, member.instance_id, member.client_id, member.host, [_name(at) for at in member.assignment])
        for member in found.members
    ]
    show(("member", "instance_id", "client_id", "host", "partitions"), rows, as_json)


LAG_COLUMNS = ("group", "topic", "partition", "committed", "end_offset", "lag", "client_id", "host")
LAG_EXAMPLES = """
monedula groups lag etl
monedula groups lag etl --watch --interval 1
monedula groups lag etl --topic orders --json
"""


@command("groups lag")
def lag(
    group: Group,
    bootstrap_servers: BootstrapServers = None,
    topic: Topics = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    as_json: AsJson = False,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    """Show how far a group is behind, by partition; with --watch as a live table, in a pipe as rows with the time."""
    with administering(bootstrap_servers, setting, settings_file) as admin:
        if not watch:
            show(LAG_COLUMNS, _lag_rows(admin.group_lag(group, topics=topic)), as_json)
        elif as_json or not sys.stdout.isatty():
            _write_lag(admin, group, topic, interval, as_json)
        else:
            _draw_lag(admin, group, topic, interval)


# Seconds that a look may take before the picture says that no broker answers. A slow cluster gets more in the next.
_SHORTEST_LOOK, _LONGEST_LOOK = 3.0, 15.0


def _lag_rows(found: GroupLag) -> list[Row]:
    rows = sorted(found.values(), key=lambda at: at.partition)
    return [(found.group, *at.partition, at.committed, at.log_end_offset, at.lag, at.client_id, at.host) for at in rows]


def _write_lag(admin: Admin, group: str, topics: list[str] | None, interval: float, as_json: bool) -> None:
    looks = _Looks(admin, group, topics)
    while True:
        found = looks.next()
        if isinstance(found, str):
            say(found)
            continue
        now = datetime.now(UTC).isoformat(timespec="seconds")
        for row in _lag_rows(found):
            sys.stdout.write(line_of(("time", *LAG_COLUMNS), (now, *row), as_json))
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
            title = f"{group}: {found.state}, {found.total} behind, {datetime.now():%H:%M:%S}"
            live.update(drawn(names, rows, title), refresh=True)
            time.sleep(interval)


def _rate(before: tuple[float, dict[TopicPartition, int]] | None, now: float, at: Any) -> float | None:
    if before is None or at.committed is None or at.partition not in before[1]:
        return None
    return float((at.committed - before[1][at.partition]) / max(now - before[0], 1e-3))


OFFSETS_EXAMPLES = """
monedula groups offsets etl
"""


@command("groups offsets")
def offsets(
    group: Group,
    bootstrap_servers: BootstrapServers = None,
    as_json: AsJson = False,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    """Show what a group has committed."""
    with administering(bootstrap_servers, setting, settings_file) as admin:
        found = admin.list_group_offsets(group)
    rows = [
        (*partition, at.offset, at.leader_epoch if at.leader_epoch >= 0 else None, at.metadata)
        for partition, at in sorted(found.items())
        if at is not None
    ]
    show(("topic", "partition", "offset", "leader_epoch", "metadata"), rows, as_json)


RESET_EXAMPLES = """
monedula groups reset etl --to earliest --dry-run
monedula groups reset etl --to "1h ago" --topic orders --yes
monedula groups reset etl --shift -100 --yes
monedula groups reset etl --to 2 --topic orders --partition 0 --yes
"""


@command("groups reset")
def reset(
    group: Group,
    bootstrap_servers: BootstrapServers = None,
    to: Annotated[
        str | None, typer.Option(metavar="WHERE", help="earliest, latest, a time (as in consume), or an offset.")
    ] = None,
    shift: Annotated[
        int | None, typer.Option(metavar="N", help="So many records forward, or backward if negative.")
    ] = None,
    topic: Topics = None,
    partition: Partitions = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    """Rewind or forward a group that has no members: all that it has committed, or the topics given."""
    if (to is None) == (shift is None):
        raise UsageError("say where to go, with either --to or --shift")
    indexes = partitions_of(partition)
    if indexes and not topic:
        raise UsageError("--partition needs a --topic")
    with administering(bootstrap_servers, setting, settings_file) as admin:
        chosen = [(name, index) for name in topic or () for index in indexes]
        target: Any = {"shift": shift} if to is None else _target(admin, group, to, topic, chosen)
        where: dict[str, Any] = {} if isinstance(target, dict) and to is not None else _where(topic, chosen)
        plan = admin.reset_group_offsets(group, target, dry_run=True, **where)
        rows = [(*at.partition, at.before, at.after) for at in sorted(plan.values(), key=lambda at: at.partition)]
        show(("topic", "partition", "before", "after"), rows, as_json)
        if dry_run or not rows:
            return
        confirm(f"Set the offsets of {group}?", yes)
        # Commit the offsets that were shown: those of the ends of the logs may have changed meanwhile.
        admin.alter_group_offsets(group, {at.partition: at.after for at in plan.values()})
    say(f"reset {group}")


def _where(topics: list[str] | None, chosen: Sequence[tuple[str, int]]) -> dict[str, Any]:
    return {"partitions": chosen} if chosen else {"topics": topics}


def _target(admin: Admin, group: str, to: str, topics: list[str] | None, chosen: Sequence[tuple[str, int]]) -> Any:
    place = place_of(to, "--to")
    if not isinstance(place, int):
        return place
    if place < 0:
        raise UsageError(f"--to {to}: an offset is not negative; --shift moves a group by a number of records")
    if chosen:
        return dict.fromkeys(chosen, place)
    if topics:
        described = admin.describe_topics(topics).values()
        return {(each.name, part.partition): place for each in described for part in each.partitions}
    return dict.fromkeys(admin.list_group_offsets(group), place)


DELETE_OFFSETS_EXAMPLES = """
monedula groups delete-offsets etl --topic orders --yes
monedula groups delete-offsets etl --topic orders --partition 0,2 --yes
"""


@command("groups delete-offsets")
def delete_offsets(
    group: Group,
    topic: Annotated[list[str], typer.Option("-t", "--topic", help="Of this topic. Repeatable.")],
    bootstrap_servers: BootstrapServers = None,
    partition: Partitions = None,
    yes: Yes = False,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    """Forget what a group has committed of topics that it does not read any more; they no longer count as its lag."""
    indexes = partitions_of(partition)
    with administering(bootstrap_servers, setting, settings_file) as admin:
        committed = [at for at, offset in admin.list_group_offsets(group).items() if offset is not None]
        chosen = sorted(at for at in committed if at.topic in topic and (not indexes or at.partition in indexes))
        if not chosen:
            others = ", ".join(sorted({at.topic for at in committed})) or "nothing at all"
            raise Failure(f"{group} has committed nothing there; it has of: {others}")
        names = ", ".join(map(_name, chosen))
        confirm(f"Delete what {group} has committed of {names}?", yes)
        for at in admin.delete_group_offsets(group, chosen):
            say(f"deleted the offset of {_name(at)}")


DELETE_EXAMPLES = """
monedula groups delete etl --yes
"""


@command("groups delete")
def delete(
    groups: Annotated[list[str], typer.Argument(help="Ids of groups.")],
    bootstrap_servers: BootstrapServers = None,
    yes: Yes = False,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    """Delete groups with what they have committed."""
    confirm(f"Delete {', '.join(groups)} with what was committed?", yes)
    with administering(bootstrap_servers, setting, settings_file) as admin:
        for group in admin.delete_groups(list(dict.fromkeys(groups))):
            say(f"deleted {group}")


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


app = typer.Typer(help="List, describe, watch, reset and delete groups.", no_args_is_help=True, rich_markup_mode=None)
COMMANDS = (
    ("list", list_groups, LIST_EXAMPLES),
    ("describe", describe, DESCRIBE_EXAMPLES),
    ("lag", lag, LAG_EXAMPLES),
    ("offsets", offsets, OFFSETS_EXAMPLES),
    ("reset", reset, RESET_EXAMPLES),
    ("delete-offsets", delete_offsets, DELETE_OFFSETS_EXAMPLES),
    ("delete", delete, DELETE_EXAMPLES),
)
