"""`monedula transactions`: lists and describes transactions, finds those that hang, and aborts them."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any

from typer import Argument, Option

from monedula.admin import Admin, ProducerState
from monedula.admin.transactions import LONGEST_TRANSACTION_MS, STATES
from monedula.cli.administration import Connection, Partitions, Yes, administration
from monedula.cli.completing import complete_topics
from monedula.cli.failures import Failure, UsageError
from monedula.cli.group_offsets import name_of
from monedula.cli.positions import duration_of, partitions_of
from monedula.cli.rendering import counted, time_text
from monedula.cli.running import confirm, say
from monedula.cli.tables import AsJson, Row, show
from monedula.cli.topic_names import Names, OnlyTopics, expanded
from monedula.types.partitions import TopicPartition

_STATES = {name.lower(): name for name in STATES}

Broker = Annotated[int | None, Option("--broker", metavar="ID", help="Ask this broker, which has replicas of them.")]


@administration("transactions list")
def list_transactions(
    connection: Connection,
    state: Annotated[
        list[str] | None, Option(help="Only those in this state, such as Ongoing or CompleteCommit. Repeatable.")
    ] = None,
    producer_id: Annotated[list[int] | None, Option(min=0, help="Only that of this producer id. Repeatable.")] = None,
    longer_than: Annotated[str | None, Option(metavar="TIME", help="Only those that began before: 90s, 30m.")] = None,
    matching: Annotated[str | None, Option(metavar="REGEX", help="Only transactional ids that match it whole.")] = None,
    as_json: AsJson = False,
) -> None:
    """List transactional ids with their states, of every broker.

    Examples:
        monedula transactions list
        monedula transactions list --state Ongoing --longer-than 10m
        monedula transactions list --matching "billing-.*" --json
    """
    unknown = [name for name in state or () if name.lower() not in _STATES]
    if unknown:
        raise UsageError(f"--state {unknown[0]}: expected one of {', '.join(STATES)}")
    states: Any = [_STATES[name.lower()] for name in state or ()]
    with connection.admin() as admin:
        found = admin.list_transactions(
            states=states,
            producer_ids=producer_id or (),
            duration_ms=None if longer_than is None else _milliseconds(longer_than, "--longer-than"),
            transactional_id_pattern=matching,
        )
    for broker, error in found.missing.items():
        say(f"the transactions of broker {broker} are missing: {error}")
    rows = [(t.transactional_id, t.state, t.producer_id, t.coordinator) for t in found.values()]
    names = ("transactional_id", "state", "producer_id", "coordinator")
    show(names, sorted(rows), as_json, spare=("coordinator", "producer_id"))


@administration("transactions describe")
def describe(
    transactional_ids: Annotated[list[str], Argument(help="Transactional ids.")],
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Show transactional ids with their last transactions. The partitions are those that wait for an end.

    Examples:
        monedula transactions describe billing-1
    """
    with connection.admin() as admin:
        found = admin.describe_transactions(transactional_ids)
    rows: list[Row] = [
        (
            t.transactional_id,
            t.state,
            t.producer_id,
            t.producer_epoch,
            time_text(t.start_timestamp),
            t.timeout_ms,
            None if t.coordinator is None else t.coordinator.id,
            [name_of(at) for at in t.partitions],
        )
        for t in found.values()
    ]
    names = (
        "transactional_id",
        "state",
        "producer_id",
        "producer_epoch",
        "began",
        "timeout_ms",
        "coordinator",
        "partitions",
    )
    show(names, rows, as_json, spare=("timeout_ms", "coordinator", "producer_epoch", "producer_id", "began"))


_PRODUCER = ("producer_id", "producer_epoch", "coordinator_epoch", "start_offset", "last_record")
_SPARE = ("coordinator_epoch", "last_record", "producer_epoch")


@administration("transactions producers")
def producers(
    names: Names, connection: Connection, partition: Partitions = None, broker: Broker = None, as_json: AsJson = False
) -> None:
    """List the producers that partitions remember. One with a start offset has a transaction open.

    Examples:
        monedula transactions producers orders
        monedula transactions producers orders --partition 0,1 --json
    """
    indexes = partitions_of(partition)
    with connection.admin() as admin:
        chosen = _partitions(admin, expanded(admin, names), indexes)
        found = admin.describe_producers(chosen, broker=broker)
    rows: list[Row] = [
        (*at, *_producer(producer), producer.last_sequence)
        for at, each in sorted(found.items(), key=lambda item: item[0])
        for producer in each
    ]
    show(("topic", "partition", *_PRODUCER, "last_sequence"), rows, as_json, spare=("last_sequence", *_SPARE))


@administration("transactions find-hanging")
def find_hanging(
    connection: Connection,
    topic: OnlyTopics = None,
    partition: Partitions = None,
    broker: Annotated[
        int | None, Option("--broker", metavar="ID", help="Only partitions with a replica on this broker.")
    ] = None,
    max_transaction_timeout: Annotated[
        str, Option(metavar="TIME", help="The brokers' transaction.max.timeout.ms; younger ones do not count.")
    ] = f"{LONGEST_TRANSACTION_MS // 60_000}m",
    as_json: AsJson = False,
) -> None:
    """Find open transactions that no coordinator will end.

    Without --topic and --broker, all partitions are searched.

    Examples:
        monedula transactions find-hanging
        monedula transactions find-hanging --topic orders --max-transaction-timeout 1h
    """
    indexes, longest = partitions_of(partition), _milliseconds(max_transaction_timeout, "--max-transaction-timeout")
    if indexes and not topic:
        raise UsageError("--partition is for one topic; give --topic too")
    with connection.admin() as admin:
        topics = expanded(admin, topic) or None
        found = admin.find_hanging_transactions(
            topics=None if indexes else topics,
            partitions=_partitions(admin, topics or (), indexes) if indexes else None,
            broker=broker,
            max_transaction_timeout_ms=longest,
        )
    rows: list[Row] = [
        (*at, each.transactional_id, *_producer(each.producer))
        for at, hanging in sorted(found.items(), key=lambda item: item[0])
        for each in hanging
    ]
    show(("topic", "partition", "transactional_id", *_PRODUCER), rows, as_json, spare=("transactional_id", *_SPARE))
    if not as_json:
        say(f"{counted(len(rows), 'transaction')} hanging")


@administration("transactions abort")
def abort(
    topic: Annotated[str, Argument(help="Name of the topic.", autocompletion=complete_topics)],
    connection: Connection,
    partition: Annotated[int, Option("-p", "--partition", min=0, help="The partition.")],
    start_offset: Annotated[
        int | None, Option(min=0, metavar="N", help="Its first offset, as find-hanging and producers show it.")
    ] = None,
    producer_id: Annotated[int | None, Option(min=0, metavar="N", help="In place of it, the producer id.")] = None,
    producer_epoch: Annotated[int | None, Option(min=0, max=32_767, metavar="N", help="With it, its epoch.")] = None,
    coordinator_epoch: Annotated[int | None, Option(min=0, metavar="N", help="With it; 0 if left out.")] = None,
    yes: Yes = False,
) -> None:
    """Abort a hanging transaction in one partition.

    The coordinator does not hear of it: one that it knows ends by itself, and find-hanging does not name it.

    Examples:
        monedula transactions abort orders --partition 0 --start-offset 20 --yes
        monedula transactions abort orders -p 0 --producer-id 4000 --producer-epoch 2 --coordinator-epoch 7 --yes
    """
    if (start_offset is None) == (producer_id is None):
        raise UsageError("give --start-offset, or --producer-id and --producer-epoch")
    if (producer_id is None) != (producer_epoch is None) or (producer_id is None and coordinator_epoch is not None):
        raise UsageError("--producer-id, --producer-epoch and --coordinator-epoch belong together")
    at = TopicPartition(topic, partition)
    with connection.admin() as admin:
        if producer_id is None or producer_epoch is None:
            state = _starting_at(admin, at, start_offset)
            producer_id, producer_epoch = state.producer_id, state.producer_epoch
            coordinator_epoch = state.coordinator_epoch
        confirm(f"Abort the transaction of producer {producer_id}, epoch {producer_epoch}, in {name_of(at)}?", yes)
        admin.abort_transaction(at, producer_id, producer_epoch, coordinator_epoch)
    say(f"aborted the transaction of producer {producer_id} in {name_of(at)}")


def _starting_at(admin: Admin, at: TopicPartition, offset: int | None) -> ProducerState:
    (states,) = admin.describe_producers(at).values()
    for state in states:
        if state.transaction_start_offset == offset:
            return state
    starts = sorted(each.transaction_start_offset for each in states if each.transaction_start_offset is not None)
    known = f"those that are open start at {', '.join(map(str, starts))}" if starts else "none is open"
    raise Failure(f"no transaction of {name_of(at)} starts at offset {offset}: {known}")


def _partitions(admin: Admin, topics: Iterable[str], indexes: list[int]) -> list[TopicPartition]:
    described = {} if indexes else admin.describe_topics(topics)
    return [
        TopicPartition(name, index)
        for name in topics
        for index in indexes or [each.partition for each in described[name].partitions]
    ]


def _producer(state: ProducerState) -> tuple[object, ...]:
    epochs = state.producer_id, state.producer_epoch, state.coordinator_epoch
    return (*epochs, state.transaction_start_offset, time_text(state.last_timestamp))


def _milliseconds(text: str, option: str) -> int:
    return duration_of(text, option) // timedelta(milliseconds=1)


HELP = "List transactions, find those that hang, and abort them."
COMMANDS = (
    ("list", list_transactions),
    ("describe", describe),
    ("producers", producers),
    ("find-hanging", find_hanging),
    ("abort", abort),
)
