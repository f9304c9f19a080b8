"""Groups, their committed offsets and their lag."""

from collections.abc import Iterable, Mapping

from monedula._arguments import as_text, raw_partition, raw_partitions, truth
from monedula.admin import values
from monedula.admin.arguments import (
    Errors,
    P,
    Target,
    as_mapping,
    raw_name,
    raw_names,
    raw_offset,
    raw_target,
    raw_which,
)
from monedula.admin.calls import AdminBase, Call, Method
from monedula.admin.results import Results, answered, of_items
from monedula.admin.types import OffsetReset
from monedula.admin.views import GroupLag, GroupOffsets, Groups, GroupsDescribed
from monedula.errors import ArgumentError
from monedula.types.partitions import TopicPartition

GROUP_TYPES = ("classic", "consumer", "share", "streams")


class GroupMethods(AdminBase):
    """Methods about groups."""

    @Method
    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> Call[Groups]:
        """All groups of all brokers, by group id; also as a table.

        Each broker lists the groups that it coordinates. One that does not answer for half of the timeout is left out:
        `missing` of the result has its id and the error, and is empty if all brokers have answered.

        Args:
            states: only groups in one of these states, such as `"Stable"` (from Kafka 2.6 on).
            types: only groups of one of these types, `"classic"`, `"consumer"`, `"share"` or `"streams"` (from Kafka
                3.8 on).
            timeout: seconds.
        """
        wanted = raw_names(states, "state"), raw_names(types, "type")
        for unknown in (given for given in wanted[1] if given.lower() not in GROUP_TYPES):
            raise ArgumentError.of("types", unknown, f"expected some of {', '.join(GROUP_TYPES)}")
        return Call(
            self._core.list_groups(timeout, *wanted),
            lambda answer: Groups(
                ((group, values.group_listing(group, raw)) for group, raw in answer[0]), missing=dict(answer[1])
            ),
        )

    @Method
    def describe_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> Call[GroupsDescribed]:
        """The groups of any type, with their members and the assignment of each; as a table, one row for a member.

        Args:
            groups: one group id, or several.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            GroupNotFoundError: if a group does not exist.
        """
        names = raw_names(groups, "group")
        operation = self._core.describe_groups(timeout, names)
        return of_items(operation, GroupsDescribed, str, values.group, errors)

    @Method
    def delete_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> Call[Results[str, None]]:
        """Delete groups with their committed offsets.

        Args:
            groups: one group id, or several.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Returns:
            The groups that were deleted, each with `None`.

        Raises:
            GroupInUseError: if a group has members.
            GroupNotFoundError: if a group does not exist.
        """
        names = raw_names(groups, "group")
        operation = self._core.delete_groups(timeout, names)
        return of_items(operation, Results[str, None], str, values.nothing, errors)

    @Method
    def list_group_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[GroupOffsets]:
        """The committed offsets of a group, `None` for partitions without one; also as a table.

        Of a share group, the offsets where its partitions start: the first one that is not done with, as brokers have
        stored it, which may be one acknowledgement behind.

        Args:
            group: the group id.
            partitions: only these partitions; all with a committed offset if left out.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        name, raw = raw_name(group, "group"), None if partitions is None else raw_partitions(partitions)
        operation = self._core.list_group_offsets(timeout, name, raw)
        return of_items(operation, GroupOffsets, values.partition, values.committed, errors)

    @Method
    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[P, int | tuple[int, str]],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[TopicPartition, int]]:
        """Commit offsets for a group without members; creates a consumer group if it does not exist.

        A share group is created by its first member: name it here only once it exists, or set its
        `share.auto.offset.reset` instead. The offsets are not checked against the logs. Of a share group that exists
        they are where its partitions start: all records from there on are available again, and how often each was
        delivered is forgotten.

        Args:
            group: the group id.
            offsets: the offset of the next record to read, by partition; with metadata as `(offset, metadata)`, except
                for share groups.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            GroupInUseError: if the group has members; nothing is changed then.
        """
        name, raw = raw_name(group, "group"), []
        for partition, at in as_mapping(offsets, "{('orders', 0): 42}").items():
            offset, metadata = at if isinstance(at, tuple) and len(at) == 2 else (at, "")
            if not isinstance(metadata, str):
                raise ArgumentError(f"{metadata!r}: the metadata of an offset must be a text")
            raw.append((raw_partition(partition), raw_offset(offset), as_text("metadata", metadata)))
        operation = self._core.alter_group_offsets(timeout, name, raw)
        return of_items(operation, Results[TopicPartition, int], values.partition, values.same, errors)

    @Method
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
    ) -> Call[Results[TopicPartition, OffsetReset]]:
        """Move the committed offsets of a group without members, back or forward.

        Those of a share group are as of `alter_group_offsets`.

        Args:
            group: the group id.
            to: `"earliest"`; `"latest"`; a time, for the first record that is not older (the end of the log if there is
                none): an aware datetime, or a text such as `"1h ago"`, `"yesterday"`, `"2026-11-21T10:00:00Z"`;
                `{"shift": n}`, to move by n offsets, backward if negative, but not beyond the ends of the log; or
                `{(topic, partition): offset}`, each within its log.
            topics: all partitions of these topics.
            partitions: these partitions; without both, all partitions with a committed offset.
            dry_run: only return the offsets, and commit nothing.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            GroupInUseError: if the group has members; nothing is changed then.
            OffsetOutOfRangeError: if a given offset is outside of the log.
        """
        name, target = raw_name(group, "group"), raw_target(to)
        raw_topics, raw = raw_which(topics, partitions)
        if target[0][0] == "offsets" and (raw_topics is not None or raw is not None):
            raise ArgumentError("the offsets name their partitions; leave topics and partitions out")
        operation = self._core.reset_group_offsets(timeout, name, target, raw_topics, raw, truth("dry_run", dry_run))
        return of_items(operation, Results[TopicPartition, OffsetReset], values.partition, values.reset, errors)

    @Method
    def delete_group_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[TopicPartition, None]]:
        """Delete the committed offsets of a group for these partitions (KIP-496, from Kafka 2.4 on).

        A share group forgets whole topics; it starts anew where `share.auto.offset.reset` says.

        Args:
            group: the group id.
            partitions: the partitions, as `(topic, partition)`; of a share group all that it has of a topic.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Returns:
            The partitions whose offset was deleted, each with `None`.

        Raises:
            GroupInUseError: if the group is subscribed to the topic; a share group, if it has members.
            ArgumentError: if partitions of a share group's topic are left out.
            GroupNotFoundError: if the group does not exist.
        """
        name, raw = raw_name(group, "group"), raw_partitions(partitions)
        operation = self._core.delete_group_offsets(timeout, name, raw)
        return of_items(operation, Results[TopicPartition, None], values.partition, values.nothing, errors)

    @Method
    def group_lag(
        self,
        group: str,
        *,
        topics: str | Iterable[str] | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[GroupLag]:
        """The lag of a group, by partition, with the member that owns the partition; also as a table.

        The lag of a share group is the number of records that are neither accepted nor given up. Until its first
        acknowledgement of a partition the brokers know none, and the partition is in `unknown`.

        Args:
            group: the group id.
            topics: only partitions of these topics.
            partitions: only these partitions; without both, all partitions that have a committed offset or an owner.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            GroupNotFoundError: if the group does not exist.
        """
        name, (raw_topics, raw) = raw_name(group, "group"), raw_which(topics, partitions)

        def end(answer: tuple[str, values.Items]) -> GroupLag:
            state, items = answer
            return answered(
                GroupLag(*values.items(items, values.partition, values.lag), group=name, state=state), errors
            )

        return Call(self._core.group_lag(timeout, name, raw_topics, raw), end)
