"""Administration: topics, settings, groups and their offsets, the cluster."""

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
    """What both faces share."""

    def __init__(self, config: Settings | None = None, /, **settings: Any) -> None:
        self._core = AdminCore(raw_settings(config, settings))

    def metrics(self) -> dict[str, int]:
        """Counters of this client."""
        return dict(self._core.metrics())


class Admin(AdminBase):
    """Administers a cluster.

    Connects with the first call. Calls may be made from several threads. Each is tried again on errors that pass, until
    `timeout` (seconds, `default.api.timeout.ms` if left out) is over.

    **Errors.** A call about one topic, partition, group or resource raises what went wrong with it. A call about
    several raises `AdminErrors`, which has what succeeded (`results`) and what did not (`errors`). With
    `errors="return"` nothing of that kind is raised: the answer is a dict of what succeeded, and its attribute `errors`
    has the rest.

    Args:
        config: Kafka's settings as a dict; `bootstrap.servers` is needed.
        settings: the same with underscores.

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
            topics: names, or `NewTopic`s for those that differ.
            partitions: of topics given by name; the broker's default if left out.
            replication_factor: likewise.
            configs: likewise; settings such as `{"cleanup.policy": "compact"}`.
            exist_ok: topics that exist are left alone, and out of the answer.
            validate_only: only check whether they could be created.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            TopicExistsError: if there is one of that name.
            BrokerError: if a broker refuses it; `code` and the message say why.
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
            missing_ok: topics that do not exist are left out of the answer.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            UnknownTopicError: if there is no such topic.
        """
        return self._run(calls.delete_topics(self._core, topics, missing_ok, timeout, errors))

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> Topics:
        """All topics, by name; a table too.

        Args:
            internal: whether to list Kafka's own as well.
            timeout: seconds.
        """
        return self._run(calls.list_topics(self._core, internal, timeout))

    def describe_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> TopicsDescribed:
        """Topics with leaders and replicas of each partition; as a table, one row a partition.

        Raises:
            UnknownTopicError: if there is no such topic.
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
        """Give topics more partitions. Keys that are hashed go to others then.

        Args:
            topics: how many each is to have, those that are there included.
            validate_only: only check whether it could be done.
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
        """Settings of topics, brokers or groups, each a dict by name; as a table, one row a setting.

        Args:
            resources: `("topic", "orders")`, `("broker", "1")`, `("group", "etl")`; a text stands for a topic.
            names: of settings; all if left out.
            documentation: whether to tell what they mean (from Kafka 2.6 on).
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
            validate_only: only check whether it could be done.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        return self._run(calls.alter_configs(self._core, changes, validate_only, timeout, errors))

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> Groups:
        """All groups, by id, asked of every broker; a table too.

        Args:
            states: only those in one of these, such as `"Stable"` (from Kafka 2.6 on).
            types: only those of one of these, `"classic"` or `"consumer"` (from Kafka 3.8 on).
            timeout: seconds.
        """
        return self._run(calls.list_groups(self._core, states, types, timeout))

    def describe_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> GroupsDescribed:
        """Groups with their members and what each owns, of either type; as a table, one row a member.

        Raises:
            GroupNotFoundError: if there is no such group.
        """
        return self._run(calls.describe_groups(self._core, groups, timeout, errors))

    def delete_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> Results[str, None]:
        """Delete groups with their offsets.

        Raises:
            GroupInUseError: if it has members.
            GroupNotFoundError: if there is no such group.
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
        """What a group has committed, `None` where nothing is; a table too.

        Args:
            group: its id.
            partitions: of these only; of all that it has committed, if left out.
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
        """Commit offsets for a group without members, whatever the logs hold; a group that is not there is made.

        Args:
            group: its id.
            offsets: of the next record to read, by partition; with metadata as `(offset, metadata)`.
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
        """Rewind or forward a group without members.

        Args:
            group: its id.
            to: `"earliest"`; `"latest"`; the first record of a time (aware datetime, or milliseconds since 1970;
                the end if none is that young); `{"shift": n}`, so many records forward, or backward if negative, but
                not beyond the ends of the log; or `{(topic, partition): offset}`, each within its log.
            topics: all partitions of these.
            partitions: these; without either, all that the group has committed.
            dry_run: only tell what would be done.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            GroupInUseError: if the group has members; nothing is changed then.
            OffsetOutOfRangeError: if the log does not hold an offset that was given.
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
        """Delete what a group has committed of these partitions (KIP-496, from Kafka 2.4 on).

        Raises:
            GroupInUseError: if the group is subscribed to the topic.
            GroupNotFoundError: if there is no such group.
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
        """How far a group is behind, by partition, with who reads it; a table too.

        Args:
            group: its id.
            topics: of these only.
            partitions: of these only; without either, of all that the group has committed or its members own.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            GroupNotFoundError: if there is no such group.
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
        """Offsets of partitions: ends of logs, or records by time; a table too.

        Args:
            what: topics, for all of their partitions; or `(topic, partition)` pairs; or `{(topic, partition): at}`.
            at: `"earliest"`, `"latest"`, `"max_timestamp"` (from Kafka 3.0 on), an aware datetime or milliseconds
                since 1970.
            isolation: `"read_committed"` for the end of what transactions have committed.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            UnknownTopicError: if there is no such topic or partition.
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
            before: the first offset to keep, by partition; -1 to delete all that every replica has.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Returns:
            Where each log starts now.

        Raises:
            OffsetOutOfRangeError: if the log does not reach to the offset.
        """
        return self._run(calls.delete_records(self._core, before, timeout, errors))

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The brokers, and the cluster's id."""
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
        """What brokers keep on their disks, with the size of each partition there; by broker, a table too.

        Args:
            brokers: ids; all brokers if left out.
            topics: only partitions of these topics.
            partitions: only these.
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
        """Have the preferred replicas lead again.

        Args:
            partitions: these; all if left out.
            unclean: have any living replica lead partitions that have none in sync. **Loses records.**
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Returns:
            Whether a leader was elected; `False` where none was needed. Of all partitions, those that changed.
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
            partitions: the brokers that are to hold each, the preferred leader first; `None` to end a move under way.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        return self._run(calls.alter_partition_reassignments(self._core, partitions, timeout, errors))

    def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, timeout: float | None = None
    ) -> Reassignments:
        """Moves that are under way, of these partitions or of all; a table too."""
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
