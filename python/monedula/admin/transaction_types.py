"""The types of results about transactions."""

from dataclasses import dataclass
from typing import Literal

from monedula.admin.types import Node
from monedula.types.partitions import TopicPartition

TransactionState = Literal[
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
]
"""Kafka's names of the states of a transactional id."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id, as `list_transactions` returns it."""

    transactional_id: str
    state: str
    """The state of its last transaction, such as `"Ongoing"`."""
    producer_id: int
    coordinator: int
    """The id of the broker that coordinates it."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id and its last transaction, as `describe_transactions` returns it."""

    transactional_id: str
    state: str
    """The state, such as `"Ongoing"`, `"PrepareCommit"` or `"CompleteAbort"`."""
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    """The producer's `transaction.timeout.ms`: the coordinator aborts a transaction that is open for longer."""
    start_timestamp: int | None
    """The time at which the transaction began, in milliseconds since 1970; `None` without a transaction."""
    partitions: tuple[TopicPartition, ...]
    """The partitions of an open transaction; of one that ends, those whose markers are not written yet."""
    coordinator: Node | None


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The numbers of a transactional id whose producers were fenced."""

    producer_id: int
    producer_epoch: int
    """The new epoch: producers of earlier ones are fenced."""


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer that a partition remembers, as `describe_producers` returns it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    """The sequence number of its last record; `None` if its last batch was a marker, or there is none."""
    last_timestamp: int | None
    """The largest timestamp of its last batch, in milliseconds since 1970; `None` if there is none."""
    coordinator_epoch: int | None
    """The epoch of the coordinator that wrote its last marker; `None` if there is none."""
    transaction_start_offset: int | None
    """The first offset of its open transaction; `None` without one."""


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a partition, and that no coordinator will end."""

    partition: TopicPartition
    transactional_id: str | None
    """The transactional id that has the producer id now; `None` if no coordinator knows one."""
    producer: ProducerState
    """The producer, as the partition remembers it."""
