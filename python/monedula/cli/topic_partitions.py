"""`monedula topics`: offsets of partitions, and elections of their leaders."""

from typing import Annotated, Any

from typer import Argument, Option

from monedula.cli.administration import Connection, Partitions, Yes, administration
from monedula.cli.completing import complete_topics
from monedula.cli.failures import Failure, UsageError
from monedula.cli.positions import partitions_of, place_of
from monedula.cli.rendering import time_text
from monedula.cli.running import confirm, say
from monedula.cli.tables import AsJson, show
from monedula.cli.topic_names import PATTERN_HELP, Names, expanded
from monedula.types.partitions import TopicPartition


@administration("topics offsets")
def offsets(
    names: Names,
    connection: Connection,
    at: Annotated[
        str, Option(metavar="WHERE", help="earliest, latest, or a time, for the first record that is not older.")
    ] = "latest",
    partition: Partitions = None,
    as_json: AsJson = False,
) -> None:
    """Show offsets of partitions: start, end, or at a time. There is none if no record is that new.

    Examples:
        monedula topics offsets orders
        monedula topics offsets orders --at "1h ago" --partition 0,1
    """
    place = place_of(at, "--at")
    if isinstance(place, int):
        raise UsageError(f"--at {at}: expected earliest, latest, or a time; '@{abs(place)}' is milliseconds since 1970")
    indexes = partitions_of(partition)
    with connection.admin() as admin:
        topics = expanded(admin, names)
        what: Any = [(name, index) for name in topics for index in indexes] or topics
        found = admin.list_offsets(what, place)
    rows = [
        (*where, each.offset, time_text(each.timestamp)) for where, each in sorted(found.items(), key=lambda i: i[0])
    ]
    show(("topic", "partition", "offset", "timestamp"), rows, as_json)


@administration("topics elect-leaders")
def elect_leaders(
    connection: Connection,
    names: Annotated[
        list[str] | None,
        Argument(help=f"Names of topics; {PATTERN_HELP}; all by default.", autocompletion=complete_topics),
    ] = None,
    partition: Partitions = None,
    unclean: Annotated[
        bool,
        Option("--unclean", help="Let a replica lead that is not in sync, if no other is alive: RECORDS ARE LOST."),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Let the first replica of each partition lead again. Those whose leader changed are shown.

    Examples:
        monedula topics elect-leaders
        monedula topics elect-leaders orders --partition 0
    """
    indexes = partitions_of(partition)
    if not names and (indexes or unclean):
        raise UsageError(f"{'--unclean' if unclean else '--partition'} needs a topic")
    with connection.admin() as admin:
        topics = expanded(admin, names)
        described = admin.describe_topics(topics).values() if topics else ()
        chosen = [
            (topic.name, part.partition)
            for topic in described
            for part in topic.partitions
            if not indexes or part.partition in indexes
        ]
        missing = [index for index in indexes if index not in {number for _, number in chosen}]
        if missing:
            raise Failure(f"--partition {missing[0]}: {', '.join(topics)} has no such partition")
        if unclean:
            named = ", ".join(f"{topic}-{index}" for topic, index in chosen)
            confirm(f"Elect leaders of {named} that may lack records, for good?", yes)
        elected = admin.elect_leaders(chosen or None, unclean=unclean)
        changed = sorted(at for at, is_new in elected.items() if is_new)
        leaders = {
            TopicPartition(topic.name, part.partition): part.leader
            for topic in (admin.describe_topics(sorted({at.topic for at in changed})).values() if changed else ())
            for part in topic.partitions
        }
    show(("topic", "partition", "leader"), [(*at, leaders.get(at)) for at in changed], as_json)
    if not changed and not as_json:
        say("no leader changed")


COMMANDS = (("offsets", offsets), ("elect-leaders", elect_leaders))
