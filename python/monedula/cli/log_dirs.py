"""`monedula log-dirs`: the log directories of brokers, the replicas in them, and moving these."""

from typing import Annotated

from typer import Argument, Option

from monedula.cli.administration import Connection, Partitions, Yes, administration
from monedula.cli.completing import complete_topics
from monedula.cli.failures import Failure
from monedula.cli.positions import partitions_of
from monedula.cli.running import confirm, say
from monedula.cli.tables import AsJson, Row, show
from monedula.cli.topic_names import OnlyTopics, expanded

Brokers = Annotated[list[int] | None, Option("--broker", help="Only of this broker. Repeatable.")]


@administration("log-dirs list")
def list_log_dirs(connection: Connection, broker: Brokers = None, as_json: AsJson = False) -> None:
    """List log directories. How many replicas each has, their bytes, and the bytes of its volume.

    Examples:
        monedula log-dirs list
        monedula log-dirs list --broker 1 --json
    """
    with connection.admin() as admin:
        found = admin.describe_log_dirs(broker or None)
    rows: list[Row] = [
        (number, each.path, len(each.replicas), each.size, each.usable_bytes, each.total_bytes, each.error)
        for number, directories in sorted(found.items())
        for each in sorted(directories, key=lambda each: each.path)
    ]
    names = ("broker", "log_dir", "replicas", "bytes", "usable_bytes", "total_bytes", "error")
    has_errors = any(row[-1] for row in rows)
    show(names, rows, as_json, spare=(*(() if has_errors else ["error"]), "total_bytes", "usable_bytes"))


@administration("log-dirs replicas")
def replicas(
    connection: Connection,
    broker: Brokers = None,
    topic: OnlyTopics = None,
    largest: Annotated[int | None, Option(metavar="N", min=1, help="The N largest, the largest first.")] = None,
    as_json: AsJson = False,
) -> None:
    """List replicas by broker, directory and partition. Bytes, how far behind, and whether one is moving there.

    Examples:
        monedula log-dirs replicas --topic orders
        monedula log-dirs replicas --largest 10
    """
    with connection.admin() as admin:
        found = admin.describe_log_dirs(broker or None, topics=expanded(admin, topic) or None)
    replicas = [
        (number, each.path, partition, replica)
        for number, directories in sorted(found.items())
        for each in sorted(directories, key=lambda each: each.path)
        for partition, replica in sorted(each.replicas.items(), key=lambda item: item[0])
    ]
    if largest is not None:
        replicas = sorted(replicas, key=lambda at: at[3].size, reverse=True)[:largest]
    rows: list[Row] = [
        (number, path, *partition, replica.size, replica.offset_lag, replica.is_future)
        for number, path, partition, replica in replicas
    ]
    names = ("broker", "log_dir", "topic", "partition", "bytes", "offset_lag", "is_future")
    show(names, rows, as_json, spare=("offset_lag", "log_dir", "is_future"))


@administration("log-dirs move")
def move(
    topic: Annotated[str, Argument(help="Name of the topic.", autocompletion=complete_topics)],
    broker: Annotated[int, Option("--broker", help="The broker whose replicas move.")],
    to: Annotated[str, Option("--to", metavar="PATH", help="The directory, as `log-dirs list` shows it.")],
    connection: Connection,
    partition: Partitions = None,
    yes: Yes = False,
) -> None:
    """Move replicas to another directory of the same broker. `log-dirs replicas` shows those that are still moving.

    Examples:
        monedula log-dirs move orders --broker 1 --partition 0,1 --to "$(monedula log-dirs list | cut -f 2)" --yes
    """
    indexes = partitions_of(partition)
    with connection.admin() as admin:
        (directories,) = admin.describe_log_dirs(broker).values()
        paths = sorted(each.path for each in directories)
        if to not in paths:
            raise Failure(f"--to {to}: the directories of broker {broker} are {', '.join(paths)}")
        kept = {at.partition for each in directories for at in each.replicas if at.topic == topic}
        missing = [index for index in indexes if index not in kept]
        if missing or not kept:
            names = ", ".join(f"{topic}-{index}" for index in missing) or topic
            raise Failure(f"broker {broker} has no replica of {names}")
        chosen = sorted(indexes or kept)
        confirm(f"Move {len(chosen)} replicas of {topic} on broker {broker} to {to}?", yes)
        admin.alter_replica_log_dirs({(topic, index, broker): to for index in chosen})
    say(f"moving to {to}: {', '.join(f'{topic}-{index}' for index in chosen)}")


HELP = "List log directories and their replicas, and move replicas."
COMMANDS = (("list", list_log_dirs), ("replicas", replicas), ("move", move))
