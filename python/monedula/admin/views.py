"""The results of `Admin` that are also tables, with the columns of each."""

from collections.abc import Iterable, Mapping

from monedula._migration_hints import tells
from monedula.admin import types
from monedula.admin.results import ListedResults, TableResults, Tabular, columns
from monedula.admin.security_types import AclBinding, DelegationToken, QuotaEntity, QuotaName, ScramCredential
from monedula.admin.transaction_types import (
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from monedula.errors import KafkaError
from monedula.types.partitions import OffsetAndMetadata, TopicPartition


@tells
class Topics(TableResults[str, types.TopicListing]):
    """Topics by name."""

    _columns = columns("topic string, topic_id string, internal bool, partitions int32, replication_factor int32")

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return ((t.name, t.topic_id, t.internal, t.partitions, t.replication_factor) for t in self.values())


class TopicsDescribed(TableResults[str, types.TopicDescription]):
    """Topics with their partitions, by name; as a table, one row for each partition."""

    _columns = columns(
        "topic string, partition int32, leader int32, leader_epoch int32, replicas list<int32>, isr list<int32>, "
        "offline list<int32>"
    )

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return (
            (topic.name, p.partition, p.leader, p.leader_epoch, p.replicas, p.isr, p.offline)
            for topic in self.values()
            for p in topic.partitions
        )


class Configs(TableResults[types.ConfigResource, dict[str, types.ConfigEntry]]):
    """Settings by resource, each a dict by name; as a table, one row for each setting."""

    _columns = columns(
        "resource_type string, resource_name string, name string, value string, source string, type string, "
        "is_default bool, is_sensitive bool, is_read_only bool"
    )

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return (
            (*resource, e.name, e.value, e.source, e.type, e.is_default, e.is_sensitive, e.is_read_only)
            for resource, entries in self.items()
            for e in entries.values()
        )


@tells
class Groups(ListedResults[types.GroupListing]):
    """Groups by group id.

    Attributes:
        missing: the errors of brokers that did not answer, by broker id. The groups that they coordinate are left out.
    """

    _columns = columns("group string, state string, type string, protocol_type string, coordinator int32")

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return ((g.group_id, g.state, g.type, g.protocol_type, g.coordinator) for g in self.values())


class GroupsDescribed(TableResults[str, types.GroupDescription]):
    """Groups with their members, by group id; as a table, one row for each member."""

    _columns = columns(
        "group string, state string, member_id string, instance_id string, client_id string, host string, "
        "partitions list<string>"
    )

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return (
            (group.group_id, group.state, m.member_id, m.instance_id, m.client_id, m.host, _names(m.assignment))
            for group in self.values()
            for m in group.members
        )


class GroupOffsets(TableResults[TopicPartition, OffsetAndMetadata | None]):
    """Committed offsets by partition."""

    _columns = columns("topic string, partition int32, offset int64, leader_epoch int32, metadata string")

    def _rows(self) -> Iterable[tuple[object, ...]]:
        for partition, at in self.items():
            yield (*partition, *((None, None, None) if at is None else (at.offset, at.leader_epoch, at.metadata)))


class GroupLag(TableResults[TopicPartition, types.PartitionLag]):
    """The lag of a group, by partition.

    Attributes:
        group: the group id.
        state: the state of the group, such as `"Stable"`.
    """

    _columns = columns(
        "group string, topic string, partition int32, committed int64, log_start_offset int64, log_end_offset int64, "
        "lag int64, member_id string, client_id string, host string"
    )

    def __init__(
        self,
        values: Mapping[TopicPartition, types.PartitionLag] | Iterable[tuple[TopicPartition, types.PartitionLag]] = (),
        errors: Mapping[TopicPartition, KafkaError] | None = None,
        *,
        group: str = "",
        state: str = "",
    ) -> None:
        super().__init__(values, errors)
        self.group = group
        self.state = state

    @property
    def total(self) -> int:
        """The sum of the lag over all partitions but those in `unknown`."""
        return sum(at.lag or 0 for at in self.values())

    @property
    def unknown(self) -> list[TopicPartition]:
        """The partitions whose lag nobody knows: the group has committed no offset, or acknowledged nothing yet."""
        return [partition for partition, at in self.items() if at.lag is None]

    def _rows(self) -> Iterable[tuple[object, ...]]:
        for at in self.values():
            offsets = (at.committed, at.log_start_offset, at.log_end_offset, at.lag)
            yield (self.group, *at.partition, *offsets, at.member_id, at.client_id, at.host)


class Offsets(TableResults[TopicPartition, types.ListedOffset]):
    """Offsets by partition."""

    _columns = columns("topic string, partition int32, offset int64, timestamp int64, leader_epoch int32")

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return ((*partition, at.offset, at.timestamp, at.leader_epoch) for partition, at in self.items())


class LogDirs(TableResults[int, tuple[types.LogDir, ...]]):
    """Log directories by broker id; as a table, one row for each partition in them."""

    _columns = columns(
        "broker int32, log_dir string, topic string, partition int32, size int64, offset_lag int64, is_future bool"
    )

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return (
            (broker, found.path, *partition, replica.size, replica.offset_lag, replica.is_future)
            for broker, directories in self.items()
            for found in directories
            for partition, replica in found.replicas.items()
        )


class Reassignments(TableResults[TopicPartition, types.Reassignment]):
    """The current moves, by partition."""

    _columns = columns("topic string, partition int32, replicas list<int32>, adding list<int32>, removing list<int32>")

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return ((*partition, move.replicas, move.adding, move.removing) for partition, move in self.items())


class Acls(list[AclBinding], Tabular):
    """ACLs."""

    _columns = columns(
        "principal string, permission_type string, operation string, resource_type string, resource_name string, "
        "pattern_type string, host string"
    )

    def _rows(self) -> Iterable[tuple[object, ...]]:
        for acl in self:
            resource = acl.resource_type, acl.resource_name, acl.pattern_type
            yield (acl.principal, acl.permission_type, acl.operation, *resource, acl.host)


class ScramCredentials(TableResults[str, tuple[ScramCredential, ...]]):
    """SCRAM credentials by user; as a table, one row for each credential."""

    _columns = columns("user string, mechanism string, iterations int32")

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return ((user, each.mechanism, each.iterations) for user, found in self.items() for each in found)


class ClientQuotas(TableResults[QuotaEntity, dict[str, float]]):
    """Quotas by entity, each a dict by name; as a table, one row for each quota, with `<default>` for `DEFAULT`."""

    _columns = columns("user string, client_id string, ip string, quota string, value double")

    def _rows(self) -> Iterable[tuple[object, ...]]:
        for entity, quotas in self.items():
            named = entity.user, entity.client_id, entity.ip
            names = [f"<{at.value}>" if isinstance(at, QuotaName) else at for at in named]
            for quota, value in quotas.items():
                yield (*names, quota, value)


class DelegationTokens(TableResults[str, DelegationToken]):
    """Delegation tokens by token id; the table leaves out their HMACs."""

    _columns = columns(
        "token_id string, owner string, requester string, renewers list<string>, issue_timestamp int64, "
        "expiry_timestamp int64, max_timestamp int64"
    )

    def _rows(self) -> Iterable[tuple[object, ...]]:
        for token in self.values():
            timestamps = token.issue_timestamp, token.expiry_timestamp, token.max_timestamp
            yield (token.token_id, token.owner, token.requester, token.renewers, *timestamps)


class Transactions(ListedResults[TransactionListing]):
    """Transactional ids.

    Attributes:
        missing: the errors of brokers that did not answer, by broker id. The ids that they coordinate are left out.
    """

    _columns = columns("transactional_id string, state string, producer_id int64, coordinator int32")

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return ((t.transactional_id, t.state, t.producer_id, t.coordinator) for t in self.values())


class TransactionsDescribed(TableResults[str, TransactionDescription]):
    """Transactional ids with their last transactions, by id."""

    _columns = columns(
        "transactional_id string, state string, producer_id int64, producer_epoch int32, timeout_ms int32, "
        "start_timestamp int64, coordinator int32, partitions list<string>"
    )

    def _rows(self) -> Iterable[tuple[object, ...]]:
        for t in self.values():
            producer = t.producer_id, t.producer_epoch, t.timeout_ms, t.start_timestamp
            coordinator = None if t.coordinator is None else t.coordinator.id
            yield (t.transactional_id, t.state, *producer, coordinator, _names(t.partitions))


_PRODUCER = (
    "producer_id int64, producer_epoch int32, coordinator_epoch int32, transaction_start_offset int64, "
    "last_timestamp int64, last_sequence int32"
)


class Producers(TableResults[TopicPartition, tuple[ProducerState, ...]]):
    """The producers that partitions remember, by partition; as a table, one row for each producer in a partition."""

    _columns = columns(f"topic string, partition int32, {_PRODUCER}")

    def _rows(self) -> Iterable[tuple[object, ...]]:
        return ((*partition, *_producer(producer)) for partition, found in self.items() for producer in found)


class HangingTransactions(TableResults[TopicPartition, tuple[HangingTransaction, ...]]):
    """Hanging transactions by partition; as a table, one row for each."""

    _columns = columns(f"topic string, partition int32, transactional_id string, {_PRODUCER}")

    def _rows(self) -> Iterable[tuple[object, ...]]:
        hanging = (each for found in self.values() for each in found)
        return ((*each.partition, each.transactional_id, *_producer(each.producer)) for each in hanging)


def _producer(state: ProducerState) -> tuple[object, ...]:
    numbers = state.producer_id, state.producer_epoch, state.coordinator_epoch
    return (*numbers, state.transaction_start_offset, state.last_timestamp, state.last_sequence)


def _names(partitions: Iterable[TopicPartition]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in partitions]
