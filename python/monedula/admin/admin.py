"""`Admin`, the synchronous admin client: topics, settings, groups and their offsets, the cluster."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from monedula._monedula import AdminCore
from monedula.admin import calls
from monedula.admin.arguments import Change, Errors, Isolation, P, R, Resource, Target, TopicDefaults
from monedula.admin.calls import Call
from monedula.admin.results import Results
from monedula.admin.types import (
    ClusterDescription,
    ConfigResource,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    OffsetReset,
    OffsetSpec,
)
from monedula.admin.views import (
    Configs,
    GroupLag,
    GroupOffsets,
    Groups,
    GroupsDescribed,
    LogDirs,
    Offsets,
    Reassignments,
    Topics,
    TopicsDescribed,
)
from monedula.config import Settings, Unpicklable, raw_settings
from monedula.partitions import TopicPartition

T = TypeVar("T")


class AdminBase(Unpicklable):
    """Base of `Admin` and `AsyncAdmin`."""

    def __init__(self, config: Settings | None = None, /, **settings: Any) -> None:
        try:
            raw = raw_settings(config, settings)
        finally:
            del config, settings  # no traceback shows passwords as locals
        self._core = AdminCore(raw)

    def metrics(self) -> dict[str, int]:
        """Counters since the client was created, such as connections, requests and bytes."""
        return dict(self._core.metrics())


class Admin(AdminBase):
    """Administers a cluster.

    Connects with the first call. Methods may be called from several threads. Retriable errors are retried until
    `timeout` is over (in seconds; `default.api.timeout.ms` if left out).

    **Errors.** A call about one topic, partition, group or resource raises the error of it. A call about several raises
    `AdminErrors`, with the results of those that succeeded (`results`) and the errors of those that failed (`errors`).
    With `errors="return"` such errors are not raised: the call returns a dict of those that succeeded, whose attribute
    `errors` has the errors of the others.

    Args:
        config: settings by Kafka's names as a dict; `bootstrap.servers` is required.
        **settings: settings with underscores for dots.

    Examples:
        with Admin({"bootstrap.servers": "localhost:9092"}) as admin:
            admin.create_topics("orders", partitions=6, configs={"retention.ms": 86_400_000})
            print(admin.group_lag("etl").total)
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_topics(
        self,
        topics: str | NewTopic | Iterable[str | NewTopic],
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        exist_ok: bool = False,
        validate_only: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[str, CreatedTopic]:
        """Create topics.

        Args:
            topics: names, or `NewTopic`s for topics with values of their own.
            partitions: the number of partitions of topics given by name; the broker's default if left out.
            replication_factor: the replication factor of topics given by name; the broker's default if left out.
            configs: settings of topics given by name, such as `{"cleanup.policy": "compact"}`.
            exist_ok: whether to ignore topics that exist already: they are left as they are, and not in the result.
            validate_only: only check whether the topics could be created.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            TopicExistsError: if a topic of that name exists.
            BrokerError: if a broker refuses a topic; `code` and the message say why.
        """
        defaults = TopicDefaults(partitions, replication_factor, configs)
        return self._run(calls.create_topics(self._core, topics, defaults, exist_ok, validate_only, timeout, errors))

    def delete_topics(
        self,
        topics: str | Iterable[str],
        *,
        missing_ok: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[str, None]:
        """Delete topics with all of their records.

        Args:
            topics: names.
            missing_ok: whether to ignore topics that do not exist: they are not in the result.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            UnknownTopicError: if a topic does not exist.
        """
        return self._run(calls.delete_topics(self._core, topics, missing_ok, timeout, errors))

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> Topics:
        """All topics, by name; also as a table.

        Args:
            internal: whether to include Kafka's internal topics.
            timeout: seconds.
        """
        return self._run(calls.list_topics(self._core, internal, timeout))

    def describe_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> TopicsDescribed:
        """Topics with the leader and replicas of each partition; as a table, one row for each partition.

        Raises:
            UnknownTopicError: if a topic does not exist.
        """
        return self._run(calls.describe_topics(self._core, topics, timeout, errors))

    def create_partitions(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[str, None]:
        """Add partitions to topics. Producers that hash keys then choose other partitions for the same keys.

        Args:
            topics: the total number of partitions of each topic, including the existing ones.
            validate_only: only check whether the partitions could be added.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        return self._run(calls.create_partitions(self._core, topics, validate_only, timeout, errors))

    def describe_configs(
        self,
        resources: Resource | Iterable[Resource],
        *,
        names: Iterable[str] | None = None,
        documentation: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Configs:
        """The settings of topics, brokers or groups, as a dict by name for each; as a table, one row for each setting.

        Args:
            resources: `("topic", "orders")`, `("broker", "1")`, `("group", "etl")`; a str is the name of a topic.
            names: the names of the settings; all settings if left out.
            documentation: whether to include the documentation of each setting (from Kafka 2.6 on).
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        return self._run(calls.describe_configs(self._core, resources, names, documentation, timeout, errors))

    def alter_configs(
        self,
        changes: Mapping[R, Mapping[str, Change]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[ConfigResource, None]:
        """Change some settings, and leave the others as they are (KIP-339, from Kafka 2.3 on).

        Args:
            changes: for each resource (see `describe_configs`) its changes: a new value, `None` to go back to the
                default, `Append(value)` or `Subtract(value)` for settings that are lists.
            validate_only: only check whether the changes could be made.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        return self._run(calls.alter_configs(self._core, changes, validate_only, timeout, errors))

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> Groups:
        """All groups of all brokers, by group id; also as a table.

        Args:
            states: only groups in one of these states, such as `"Stable"` (from Kafka 2.6 on).
            types: only groups of one of these types, `"classic"` or `"consumer"` (from Kafka 3.8 on).
            timeout: seconds.
        """
        return self._run(calls.list_groups(self._core, states, types, timeout))

    def describe_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> GroupsDescribed:
        """Groups of either type, with their members and the assignment of each; as a table, one row for each member.

        Raises:
            GroupNotFoundError: if a group does not exist.
        """
        return self._run(calls.describe_groups(self._core, groups, timeout, errors))

    def delete_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> Results[str, None]:
        """Delete groups with their committed offsets.

        Raises:
            GroupInUseError: if a group has members.
            GroupNotFoundError: if a group does not exist.
        """
        return self._run(calls.delete_groups(self._core, groups, timeout, errors))

    def list_group_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> GroupOffsets:
        """The committed offsets of a group, `None` for partitions without one; also as a table.

        Args:
            group: the group id.
            partitions: only these partitions; all with a committed offset if left out.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        return self._run(calls.list_group_offsets(self._core, group, partitions, timeout, errors))

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[P, int | tuple[int, str]],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, int]:
        """Commit offsets for a group without members; creates the group if it does not exist.

        The offsets are not checked against the logs.

        Args:
            group: the group id.
            offsets: the offset of the next record to read, by partition; with metadata as `(offset, metadata)`.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            GroupInUseError: if the group has members; nothing is changed then.
        """
        return self._run(calls.alter_group_offsets(self._core, group, offsets, timeout, errors))

    def reset_group_offsets(
        self,
        group: str,
        to: Target,
        *,
        topics: str | Iterable[str] | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, OffsetReset]:
        """Move the committed offsets of a group without members, back or forward.

        Args:
            group: the group id.
            to: `"earliest"`; `"latest"`; an aware datetime or milliseconds since 1970, for the first record that is not
                older (the end of the log if there is none); `{"shift": n}`, to move by n offsets, backward if negative,
                but not beyond the ends of the log; or `{(topic, partition): offset}`, each within its log.
            topics: all partitions of these topics.
            partitions: these partitions; without both, all partitions with a committed offset.
            dry_run: only return the offsets, and commit nothing.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            GroupInUseError: if the group has members; nothing is changed then.
            OffsetOutOfRangeError: if a given offset is outside of the log.
        """
        call = calls.reset_group_offsets(self._core, group, to, topics, partitions, dry_run, timeout, errors)
        return self._run(call)

    def delete_group_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, None]:
        """Delete the committed offsets of a group for these partitions (KIP-496, from Kafka 2.4 on).

        Raises:
            GroupInUseError: if the group is subscribed to the topic.
            GroupNotFoundError: if the group does not exist.
        """
        return self._run(calls.delete_group_offsets(self._core, group, partitions, timeout, errors))

    def group_lag(
        self,
        group: str,
        *,
        topics: str | Iterable[str] | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> GroupLag:
        """The lag of a group, by partition, with the member that owns the partition; also as a table.

        Args:
            group: the group id.
            topics: only partitions of these topics.
            partitions: only these partitions; without both, all partitions that have a committed offset or an owner.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            GroupNotFoundError: if the group does not exist.
        """
        return self._run(calls.group_lag(self._core, group, topics, partitions, timeout, errors))

    def list_offsets(
        self,
        what: str | Iterable[str | tuple[str, int]] | Mapping[P, OffsetSpec],
        at: OffsetSpec = "latest",
        *,
        isolation: Isolation = "read_uncommitted",
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Offsets:
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
        return self._run(calls.list_offsets(self._core, what, at, isolation, timeout, errors))

    def delete_records(
        self,
        before: Mapping[P, int],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, int]:
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
        return self._run(calls.delete_records(self._core, before, timeout, errors))

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The brokers, the controller and the cluster id."""
        return self._run(calls.describe_cluster(self._core, timeout))

    def describe_log_dirs(
        self,
        brokers: int | Iterable[int] | None = None,
        *,
        topics: str | Iterable[str] | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> LogDirs:
        """The log directories of brokers, with the size of each partition in them; by broker, also as a table.

        Args:
            brokers: broker ids; all brokers if left out.
            topics: only partitions of these topics.
            partitions: only these partitions.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        return self._run(calls.describe_log_dirs(self._core, brokers, topics, partitions, timeout, errors))

    def elect_leaders(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        unclean: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, bool]:
        """Elect the preferred replicas as leaders.

        Args:
            partitions: these partitions; all partitions if left out.
            unclean: elect any living replica for partitions without an in-sync replica. **Loses records.**
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Returns:
            For each partition whether a leader was elected; `False` if none was needed. Without `partitions` it
            contains only the partitions that changed.
        """
        return self._run(calls.elect_leaders(self._core, partitions, unclean, timeout, errors))

    def alter_partition_reassignments(
        self,
        partitions: Mapping[P, Sequence[int] | None],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, None]:
        """Move partitions to other brokers (KIP-455, from Kafka 2.4 on). Returns once the moves have begun.

        Args:
            partitions: the new replicas of each partition as broker ids, the preferred leader first; `None` to cancel
                the current move.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        return self._run(calls.alter_partition_reassignments(self._core, partitions, timeout, errors))

    def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, timeout: float | None = None
    ) -> Reassignments:
        """The current moves of these partitions, or of all partitions; also as a table."""
        return self._run(calls.list_partition_reassignments(self._core, partitions, timeout))

    def close(self, timeout: float = 5.0) -> None:
        """Close the connections; waits in other threads end with `ClosedError`. May be called again."""
        self._core.close(timeout)

    def _run(self, call: Call[T]) -> T:
        operation = call.start(None)
        try:
            operation.wait(None)
        except BaseException:
            operation.cancel()
            raise
        return call.end(operation.result())
