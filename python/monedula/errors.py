"""The exceptions: one tree, by what the caller can do next."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from monedula.partitions import TopicPartition
    from monedula.reports import BatchReport


class KafkaError(Exception):
    """Anything that goes wrong between this client and Kafka.

    Attributes:
        code: Kafka's name for it, such as `"TOPIC_AUTHORIZATION_FAILED"`, or `None`.
        retriable: whether the same call may succeed later without any change.
        topic: topic that it is about, or `None`.
        partition: partition that it is about, or `None`.
        offset: offset that it is about, or `None`.
        next_offset: first offset after what cannot be read, or `None`.
        log_start_offset: smallest offset that the log holds, where that is what went wrong, or `None`.
        log_end_offset: offset of the next record to come, likewise.
        key: setting that it is about, or `None`.
        group: consumer group that it is about, or `None`.
    """

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        retriable: bool = False,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        next_offset: int | None = None,
        log_start_offset: int | None = None,
        log_end_offset: int | None = None,
        key: str | None = None,
        group: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retriable = retriable
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.key = key
        self.group = group


class ConfigError(KafkaError, ValueError):
    """A setting is unknown, out of bounds, contradicts another, or does not do for what a broker answers.

    `key` names it. Change it.
    """


class ArgumentError(KafkaError, ValueError):
    """An argument of a call makes no sense. Change it."""


class BrokerConnectionError(KafkaError, ConnectionError):
    """No broker of the cluster could be reached. The message has each address with what happened there."""


class KafkaTimeoutError(KafkaError, TimeoutError):
    """A call did not end in its time; the message has the last failure. Trying again may help."""


class BrokerError(KafkaError):
    """A broker answered with an error that no retry mends; `code` names it."""


class UnsupportedVersionError(KafkaError):
    """The broker and this client have no version of a request in common."""


class PartitionError(KafkaError):
    """One partition stopped; the others go on. `topic` and `partition` name it; a seek mends it."""


class UnknownTopicError(PartitionError, LookupError):
    """The topic, or that partition of it, does not exist."""


class TopicRecreatedError(PartitionError):
    """The topic was deleted and created again: offsets of the old one mean nothing in the new one. Seek."""


class AuthorizationError(PartitionError, PermissionError):
    """The topic may not be read, or not written to."""


class OffsetOutOfRangeError(PartitionError, LookupError):
    """The position (`offset`) is not in the log, and no reset policy says where to go."""


class DataLossError(KafkaError):
    """Records that a Spark query was to read are gone: aged out, or their topic was deleted or created again.

    With the option `failOnDataLoss` set to `false`, the query warns and goes on with what is left.
    """


class GroupError(KafkaError):
    """Something about the consumer group. `group` names it, `code` has Kafka's name for it."""


class GroupAuthorizationError(GroupError, PermissionError):
    """The consumer group may not be used."""


class GroupInUseError(GroupError):
    """The consumer group has members: nobody else may commit its offsets. Stop them, or use another group id."""


class FencedInstanceError(GroupError):
    """Another consumer has the same `group.instance.id`; give each an id of its own.

    Under the classic protocol the newer one took over, and this one is out. Under `group.protocol=consumer` the id is
    in use by one that runs, or that died and whose session has not ended (`code` is UNRELEASED_INSTANCE_ID then).

    Attributes:
        instance_id: the id.
    """

    def __init__(self, message: str = "", *, instance_id: str | None = None, **details: str | None) -> None:
        super().__init__(message, code=details.get("code", "FENCED_INSTANCE_ID"), group=details.get("group"))
        self.instance_id = instance_id


class InconsistentGroupProtocolError(GroupError):
    """The members have no assignor in common. Give all of them one in `partition.assignment.strategy`.

    Consumers of librdkafka have `range,roundrobin` unless told otherwise.
    """


class UnsupportedGroupProtocolError(GroupError):
    """The broker does not offer `group.protocol=consumer` (KIP-848). Set `classic`, or `auto`."""


class UnsupportedAssignorError(GroupError, ValueError):
    """The broker has no such `group.remote.assignor`. Use one of its `group.consumer.assignors`, or none."""


class InvalidPatternError(GroupError, ValueError):
    """The broker cannot read the pattern of `subscribe(server_pattern=...)`; the message has its reason."""


class InvalidSessionTimeoutError(GroupError, ValueError):
    """The broker does not allow this `session.timeout.ms`. Change it, or the broker's bounds."""


class MaxPollExceededError(GroupError):
    """Nothing was polled for `max.poll.interval.ms`, so the consumer left its group.

    The next call that waits joins again. What was handed out before is not committed any more: others may read the
    same records.
    """


class AssignorError(GroupError):
    """An assignor failed, or assigned what it must not.

    Attributes:
        assignor: its name.
    """

    def __init__(self, message: str = "", *, assignor: str | None = None, **details: str | None) -> None:
        super().__init__(message, group=details.get("group"))
        self.assignor = assignor


class CommitFailure(NamedTuple):
    """Why the offset of one partition was not committed."""

    offset: int
    code: str | None
    """Kafka's name for it, where a broker said so."""
    reason: str


class CommitFailedError(GroupError):
    """Offsets were not committed. The consumer itself goes on, and joins its group again where it is out.

    Attributes:
        failures: why, by partition.
        committed: the offsets of the same call that were committed.
    """

    def __init__(
        self,
        message: str = "",
        *,
        failures: "Mapping[TopicPartition, CommitFailure] | None" = None,
        committed: "Mapping[TopicPartition, int] | None" = None,
        group: str | None = None,
        code: str | None = None,
        retriable: bool = False,
    ) -> None:
        super().__init__(message, group=group, code=code, retriable=retriable)
        self.failures = dict(failures or {})
        self.committed = dict(committed or {})


class BufferFullError(KafkaTimeoutError):
    """There was no room in `buffer.memory` for `max.block.ms`: the brokers take records more slowly than they come.

    The record was not sent. Sending it again waits again.
    """


class RecordTooLargeError(KafkaError, ValueError):
    """A record is larger than `max.request.size` here, or than `max.message.bytes` of its topic."""


class InvalidRecordError(KafkaError, ValueError):
    """The broker refused this very record; the message has its reason (KIP-467)."""


class DeliveryTimeoutError(KafkaTimeoutError):
    """A record was not acknowledged within `delivery.timeout.ms`.

    Attributes:
        in_doubt: whether it had been sent: it may be in the log all the same.
    """

    def __init__(
        self,
        message: str = "",
        *,
        topic: str | None = None,
        partition: int | None = None,
        in_doubt: bool = False,
    ) -> None:
        super().__init__(message, retriable=True, topic=topic, partition=partition)
        self.in_doubt = in_doubt


class BatchSendError(KafkaError):
    """Some rows of a batch were not delivered. The others were.

    Attributes:
        report: what became of the rows.
    """

    def __init__(self, message: str = "", *, report: "BatchReport | None" = None) -> None:
        super().__init__(message)
        self.report = report


class TransactionError(KafkaError):
    """A transaction's verb failed, or does not belong where it was called."""


class TransactionAbortedError(TransactionError):
    """The transaction was aborted, or can only be aborted: readers of committed records will see nothing of it."""


class ProducerFencedError(TransactionError):
    """Another producer with the same `transactional.id` was started. This one is out: close it."""


class TopicExistsError(BrokerError):
    """There is a topic of that name already. `topic` names it."""


class GroupNotFoundError(GroupError, LookupError):
    """There is no such consumer group."""


class AdminErrors(KafkaError):
    """Some of several topics, partitions, groups or resources were refused; the others are done.

    Attributes:
        results: what succeeded.
        errors: why, for each of those that did not.
    """

    def __init__(self, results: "Mapping[Any, Any]", errors: "Mapping[Any, KafkaError]") -> None:
        shown = [str(error) for error in list(errors.values())[:3]]
        more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
        message = f"{len(errors)} of {len(results) + len(errors)} failed: {'; '.join(shown)}{more}"
        super().__init__(message, retriable=all(error.retriable for error in errors.values()))
        self.results = dict(results)
        self.errors = dict(errors)

    # By default it would be made of its message alone, and a pool of processes hangs on what cannot be made again.
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.results, self.errors), self.__dict__


class LogTruncatedError(PartitionError):
    """Records that were read are gone or replaced after an unclean leader election (KIP-320)."""


class CorruptRecordError(PartitionError):
    """A record batch cannot be read.

    Nothing is skipped: `offset` is the first that was not handed out. Seek to `next_offset`, where it is known, to skip
    that batch.
    """


class ClosedError(KafkaError, RuntimeError):
    """The consumer, producer, admin or stream is closed."""


class WakeupError(KafkaError):
    """The wait was ended by `wakeup()`."""


class ForkError(KafkaError, RuntimeError):
    """An object made before a fork was used in the child. Make a new one there."""


class BrokerStartError(KafkaError, RuntimeError):
    """An embedded broker cannot start: its port is in use, or its data directory cannot be read. Use another."""


class BrokerCommandError(KafkaError, RuntimeError):
    """An embedded broker was told something that cannot be done; the message says why, and what would be right."""
