"""The logs of partitions: offsets, records, and directories."""

from collections.abc import Iterable, Mapping

from monedula._arguments import is_pair, raw_partition, whole_number
from monedula.admin import values
from monedula.admin.arguments import (
    Errors,
    Isolation,
    P,
    Q,
    as_mapping,
    as_several,
    raw_name,
    raw_number,
    raw_replica,
    raw_spec,
    raw_which,
)
from monedula.admin.calls import AdminBase, Call, Method
from monedula.admin.results import Results, of_items
from monedula.admin.types import OffsetSpec, TopicPartitionReplica
from monedula.admin.views import LogDirs, Offsets
from monedula.errors import ArgumentError
from monedula.types.partitions import TopicPartition


class LogMethods(AdminBase):
    """Methods about the logs of partitions."""

    @Method
    def list_offsets(
        self,
        what: str | Iterable[str | tuple[str, int]] | Mapping[P, OffsetSpec],
        at: OffsetSpec = "latest",
        *,
        isolation: Isolation = "read_uncommitted",
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Offsets]:
        """Offsets of partitions: the ends of the logs, or the first records at given times; also as a table.

        Args:
            what: topics, for all of their partitions; or `(topic, partition)` pairs; or `{(topic, partition): at}`.
            at: `"earliest"`, `"latest"`, `"max_timestamp"` (from Kafka 3.0 on), or an aware datetime or milliseconds
                since 1970, for the first record that is not older.
            isolation: with `"read_committed"` the end of a log is its last stable offset.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            UnknownTopicError: if a topic or partition does not exist.
        """
        spec = raw_spec(at)
        topics: list[str] = []
        if isinstance(what, Mapping):
            pairs = [(raw_partition(partition), raw_spec(each)) for partition, each in what.items()]
        else:
            single = isinstance(what, str) or is_pair(what)
            items = [what] if single else as_several(what, "a topic, a partition, or several")
            topics = [raw_name(item, "topic") for item in items if isinstance(item, str)]
            pairs = [(raw_partition(item), spec) for item in items if not isinstance(item, str)]
        if isolation not in ("read_committed", "read_uncommitted"):
            raise ArgumentError.of("isolation", isolation, "expected 'read_committed' or 'read_uncommitted'")
        committed = isolation == "read_committed"
        operation = self._core.list_offsets(timeout, (pairs, topics, spec), committed)
        return of_items(operation, Offsets, values.partition, values.listed, errors)

    @Method
    def delete_records(
        self,
        before: Mapping[P, int],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[TopicPartition, int]]:
        """Delete records from the beginning of partitions.

        Args:
            before: the first offset to keep, by partition; -1 to delete all records up to the high watermark.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Returns:
            The new log start offset of each partition.

        Raises:
            OffsetOutOfRangeError: if an offset is beyond the high watermark of its log.
        """
        raw = []
        for partition, offset in as_mapping(before, "{('orders', 0): 42}").items():
            number = whole_number(offset)
            if number is None or number < -1:
                raise ArgumentError(f"{offset!r} is no offset: expected a whole number, 0 or more, or -1 for the end")
            raw.append((raw_partition(partition), number))
        operation = self._core.delete_records(timeout, raw)
        return of_items(operation, Results[TopicPartition, int], values.partition, values.same, errors)

    @Method
    def describe_log_dirs(
        self,
        brokers: int | Iterable[int] | None = None,
        *,
        topics: str | Iterable[str] | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[LogDirs]:
        """The log directories of brokers, with the size of each partition in them; by broker, also as a table.

        Args:
            brokers: broker ids; all brokers if left out.
            topics: only partitions of these topics.
            partitions: only these partitions.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        given = brokers if isinstance(brokers, Iterable) or brokers is None else [brokers]
        ids = None if given is None else [raw_number(broker, "broker") for broker in given]
        raw_topics, raw = raw_which(topics, partitions)
        operation = self._core.describe_log_dirs(timeout, ids, raw_topics, raw)
        return of_items(operation, LogDirs, int, values.log_dirs, errors)

    @Method
    def alter_replica_log_dirs(
        self,
        replicas: Mapping[Q, str],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[TopicPartitionReplica, None]]:
        """Move replicas to other log directories of their brokers (KIP-113). Returns once the moves have begun.

        Until a move has ended, `describe_log_dirs` lists the replica in both directories, with `is_future` in the new
        one.

        Args:
            replicas: the path of the new directory, by `(topic, partition, broker)`.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            BrokerError: `LOG_DIR_NOT_FOUND` if the broker has no such directory; `REPLICA_NOT_AVAILABLE` if it does not
                have the replica (if it gets one later, it is created in that directory).
        """
        example = "{('orders', 0, 1): '/data/2'}"
        raw = [
            (raw_replica(replica), raw_name(path, "path of a directory"))
            for replica, path in as_mapping(replicas, example).items()
        ]
        operation = self._core.alter_replica_log_dirs(timeout, raw)
        return of_items(operation, Results[TopicPartitionReplica, None], values.replica, values.nothing, errors)
