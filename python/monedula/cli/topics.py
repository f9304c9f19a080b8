"""`monedula topics`: creates, describes, changes and deletes topics."""

from collections.abc import Mapping
from typing import Annotated, Any

from typer import Argument, Option

from monedula._reprs import counted
from monedula.admin import Admin, NewTopic
from monedula.cli import topic_partitions
from monedula.cli.administration import Connection, Partitions, Yes, administration
from monedula.cli.completing import complete_topics
from monedula.cli.failures import Failure, UsageError
from monedula.cli.positions import Place, partitions_of, place_of
from monedula.cli.running import confirm, say
from monedula.cli.settings import pair
from monedula.cli.similar import similar
from monedula.cli.tables import AsJson, show
from monedula.cli.topic_names import PATTERN_HELP, Names, check_names, expanded, topics_of
from monedula.types.partitions import TopicPartition

Name = Annotated[str, Argument(help="Name of the topic.", autocompletion=complete_topics)]


@administration("topics list")
def list_topics(
    connection: Connection,
    names: Annotated[
        list[str] | None, Argument(help=f"Only these; {PATTERN_HELP}.", autocompletion=complete_topics)
    ] = None,
    internal: Annotated[bool, Option("--internal", help="Kafka's own topics too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List topics with their partitions and replicas.

    Examples:
        monedula topics list
        monedula topics list '^ord'
        monedula topics list --internal --json
    """
    check_names(names or ())
    with connection.admin() as admin:
        topics = admin.list_topics(internal=internal)
    chosen = topics_of(names, topics) if names else sorted(topics)
    unknown = [name for name in chosen if name not in topics]
    if unknown:
        near = similar(unknown[0], topics) if len(unknown) == 1 else []
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        raise Failure(f"there is no topic {', '.join(unknown)}{meant}")
    rows = [(name, topics[name].partitions, topics[name].replication_factor, topics[name].topic_id) for name in chosen]
    names_of_columns = ("topic", "partitions", "replication_factor", "topic_id")
    show(names_of_columns, rows, as_json, spare=("topic_id", "replication_factor"))


@administration("topics create")
def create(
    names: Annotated[list[str], Argument(help="Names of topics.")],
    connection: Connection,
    partitions: Annotated[
        int | None, Option("-p", "--partitions", min=1, help="How many each has; by default the broker decides.")
    ] = None,
    replication_factor: Annotated[
        int | None, Option("-r", "--replication-factor", min=1, help="Replicas of each; likewise.")
    ] = None,
    config: Annotated[
        list[str] | None, Option("-c", "--config", metavar="KEY=VALUE", help="A setting of theirs. Repeatable.")
    ] = None,
    if_not_exists: Annotated[bool, Option("--if-not-exists", help="Leave alone those that exist.")] = False,
) -> None:
    """Create topics.

    Examples:
        monedula topics create payments
        monedula topics create payments refunds --partitions 6 --config retention.ms=86400000
        monedula topics create payments --if-not-exists
    """
    configs = dict(pair(text, "--config") for text in config or ())
    wanted = [NewTopic(name, partitions, replication_factor, configs) for name in dict.fromkeys(names)]
    with connection.admin() as admin:
        made = admin.create_topics(wanted, exist_ok=if_not_exists)
    for topic in made.values():
        say(f"created {topic.name}" + ("" if topic.partitions is None else f", partitions: {topic.partitions}"))


@administration("topics delete")
def delete(
    names: Names,
    connection: Connection,
    yes: Yes = False,
    if_exists: Annotated[bool, Option("--if-exists", help="Do not mind if there is no such topic.")] = False,
) -> None:
    """Delete topics with all of their records.

    Examples:
        monedula topics delete orders --yes
        monedula topics delete payments --yes --if-exists
    """
    with connection.admin() as admin:
        topics = expanded(admin, names)
        confirm(f"Delete {', '.join(topics)} with all records?", yes)
        for name in admin.delete_topics(topics, missing_ok=if_exists):
            say(f"deleted {name}")


@administration("topics describe")
def describe(names: Names, connection: Connection, as_json: AsJson = False) -> None:
    """Show the partitions of topics. Leader, replicas, those in sync, and which offsets they hold.

    Examples:
        monedula topics describe orders
        monedula topics describe orders --json
    """
    with connection.admin() as admin:
        topics = admin.describe_topics(expanded(admin, names))
        led = [
            TopicPartition(topic.name, part.partition)
            for topic in topics.values()
            for part in topic.partitions
            if part.leader is not None
        ]
        first = admin.list_offsets(led, "earliest", errors="return") if led else {}
        end = admin.list_offsets(led, "latest", errors="return") if led else {}
    rows = []
    for topic in sorted(topics.values(), key=lambda topic: topic.name):
        for part in topic.partitions:
            at = TopicPartition(topic.name, part.partition)
            edges = [found[at].offset if at in found else None for found in (first, end)]
            rows.append((*at, part.leader, part.replicas, part.isr, part.offline, *edges))
    names_of_columns = ("topic", "partition", "leader", "replicas", "isr", "offline", "start_offset", "end_offset")
    has_offline = any(row[5] for row in rows)
    show(
        names_of_columns,
        rows,
        as_json,
        spare=("start_offset", "isr") if has_offline else ("offline", "start_offset", "isr"),
    )


@administration("topics add-partitions")
def add_partitions(
    name: Name,
    total: Annotated[int, Option("--to", min=1, help="How many it is to have, those that are there included.")],
    connection: Connection,
) -> None:
    """Give a topic more partitions. Keys that are hashed go to others from then on.

    Examples:
        monedula topics add-partitions orders --to 6
    """
    with connection.admin() as admin:
        admin.create_partitions({name: total})
    say(f"{name} has {counted(total, 'partition')}")


@administration("topics configs")
def configs(
    name: Name,
    connection: Connection,
    sets: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Change a setting. Repeatable.")
    ] = None,
    unsets: Annotated[
        list[str] | None, Option("--unset", metavar="KEY", help="Go back to its default. Repeatable.")
    ] = None,
    everything: Annotated[bool, Option("--all", help="Show those too that have their default.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the settings of a topic, or change some. Only those that are not the default are shown.

    Examples:
        monedula topics configs orders
        monedula topics configs orders --set retention.ms=86400000 --unset cleanup.policy
    """
    changes: dict[str, str | None] = dict(pair(text, "--set") for text in sets or ())
    for key in unsets or ():
        if key in changes:
            raise UsageError(f"--set and --unset both name {key}")
        changes[key] = None
    with connection.admin() as admin:
        if changes:
            admin.alter_configs({("topic", name): changes})
            say(f"changed {', '.join(changes)} of {name}")
            return
        (entries,) = admin.describe_configs(("topic", name)).values()
    rows = [
        (entry.name, entry.value, entry.source)
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if everything or not entry.is_default
    ]
    show(("name", "value", "source"), rows, as_json, spare=("source",))


@administration("topics delete-records")
def delete_records(
    name: Name,
    before: Annotated[
        str,
        Option(
            metavar="WHERE",
            help="First record to keep: an offset, -N for the last N, a time (as in consume); latest keeps none.",
        ),
    ],
    connection: Connection,
    partition: Partitions = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest records of a topic, for good. The topic and its offsets stay.

    Examples:
        monedula topics delete-records orders --before 10 --yes
        monedula topics delete-records orders --before "7d ago" --yes
        monedula topics delete-records orders --before latest --partition 0 --yes
    """
    place = place_of(before, "--before")
    if place == "earliest":
        raise UsageError("--before earliest: that is where the topic starts, so nothing would be deleted")
    indexes = partitions_of(partition)
    with connection.admin() as admin:
        what: Any = [(name, index) for index in indexes] or name
        first = {at: found.offset or 0 for at, found in admin.list_offsets(what, "earliest").items()}
        end = {at: found.offset or 0 for at, found in admin.list_offsets(what, "latest").items()}
        kept = _first_kept(admin, place, first, end)
        plan = {at: offset for at, offset in sorted(kept.items()) if offset > first[at]}
        if not plan:
            say(f"{name} has no records before that; nothing was deleted")
            return
        records = sum(offset - first[at] for at, offset in plan.items())
        confirm(f"Delete up to {records} records of {name}, in {len(plan)} of its partitions?", yes)
        starts = admin.delete_records(plan)
    rows = [(*at, first[at], start) for at, start in sorted(starts.items())]
    show(("topic", "partition", "started_at", "starts_at"), rows, as_json)


def _first_kept(
    admin: Admin, place: Place, first: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if place == "latest":
        return dict(end)
    if isinstance(place, int) and place < 0:
        return {at: max(offset + place, first[at]) for at, offset in end.items()}
    if isinstance(place, int):
        shorter = [
            f"{at.topic}-{at.partition} ends at {offset}" for at, offset in sorted(end.items()) if offset < place
        ]
        if shorter:
            raise Failure(
                f"--before {place} is beyond the end of the log: {', '.join(shorter)}; name the partitions with "
                "--partition, or say --before latest to delete all"
            )
        return dict.fromkeys(end, place)
    found = admin.list_offsets(dict.fromkeys(end, place))
    # All records are older where none is at or after the time: delete up to the end.
    return {at: end[at] if each.offset is None else each.offset for at, each in found.items()}


HELP = "List, create, describe, change and delete topics."
COMMANDS = (
    ("list", list_topics),
    ("create", create),
    ("describe", describe),
    ("configs", configs),
    ("add-partitions", add_partitions),
    *topic_partitions.COMMANDS,
    ("delete-records", delete_records),
    ("delete", delete),
)
