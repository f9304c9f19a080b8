"""Transactions: at their coordinators, in partitions, and those that hang between the two."""

from collections.abc import Iterable
from typing import Any, get_args

from monedula._arguments import raw_partition, raw_partitions, whole_number
from monedula.admin import values
from monedula.admin.arguments import Errors, raw_name, raw_names, raw_number, raw_which
from monedula.admin.calls import AdminBase, Call, Method
from monedula.admin.results import Results, of_items
from monedula.admin.transaction_types import FencedProducer, TransactionState
from monedula.admin.views import HangingTransactions, Producers, Transactions, TransactionsDescribed
from monedula.errors import ArgumentError

STATES: tuple[str, ...] = get_args(TransactionState)
LONGEST_TRANSACTION_MS = 900_000
"""Kafka's default of the brokers' `transaction.max.timeout.ms`."""


class TransactionMethods(AdminBase):
    """Methods about transactions (KIP-664), from Kafka 3.0 on."""

    @Method
    def list_transactions(
        self,
        *,
        states: TransactionState | Iterable[TransactionState] = (),
        producer_ids: int | Iterable[int] = (),
        duration_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> Call[Transactions]:
        """All transactional ids of all brokers, with the states of their last transactions; also as a table.

        Each broker lists the ids that it coordinates. One that does not answer for half of the timeout is left out:
        `missing` of the result has its id and the error, and is empty if all brokers have answered.

        Args:
            states: only ids in one of these states, such as `"Ongoing"`.
            producer_ids: only ids with one of these producer ids.
            duration_ms: only ids whose transaction began longer ago than so many milliseconds (from Kafka 3.8 on).
            transactional_id_pattern: only ids that match this regular expression of RE2 as a whole (from Kafka 4.1 on).
            timeout: seconds.

        Raises:
            UnsupportedVersionError: if a broker is too old for one of the filters.
            BrokerError: `INVALID_REGULAR_EXPRESSION`.
        """
        names = raw_names(states, "state")
        if unknown := [name for name in names if name not in STATES]:
            raise ArgumentError(f"{unknown[0]!r} is no state of a transaction: expected one of {', '.join(STATES)}")
        given: Any = producer_ids
        ids = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [given]
        raw_ids = [_number("producer_ids", each, bits=63) for each in ids]
        duration = None if duration_ms is None else _number("duration_ms", duration_ms, bits=63)
        pattern = None if transactional_id_pattern is None else raw_name(transactional_id_pattern, "pattern")
        return Call(
            self._transactions.list_transactions(timeout, names, raw_ids, duration, pattern),
            lambda answer: Transactions(
                ((each, values.transaction_listing(each, raw)) for each, raw in answer[0]), missing=dict(answer[1])
            ),
        )

    @Method
    def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> Call[TransactionsDescribed]:
        """Transactional ids with their last transactions, as their coordinators know them; also as a table.

        Args:
            transactional_ids: one transactional id, or several.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            TransactionalIdNotFoundError: if no coordinator knows an id.
            AuthorizationError: without the permission to describe an id.
        """
        names = raw_names(transactional_ids, "transactional id")
        operation = self._transactions.describe_transactions(timeout, names)
        return of_items(operation, TransactionsDescribed, str, values.transaction, errors)

    @Method
    def fence_producers(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> Call[Results[str, FencedProducer]]:
        """Fence the producers of transactional ids: their epochs are raised, and open transactions aborted.

        An id that was never used is known to its coordinator afterwards.

        Args:
            transactional_ids: one transactional id, or several.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Returns:
            The producer id and the new epoch of each.

        Raises:
            AuthorizationError: without the permission to write under an id.
        """
        names = raw_names(transactional_ids, "transactional id")
        operation = self._transactions.fence_producers(timeout, names)
        return of_items(operation, Results[str, FencedProducer], str, values.fenced_producer, errors)

    @Method
    def describe_producers(
        self,
        partitions: tuple[str, int] | Iterable[tuple[str, int]],
        *,
        broker: int | None = None,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Producers]:
        """The idempotent and transactional producers that partitions remember, with their open transactions.

        Args:
            partitions: one partition, or several.
            broker: the id of a broker with replicas of them, to ask in place of their leaders.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            UnknownTopicError: if a topic or partition does not exist.
            BrokerError: `NOT_LEADER_OR_FOLLOWER` if `broker` has no replica of a partition; `BROKER_NOT_AVAILABLE` if
                there is no such broker.
            AuthorizationError: without the permission to read a topic.
        """
        raw = raw_partitions(partitions)
        asked = None if broker is None else raw_number(broker, "broker")
        operation = self._transactions.describe_producers(timeout, raw, asked)
        return of_items(operation, Producers, values.partition, values.producers, errors)

    @Method
    def abort_transaction(
        self,
        partition: tuple[str, int],
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int | None = None,
        *,
        timeout: float | None = None,
    ) -> Call[None]:
        """Abort a hanging transaction in one partition, so that read_committed consumers go on behind it.

        The marker is written to the partition itself, and the coordinator does not hear of it: a transaction that its
        coordinator knows is ended by its producer, by `fence_producers`, or by its timeout.

        Args:
            partition: the partition, as `find_hanging_transactions` names it.
            producer_id: the producer id, as `describe_producers` has it.
            producer_epoch: its epoch in the partition.
            coordinator_epoch: the coordinator epoch in the partition; 0 if left out, for a producer without one.
            timeout: seconds.

        Raises:
            TransactionError: `INVALID_PRODUCER_EPOCH` or `TRANSACTION_COORDINATOR_FENCED` if an epoch is older than
                that in the partition.
            UnknownTopicError: if the partition does not exist.
            AuthorizationError: without the permission to alter the cluster.
        """
        numbers = (
            _number("producer_id", producer_id, bits=63),
            _number("producer_epoch", producer_epoch, bits=15),
            _number("coordinator_epoch", 0 if coordinator_epoch is None else coordinator_epoch, bits=31),
        )
        return Call(self._transactions.abort_transaction(timeout, raw_partition(partition), *numbers), lambda _: None)

    @Method
    def find_hanging_transactions(
        self,
        *,
        topics: str | Iterable[str] | None = None,
        partitions: tuple[str, int] | Iterable[tuple[str, int]] | None = None,
        broker: int | None = None,
        max_transaction_timeout_ms: int = LONGEST_TRANSACTION_MS,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[HangingTransactions]:
        """Transactions that are open in partitions, and that no coordinator will end; also as a table.

        A transaction hangs if the last record of its producer is older than any transaction may be, and its coordinator
        does not know the partition as a part of it. `abort_transaction` ends it.

        Args:
            topics: only partitions of these topics.
            partitions: only these partitions. All partitions are searched without `topics`, `partitions` and `broker`.
            broker: only partitions that this broker has a replica of; it is asked in place of their leaders.
            max_transaction_timeout_ms: the brokers' `transaction.max.timeout.ms`, in milliseconds: younger transactions
                do not count.
            timeout: seconds, for all of the search.
            errors: `"raise"` or `"return"`, see `Admin`.

        Returns:
            The transactions by partition; partitions without any are left out.

        Raises:
            UnknownTopicError: if a topic or partition does not exist.
            BrokerError: `BROKER_NOT_AVAILABLE` if there is no such broker; the message names those that there are.
            KafkaTimeoutError: if a coordinator does not answer, since it could know any of the transactions.
        """
        which = raw_which(topics, partitions)
        asked = None if broker is None else raw_number(broker, "broker")
        longest = _number("max_transaction_timeout_ms", max_transaction_timeout_ms, bits=63)
        operation = self._transactions.find_hanging_transactions(timeout, *which, asked, longest)
        return of_items(operation, HangingTransactions, values.partition, values.hanging, errors)


def _number(name: str, value: object, *, bits: int) -> int:
    number = whole_number(value)
    if number is None or not 0 <= number < 1 << bits:
        raise ArgumentError.of(name, value, f"expected a whole number, 0 or more, and less than 2^{bits}")
    return number
