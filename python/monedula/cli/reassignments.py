"""`monedula reassignments`: plans moves of partitions to other brokers, starts, follows and cancels them."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from monedula._reprs import counted
from monedula.admin import Admin, Reassignment
from monedula.cli.administration import Connection, Yes, administration
from monedula.cli.balance import Assignment, balanced
from monedula.cli.cluster import described
from monedula.cli.failures import Failure, UsageError
from monedula.cli.files import write_text
from monedula.cli.running import confirm, say, text_in
from monedula.cli.tables import AsJson, Row, show
from monedula.cli.throttle import Replicas, rate_of, throttle, unthrottle
from monedula.cli.topic_names import OnlyTopics, expanded
from monedula.errors import KafkaError
from monedula.types.partitions import TopicPartition

# Between two looks of `status --wait`.
_INTERVAL_SECONDS = 1.0

_LIFTED = "; the limit on copying is lifted"


@administration("reassignments plan")
def plan(
    connection: Connection,
    topic: OnlyTopics = None,
    brokers: Annotated[
        str | None, Option(metavar="ID,...", help="The brokers that are to have the replicas; all by default.")
    ] = None,
    replication_factor: Annotated[
        int | None, Option("-r", "--replication-factor", min=1, help="Replicas of each partition; else as now.")
    ] = None,
    output: Annotated[
        Path | None, Option("-o", "--output", help="Write the plan to this file, for `reassignments start`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan which brokers keep which partitions. Evenly, on several racks, with few moves. Changes nothing.

    Without --topic, of all topics, Kafka's own included: so a broker that is to go is left out of --brokers.

    Examples:
        monedula reassignments plan
        monedula reassignments plan --topic orders --brokers 1 -o plan.json
        monedula reassignments plan --topic orders --replication-factor 1 --json
    """
    named = None if brokers is None else _ids(brokers)
    if named is not None and replication_factor is not None:
        _check_count(replication_factor, named, UsageError)
    with connection.admin() as admin:
        nodes = {node.id: node.rack for node in admin.describe_cluster().nodes}
        chosen = sorted(nodes) if named is None else named
        unknown = [broker for broker in chosen if broker not in nodes]
        if unknown:
            living = ", ".join(map(str, sorted(nodes)))
            raise Failure(f"there is no broker {unknown[0]}; there are: {living}")
        current = _current(admin, expanded(admin, topic) or None)
    most = replication_factor or max(map(len, current.values()), default=0)
    _check_count(most, chosen, Failure)
    planned = balanced(current, chosen, nodes, replication_factor)
    moves = {at: replicas for at, replicas in planned.items() if replicas != list(current[at])}
    if output is not None:
        text = _as_text(moves)
        if output == Path("-"):
            typer.echo(text)
            return
        write_text(output, text + "\n")
    show(("topic", "partition", "before", "after"), [(*at, current[at], moves[at]) for at in moves], as_json)
    if not as_json:
        say(
            f"{len(moves)} of {len(current)} partitions move" + ("" if output is None else f"; the plan is in {output}")
        )


@administration("reassignments start")
def start(
    file: Annotated[
        Path, Argument(help="A plan: of `reassignments plan`, or of kafka-reassign-partitions; - for a pipe.")
    ],
    connection: Connection,
    save_current: Annotated[
        Path | None, Option("--save-current", metavar="FILE", help="Write the assignment of now, as a plan.")
    ] = None,
    throttled: Annotated[
        str | None,
        Option(
            "--throttle",
            metavar="RATE",
            help="Copy at most so many bytes a second on each broker, as 10m; waits for the end, and lifts the limit.",
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    """Start the moves of a plan; `reassignments status` follows them.

    Examples:
        monedula reassignments plan --topic orders -o plan.json && monedula reassignments start plan.json --yes
        monedula reassignments plan --topic orders -o - | monedula reassignments start - --save-current undo.json --yes
        monedula reassignments plan -t orders -o plan.json && monedula reassignments start plan.json --throttle 10m -y
    """
    rate = None if throttled is None else rate_of(throttled)
    planned = _read(file)
    with connection.admin() as admin:
        current = _current(admin, sorted({at.topic for at in planned}))
        unknown = [f"{at.topic}-{at.partition}" for at in planned if at not in current]
        if unknown:
            raise Failure(f"{file}: there is no partition {', '.join(unknown)}")
        moves = {at: replicas for at, replicas in sorted(planned.items()) if list(current[at]) != replicas}
        if not moves:
            lifted = rate is not None and unthrottle(admin, planned)
            say("every partition is where the plan wants it; nothing was started" + (_LIFTED if lifted else ""))
            return
        for at, replicas in moves.items():
            say(f"{at.topic}-{at.partition}: {_listed(current[at])} -> {_listed(replicas)}")
        confirm(f"Move {counted(len(moves), 'partition')}?", yes)
        if save_current is not None:
            write_text(save_current, _as_text({at: current[at] for at in moves}) + "\n")
        if rate is None:
            admin.alter_partition_reassignments(moves)
            say(f"started: {len(moves)}")
        else:
            _move_throttled(admin, rate, {at: current[at] for at in moves}, moves)


@administration("reassignments status")
def status(
    connection: Connection,
    wait: Annotated[bool, Option("--wait", help="Look every second until no partition moves any more.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the partitions that are moving. With replicas, those that come and go, and how much was copied.

    Examples:
        monedula reassignments status
        monedula reassignments status --wait
    """
    with connection.admin() as admin:
        moves = admin.list_partition_reassignments()
        while wait and moves:
            say(f"moving: {counted(len(moves), 'partition')}")
            time.sleep(_INTERVAL_SECONDS)
            moves = admin.list_partition_reassignments()
        copied = _copied(admin, moves)
    rows: list[Row] = [
        (*at, move.replicas, move.adding, move.removing, copied.get(at)) for at, move in sorted(moves.items())
    ]
    show(("topic", "partition", "replicas", "adding", "removing", "percent"), rows, as_json)
    if not rows and not as_json:
        say("no partition moves")


@administration("reassignments cancel")
def cancel(connection: Connection, topic: OnlyTopics = None, yes: Yes = False) -> None:
    """Cancel moves that have not ended. The replicas stay where they were before.

    Examples:
        monedula reassignments cancel --topic orders --yes
        monedula reassignments cancel --yes
    """
    with connection.admin() as admin:
        topics = expanded(admin, topic)
        moves = sorted(at for at in admin.list_partition_reassignments() if not topics or at.topic in topics)
        if not moves:
            say("no partition moves; nothing was cancelled")
            return
        names = ", ".join(f"{at.topic}-{at.partition}" for at in moves)
        confirm(f"Cancel the moves of {names}?", yes)
        ended = admin.alter_partition_reassignments(dict.fromkeys(moves), errors="return")
        if ended and unthrottle(admin, list(ended)):
            say("the limit on their copying is lifted")
    for at in ended:
        say(f"cancelled: {at.topic}-{at.partition}")
    for at, error in ended.errors.items():
        if error.code != "NO_REASSIGNMENT_IN_PROGRESS":  # it has ended in the meantime
            raise Failure(f"{at.topic}-{at.partition}: {error}")


def _move_throttled(admin: Admin, rate: int, current: Replicas, moves: Replicas) -> None:
    """Start moves with a limit, wait for their end, and lift the limit, also if they cannot be started."""
    # Replicas that a move under way still adds are no sources.
    adding = {at: move.adding for at, move in admin.list_partition_reassignments().items()}
    before = {at: [each for each in replicas if each not in adding.get(at, ())] for at, replicas in current.items()}
    lifting = throttle(admin, rate, before, moves)
    try:
        admin.alter_partition_reassignments(moves)
        say(f"started: {len(moves)}")
        while left := sum(at in moves for at in admin.list_partition_reassignments()):
            say(f"moving: {counted(left, 'partition')}")
            time.sleep(_INTERVAL_SECONDS)
    except BaseException as error:
        if isinstance(error, KafkaError) and not any(at in moves for at in admin.list_partition_reassignments()):
            lifting.lift(admin)
        else:
            say("the moves go on, and so does the limit; the same command waits for their end, and lifts it")
        raise
    lifting.lift(admin)
    say(f"ended: {len(moves)}{_LIFTED}")


def _current(admin: Admin, topics: list[str] | None) -> dict[TopicPartition, Sequence[int]]:
    found = described(admin) if topics is None else admin.describe_topics(topics).values()
    return {TopicPartition(topic.name, part.partition): part.replicas for topic in found for part in topic.partitions}


def _copied(admin: Admin, moves: Mapping[TopicPartition, Reassignment]) -> dict[TopicPartition, float]:
    """Progress of the slowest new replica of each partition, in percent of the largest old one."""
    if not moves:
        return {}
    directories = admin.describe_log_dirs(partitions=list(moves), errors="return")
    sizes = {
        (at, broker): replica.size
        for broker, found in directories.items()
        for each in found
        for at, replica in each.replicas.items()
    }
    copied = {}
    for at, move in moves.items():
        old = max((sizes.get((at, broker), 0) for broker in move.replicas if broker not in move.adding), default=0)
        new = min((sizes.get((at, broker), 0) for broker in move.adding), default=old)
        copied[at] = min(100.0 * new / old, 100.0) if old else 100.0
    return copied


def _check_count(replicas: int, brokers: Sequence[int], error: type[Exception]) -> None:
    if replicas > len(brokers):
        listed = ", ".join(map(str, brokers))
        raise error(f"{replicas} replicas need as many brokers; there are {len(brokers)}: {listed}")


def _ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,18}", part) for part in parts):
        raise UsageError(f"--brokers {text}: expected ids of brokers, such as 1,2,3")
    return list(dict.fromkeys(map(int, parts)))


def _listed(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _as_text(moves: Mapping[TopicPartition, Sequence[int]]) -> str:
    partitions = [
        {"topic": at.topic, "partition": at.partition, "replicas": list(replicas)} for at, replicas in moves.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def _read(file: Path) -> Assignment:
    text = text_in(file)
    try:
        entries: list[dict[str, Any]] = json.loads(text)["partitions"]
        if any(name != "any" for entry in entries for name in entry.get("log_dirs", ())):
            raise Failure(f"{file}: log_dirs other than any are not followed; see monedula log-dirs move")
        plan = {TopicPartition(entry["topic"], entry["partition"]): entry["replicas"] for entry in entries}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Failure(
            f'{file}: expected {{"partitions": [{{"topic": "orders", "partition": 0, "replicas": [1, 2]}}]}}'
        ) from None
    for at, replicas in plan.items():
        if type(at.topic) is not str or type(at.partition) is not int or at.partition < 0:
            raise Failure(f"{file}: {at.topic}-{at.partition}: a topic is a text and a partition a number, 0 or more")
        if not isinstance(replicas, list) or not replicas or not all(type(broker) is int for broker in replicas):
            raise Failure(f"{file}: {at.topic}-{at.partition}: replicas are ids of brokers, such as [1, 2]")
    return plan


HELP = "Plan, start, follow and cancel moves of partitions."
COMMANDS = (("plan", plan), ("start", start), ("status", status), ("cancel", cancel))
