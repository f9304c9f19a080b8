"""`monedula groups`: shows, resets, deletes, exports and imports the committed offsets of groups."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from monedula._reprs import counted
from monedula.admin import Admin
from monedula.cli.administration import Connection, DryRun, Partitions, Yes, administration
from monedula.cli.completing import complete_groups
from monedula.cli.failures import Failure, UsageError
from monedula.cli.files import write_text
from monedula.cli.offset_files import OffsetsFormat, offsets_format, read_offsets, written_offsets
from monedula.cli.positions import Place, duration_of, partitions_of, place_of
from monedula.cli.running import confirm, say
from monedula.cli.tables import AsJson, show
from monedula.cli.topic_names import OnlyTopics, expanded, topics_of
from monedula.types.partitions import TopicPartition

Group = Annotated[str, Argument(help="Id of the group.", autocompletion=complete_groups)]


def name_of(partition: TopicPartition) -> str:
    """A partition as text: topic and number."""
    return f"{partition.topic}-{partition.partition}"


@administration("groups offsets")
def offsets(group: Group, connection: Connection, as_json: AsJson = False) -> None:
    """Show what a group has committed.

    Examples:
        monedula groups offsets etl
    """
    with connection.admin() as admin:
        found = admin.list_group_offsets(group)
        if not found:
            _check_exists(admin, group)
    rows = [
        (*partition, at.offset, at.leader_epoch if at.leader_epoch >= 0 else None, at.metadata)
        for partition, at in sorted(found.items())
        if at is not None
    ]
    show(("topic", "partition", "offset", "leader_epoch", "metadata"), rows, as_json)


@administration("groups reset")
def reset(
    group: Group,
    connection: Connection,
    to: Annotated[
        str | None, Option(metavar="WHERE", help="earliest, latest, a time (as in consume), or an offset.")
    ] = None,
    shift: Annotated[int | None, Option(metavar="N", help="So many records forward, or backward if negative.")] = None,
    by_duration: Annotated[
        str | None,
        Option("--by-duration", metavar="DURATION", help="To so long ago: 90m, 7d, or as in ISO 8601, PT1H30M."),
    ] = None,
    to_current: Annotated[
        bool, Option("--to-current", help="To what is committed, and to the end of partitions without that.")
    ] = False,
    topic: OnlyTopics = None,
    partition: Partitions = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Rewind or forward a group that has no members. All that it has committed, or the topics given.

    Examples:
        monedula groups reset etl --to earliest --dry-run
        monedula groups reset etl --to "1h ago" --topic orders --yes
        monedula groups reset etl --shift -100 --yes
        monedula groups reset etl --to 2 --topic orders --partition 0 --yes
        monedula groups reset etl --by-duration 1h --yes
        monedula groups reset etl --to-current --topic orders --yes
    """
    if [to, shift, by_duration, to_current or None].count(None) != 3:
        raise UsageError("say where to go, with one of --to, --shift, --by-duration and --to-current")
    place: Place | None = None if to is None else place_of(to, "--to")
    if isinstance(place, int) and place < 0:
        raise UsageError(f"--to {to}: an offset is not negative; --shift moves a group by a number of records")
    if by_duration is not None:
        place = datetime.now(UTC) - duration_of(by_duration, "--by-duration")
    indexes = partitions_of(partition)
    if indexes and not topic:
        raise UsageError("--partition needs a --topic")
    with connection.admin() as admin:
        topics = expanded(admin, topic)
        chosen = [(name, index) for name in topics for index in indexes]
        if to_current or isinstance(place, int):
            offset = place if isinstance(place, int) else None
            offsets = _at_offset(admin, group, offset, topics, chosen)
            plan = admin.reset_group_offsets(group, offsets, dry_run=True) if offsets else {}
        else:
            target: Any = {"shift": shift} if place is None else place
            where: dict[str, Any] = {"partitions": chosen} if chosen else {"topics": topics or None}
            plan = admin.reset_group_offsets(group, target, dry_run=True, **where)
        if not plan:
            _check_exists(admin, group)
            raise Failure(f"{group} has committed nothing; --topic TOPIC sets its offsets of a topic")
        rows = [(*at.partition, at.before, at.after) for at in sorted(plan.values(), key=lambda at: at.partition)]
        show(("topic", "partition", "before", "after"), rows, as_json)
        if dry_run:
            return
        confirm(f"Set the offsets of {group}?", yes)
        # Commit the offsets that were shown: those of the ends of the logs may have changed meanwhile.
        admin.alter_group_offsets(group, {at.partition: at.after for at in plan.values()})
    say(f"reset {group}")


def _check_exists(admin: Admin, group: str) -> None:
    """Raise if the group does not exist: brokers answer for it as for one that has committed nothing."""
    admin.describe_groups(group)


def _at_offset(
    admin: Admin, group: str, offset: int | None, topics: list[str], chosen: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """The same offset for each partition; without one, what is committed, and the end where nothing is."""
    committed = {at: found.offset for at, found in admin.list_group_offsets(group).items() if found is not None}
    partitions: list[tuple[str, int]] = list(chosen or committed)
    if topics and not chosen:
        described = admin.describe_topics(topics).values()
        partitions = [(each.name, part.partition) for each in described for part in each.partitions]
    if offset is not None:
        return dict.fromkeys(partitions, offset)
    current = {TopicPartition(*at): committed.get(TopicPartition(*at)) for at in partitions}
    fresh = [at for at, found in current.items() if found is None]
    ends = admin.list_offsets(fresh, "latest") if fresh else {}
    return {at: (ends[at].offset or 0) if found is None else found for at, found in current.items()}


@administration("groups delete-offsets")
def delete_offsets(
    group: Group,
    topic: Annotated[
        list[str], Option("-t", "--topic", help="Of this topic; ^REGEX is each that matches. Repeatable.")
    ],
    connection: Connection,
    partition: Partitions = None,
    yes: Yes = False,
) -> None:
    """Forget what a group has committed of topics. It must not read them any more; they no longer count as lag.

    Examples:
        monedula groups delete-offsets etl --topic orders --yes
        monedula groups delete-offsets etl --topic orders --partition 0,2 --yes
    """
    indexes = partitions_of(partition)
    with connection.admin() as admin:
        committed = [at for at, offset in admin.list_group_offsets(group).items() if offset is not None]
        topics = topics_of(topic, {at.topic for at in committed})
        chosen = sorted(at for at in committed if at.topic in topics and (not indexes or at.partition in indexes))
        if not committed:
            _check_exists(admin, group)
        if not chosen:
            others = ", ".join(sorted({at.topic for at in committed})) or "nothing at all"
            raise Failure(f"{group} has committed nothing there; it has of: {others}")
        names = ", ".join(map(name_of, chosen))
        confirm(f"Delete what {group} has committed of {names}?", yes)
        for at in admin.delete_group_offsets(group, chosen):
            say(f"deleted the offset of {name_of(at)}")


@administration("groups export")
def export(
    groups: Annotated[list[str], Argument(help="Ids of groups.", autocompletion=complete_groups)],
    connection: Connection,
    topic: OnlyTopics = None,
    output: Annotated[
        Path | None, Option("-o", "--output", help="A file, .csv or .json; standard output without it.")
    ] = None,
    format_: Annotated[OffsetsFormat | None, Option("-f", "--format", help="By default CSV.")] = None,
) -> None:
    """Write what groups have committed, for `groups import`.

    As CSV without a heading, in the form of Kafka's own tool: topic, partition, offset; of several groups, the
    group before these. As JSON lines with metadata.

    Examples:
        monedula groups export etl
        monedula groups export etl -o etl.csv
        monedula groups export etl --topic orders --format json
    """
    kind = offsets_format(format_, output)
    with connection.admin() as admin:
        topics = expanded(admin, topic)
        committed = {group: admin.list_group_offsets(group) for group in dict.fromkeys(groups)}
        for group, offsets in committed.items():
            if not offsets:
                _check_exists(admin, group)
        rows = [
            (group, *partition, found.offset, found.metadata)
            for group, offsets in committed.items()
            for partition, found in sorted(offsets.items())
            if found is not None and (not topics or partition.topic in topics)
        ]
    if not rows:
        raise Failure(f"{', '.join(groups)} has committed nothing{' of these topics' if topics else ''}")
    text = written_offsets(rows, kind)
    if output is None or output == Path("-"):
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    say(f"{output}: {counted(len(rows), 'offset')}")


@administration("groups import")
def import_(
    file: Annotated[Path, Argument(help="A file that `groups export` or Kafka's own tool wrote; - for a pipe.")],
    connection: Connection,
    group: Annotated[
        str | None, Option("-g", "--group", help="Set the offsets of this group; else of that in the file.")
    ] = None,
    clamp: Annotated[
        bool, Option("--clamp", help="Move offsets that a log does not hold any more, or not yet, to its ends.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Set the committed offsets of groups to those of a file. The groups have no members; other partitions stay.

    Examples:
        monedula groups export etl | monedula groups import - --group copy-of-etl --yes
        monedula groups export etl -o etl.csv && monedula groups import etl.csv --group etl --dry-run
    """
    offsets = read_offsets(file, group)
    with connection.admin() as admin:
        if clamp:
            offsets = {name: _clamped(admin, wanted) for name, wanted in offsets.items()}
        plans = {
            name: admin.reset_group_offsets(name, {at: offset for at, (offset, _) in wanted.items()}, dry_run=True)
            for name, wanted in offsets.items()
        }
        rows = [
            (name, *at.partition, at.before, at.after)
            for name, plan in plans.items()
            for at in sorted(plan.values(), key=lambda at: at.partition)
        ]
        show(("group", "topic", "partition", "before", "after"), rows, as_json)
        if dry_run:
            return
        confirm(f"Set the offsets of {', '.join(offsets)}?", yes)
        for name, wanted in offsets.items():
            admin.alter_group_offsets(name, wanted)
            say(f"{name}: {counted(len(wanted), 'offset')} set")


def _clamped(admin: Admin, offsets: Mapping[TopicPartition, tuple[int, str]]) -> dict[TopicPartition, tuple[int, str]]:
    first, end = (admin.list_offsets(list(offsets), edge) for edge in ("earliest", "latest"))
    return {
        at: (min(max(offset, first[at].offset or 0), end[at].offset or 0), metadata)
        for at, (offset, metadata) in offsets.items()
    }


COMMANDS = (
    ("offsets", offsets),
    ("reset", reset),
    ("export", export),
    ("import", import_),
    ("delete-offsets", delete_offsets),
)
