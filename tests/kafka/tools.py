"""`KafkaHelper`: Java's Admin client and Java's producers, driven from Python through one long-lived JVM."""

import base64
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, NamedTuple, TypedDict

from tests.kafka.helper_process import HelperProcess
from tests.kafka.reaper import Reaper

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")


class Record(TypedDict, total=False):
    """What to produce. Text is sent as UTF-8; an absent key or value is null, as `None` is.

    `timestamp` is in milliseconds. `headers` keeps order and duplicates; a header's value may be `None`.
    """

    key: bytes | str | None
    value: bytes | str | None
    partition: int
    timestamp: int
    headers: Sequence[tuple[str, bytes | str | None]]


class Produced(NamedTuple):
    """Where a record came to stand."""

    partition: int
    offset: int
    timestamp: int


class Token(NamedTuple):
    """A delegation token: user name and password of a SCRAM login with `tokenauth=true`.

    Attributes:
        id: the user name.
        hmac: the password, in base64.
    """

    id: str
    hmac: str


@dataclass(frozen=True)
class Partition:
    """One partition as the controller has it."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True)
class Topic:
    """One topic: its id in Kafka's base64 text, and its partitions in order."""

    topic_id: str
    partitions: tuple[Partition, ...]


class KafkaHelper:
    """One JVM with an Admin client and producers. Thread-safe; one command at a time.

    Every method raises `HelperError` with the name of Java's exception if Kafka refuses.

    Args:
        bootstrap: `bootstrap.servers`.
        reaper: ends the JVM with the session, should that not come to it.
        host: the JVM of a node that runs the helper beside it; see `HelperProcess`.
    """

    def __init__(
        self,
        bootstrap: str,
        reaper: Reaper | None = None,
        host: "Callable[[], subprocess.Popen[bytes] | None] | None" = None,
    ) -> None:
        self._process = HelperProcess(bootstrap, reaper, host)
        self._transactional_ids = count(1)

    @property
    def pid(self) -> int:
        """Of the JVM."""
        return self._process.pid

    def end_own(self) -> None:
        """End the JVM that it had while the node that hosts it was down, and what is open in it."""
        self._process.end_own()

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> Topic:
        """Create a topic; returns when every partition has a leader.

        Args:
            topic: name.
            partitions: how many.
            replication: replicas of each.
            assignment: node ids for each partition, the preferred leader first; in place of the two counts.
            config: topic settings, for example `{"message.timestamp.type": "LogAppendTime"}`.
        """
        placed = None if assignment is None else {str(p): list(nodes) for p, nodes in assignment.items()}
        return _topic(
            self._run(
                "create_topic",
                topic=topic,
                partitions=partitions,
                replication=replication,
                assignment=placed,
                config=settings_text(config),
            )
        )

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; returns when it is no longer listed."""
        self._run("delete_topic", topic=topic)

    def describe_topic(self, topic: str) -> Topic:
        """Id, leaders, replicas and in-sync replicas."""
        return _topic(self._run("describe_topic", topic=topic))

    def add_partitions(self, topic: str, total: int) -> Topic:
        """Grow a topic to `total` partitions; returns when the new ones have leaders."""
        return _topic(self._run("add_partitions", topic=topic, total=total))

    def alter_topic_config(self, topic: str, config: Mapping[str, object]) -> None:
        """Set topic settings; others stay as they are."""
        self._run("alter_topic_config", topic=topic, config=settings_text(config))

    def move_leader(self, topic: str, partition: int, leader: int) -> Topic:
        """Make this node the leader (it is added to the replicas if it was not one). The leader epoch rises."""
        return _topic(self._run("move_leader", topic=topic, partition=partition, leader=leader))

    def elect_leader(self, topic: str, partition: int, *, unclean: bool = False) -> Topic:
        """Elect the preferred replica, or with `unclean` any live replica when there is no leader."""
        return _topic(self._run("elect_leader", topic=topic, partition=partition, unclean=unclean))

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> Topic:
        """Move a partition to these nodes; returns when it is complete."""
        return _topic(self._run("reassign", topic=topic, partition=partition, replicas=list(replicas)))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete records before an offset, by partition: what retention does, at once. -1 is the end."""
        self._run("delete_records", topic=topic, before={str(p): offset for p, offset in before.items()})

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """Beginning and end offset of each partition."""
        answer = self._run("offsets", topic=topic)
        return {int(partition): (first, end) for partition, (first, end) in answer.items()}

    def produce(
        self,
        topic: str,
        records: Iterable[Record],
        *,
        codec: Codec = "none",
        transaction: Literal["none", "commit", "abort", "open"] = "none",
        transactional_id: str | None = None,
        config: Mapping[str, object] | None = None,
    ) -> list[Produced]:
        """Produce with Java's own producer; returns when all records are acknowledged.

        Args:
            topic: where to.
            records: what; see `Record`.
            codec: compression.type.
            transaction: put the records in a transaction, and commit it, abort it, or leave it open (read_committed
                stops there) for more records of the same `transactional_id` or for `end_transaction`.
            transactional_id: of the transaction; a fresh one by default, and required for "open".
            config: producer settings on top, for example `{"batch.size": 16384}`.
        """
        if transaction == "open" and transactional_id is None:
            raise ValueError("an open transaction needs a transactional_id, to be ended by")
        if transaction != "none" and transactional_id is None:
            transactional_id = f"helper-{self.pid}-{next(self._transactional_ids)}"
        answer = self._run(
            "produce",
            topic=topic,
            records=[_record(record) for record in records],
            codec=codec,
            transaction=transaction,
            transactional_id=transactional_id,
            config=settings_text(config),
        )
        return [Produced(*placed) for placed in answer]

    def end_transaction(self, transactional_id: str, how: Literal["commit", "abort"]) -> None:
        """End a transaction that `produce(..., transaction="open")` left open."""
        self._run("end_transaction", transactional_id=transactional_id, how=how)

    def create_token(self, config: Mapping[str, object], *, max_lifetime_ms: int = 3_600_000) -> Token:
        """Make a delegation token (KIP-48); returns when it can be used.

        Args:
            config: of a client that logs in, by Java's names; the token is its user's.
            max_lifetime_ms: after which it cannot be renewed any more.
        """
        answer = self._run("create_token", config=settings_text(config), max_lifetime_ms=max_lifetime_ms)
        return Token(answer["id"], answer["hmac"])

    def expire_token(self, config: Mapping[str, object], token: Token) -> None:
        """End a delegation token at once."""
        self._run("expire_token", config=settings_text(config), hmac=token.hmac)

    def close(self) -> None:
        """End the JVM."""
        self._process.close()

    def _run(self, command: str, **fields: Any) -> Any:
        return self._process.run(command, fields)


def _topic(answer: dict[str, Any]) -> Topic:
    partitions = (
        Partition(p["partition"], p["leader"], tuple(p.get("replicas", ())), tuple(p.get("isr", ())))
        for p in answer["partitions"]
    )
    return Topic(answer["topic_id"], tuple(partitions))


def _record(record: Record) -> dict[str, Any]:
    return {
        "key": _base64(record.get("key")),
        "value": _base64(record.get("value")),
        "partition": record.get("partition"),
        "timestamp": record.get("timestamp"),
        "headers": [[key, _base64(value)] for key, value in record.get("headers", ())],
    }


def _base64(data: bytes | str | None) -> str | None:
    if data is None:
        return None
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def settings_text(config: Mapping[str, object] | None) -> dict[str, str]:
    """Java wants text, and `true` rather than `True`."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (config or {}).items()}
