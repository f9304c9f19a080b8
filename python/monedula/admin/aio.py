"""`AsyncAdmin`, the admin client for asyncio: the methods of `Admin`, awaited."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from monedula.admin import calls
from monedula.admin.admin import AdminBase
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
from monedula.partitions import TopicPartition

if TYPE_CHECKING:
    from monedula._bridge import Bridge

T = TypeVar("T")


class AsyncAdmin(AdminBase):
    """Administers a cluster from an event loop.

    Arguments, results and errors as `Admin`. Cancelling a wait ends the call; requests that were sent before may still
    take effect. A client belongs to one event loop.

    Examples:
        async with AsyncAdmin({"bootstrap.servers": "localhost:9092"}) as admin:
            await admin.create_topics("orders", partitions=6)
    """

    _bridge: "Bridge | None" = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create_topics(
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
        """Create topics; as `Admin.create_topics`."""
        defaults = TopicDefaults(partitions, replication_factor, configs)
        return await self._run(
            calls.create_topics(self._core, topics, defaults, exist_ok, validate_only, timeout, errors)
        )

    async def delete_topics(
        self,
        topics: str | Iterable[str],
        *,
        missing_ok: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[str, None]:
        """Delete topics with all of their records; as `Admin.delete_topics`."""
        return await self._run(calls.delete_topics(self._core, topics, missing_ok, timeout, errors))

    async def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> Topics:
        """All topics; as `Admin.list_topics`."""
        return await self._run(calls.list_topics(self._core, internal, timeout))

    async def describe_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> TopicsDescribed:
        """Topics with the leader and replicas of each partition; as `Admin.describe_topics`."""
        return await self._run(calls.describe_topics(self._core, topics, timeout, errors))

    async def create_partitions(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[str, None]:
        """Add partitions to topics; as `Admin.create_partitions`."""
        return await self._run(calls.create_partitions(self._core, topics, validate_only, timeout, errors))

    async def describe_configs(
        self,
        resources: Resource | Iterable[Resource],
        *,
        names: Iterable[str] | None = None,
        documentation: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Configs:
        """The settings of topics, brokers or groups; as `Admin.describe_configs`."""
        return await self._run(calls.describe_configs(self._core, resources, names, documentation, timeout, errors))

    async def alter_configs(
        self,
        changes: Mapping[R, Mapping[str, Change]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[ConfigResource, None]:
        """Change some settings; as `Admin.alter_configs`."""
        return await self._run(calls.alter_configs(self._core, changes, validate_only, timeout, errors))

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> Groups:
        """All groups; as `Admin.list_groups`."""
        return await self._run(calls.list_groups(self._core, states, types, timeout))

    async def describe_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> GroupsDescribed:
        """Groups with their members and the assignment of each; as `Admin.describe_groups`."""
        return await self._run(calls.describe_groups(self._core, groups, timeout, errors))

    async def delete_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> Results[str, None]:
        """Delete groups with their committed offsets; as `Admin.delete_groups`."""
        return await self._run(calls.delete_groups(self._core, groups, timeout, errors))

    async def list_group_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> GroupOffsets:
        """The committed offsets of a group; as `Admin.list_group_offsets`."""
        return await self._run(calls.list_group_offsets(self._core, group, partitions, timeout, errors))

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[P, int | tuple[int, str]],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, int]:
        """Commit offsets for a group without members; as `Admin.alter_group_offsets`."""
        return await self._run(calls.alter_group_offsets(self._core, group, offsets, timeout, errors))

    async def reset_group_offsets(
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
        """Move the committed offsets of a group without members; as `Admin.reset_group_offsets`."""
        call = calls.reset_group_offsets(self._core, group, to, topics, partitions, dry_run, timeout, errors)
        return await self._run(call)

    async def delete_group_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, None]:
        """Delete the committed offsets of a group for these partitions; as `Admin.delete_group_offsets`."""
        return await self._run(calls.delete_group_offsets(self._core, group, partitions, timeout, errors))

    async def group_lag(
        self,
        group: str,
        *,
        topics: str | Iterable[str] | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> GroupLag:
        """The lag of a group; as `Admin.group_lag`."""
        return await self._run(calls.group_lag(self._core, group, topics, partitions, timeout, errors))

    async def list_offsets(
        self,
        what: str | Iterable[str | tuple[str, int]] | Mapping[P, OffsetSpec],
        at: OffsetSpec = "latest",
        *,
        isolation: Isolation = "read_uncommitted",
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Offsets:
        """Offsets of partitions; as `Admin.list_offsets`."""
        return await self._run(calls.list_offsets(self._core, what, at, isolation, timeout, errors))

    async def delete_records(
        self,
        before: Mapping[P, int],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, int]:
        """Delete records from the beginning of partitions; as `Admin.delete_records`."""
        return await self._run(calls.delete_records(self._core, before, timeout, errors))

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The brokers, the controller and the cluster id; as `Admin.describe_cluster`."""
        return await self._run(calls.describe_cluster(self._core, timeout))

    async def describe_log_dirs(
        self,
        brokers: int | Iterable[int] | None = None,
        *,
        topics: str | Iterable[str] | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> LogDirs:
        """The log directories of brokers; as `Admin.describe_log_dirs`."""
        return await self._run(calls.describe_log_dirs(self._core, brokers, topics, partitions, timeout, errors))

    async def elect_leaders(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        unclean: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, bool]:
        """Elect the preferred replicas as leaders; as `Admin.elect_leaders`."""
        return await self._run(calls.elect_leaders(self._core, partitions, unclean, timeout, errors))

    async def alter_partition_reassignments(
        self,
        partitions: Mapping[P, Sequence[int] | None],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Results[TopicPartition, None]:
        """Move partitions to other brokers; as `Admin.alter_partition_reassignments`."""
        return await self._run(calls.alter_partition_reassignments(self._core, partitions, timeout, errors))

    async def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, timeout: float | None = None
    ) -> Reassignments:
        """The current moves of partitions; as `Admin.list_partition_reassignments`."""
        return await self._run(calls.list_partition_reassignments(self._core, partitions, timeout))

    async def close(self) -> None:
        """Close the connections; current calls end with `ClosedError`. May be called again."""
        self._core.close(0.0)
        if self._bridge is not None:
            self._bridge.close()
            self._bridge = None

    async def _run(self, call: Call[T]) -> T:
        if self._bridge is None:
            from monedula._bridge import Bridge

            self._bridge = Bridge()
        return call.end(await self._bridge.run(call.start))
