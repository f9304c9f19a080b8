"""The exceptions: one tree under `KafkaError`, divided by what the caller can do about an error."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from monedula.types.partitions import TopicPartition
    from monedula.types.reports import BatchReport


def plain_hint(hint: str | None, next_offset: int | None) -> str:
    """A hint in the words of Python's API: without the backticks around what other front ends say otherwise."""
    return (hint or "").replace("`", "").replace("{next_offset}", str(next_offset))


def with_hint(facts: str, hint: str, is_sentence: bool) -> str:
    """A message with its hint, which may be a sentence of its own."""
    if not hint:
        return facts
    return f"{facts}{' ' if facts.endswith('?') else '. ' if is_sentence else '; '}{hint}"


class KafkaError(Exception):
    """The base class of all errors of this client.

    Attributes:
        code: Kafka's name for the error, such as `"TOPIC_AUTHORIZATION_FAILED"`, or `None`.
        retriable: whether the same call may succeed later without any change.
        topic: the topic that the error is about, or `None`.
        partition: the partition that the error is about, or `None`.
        offset: the offset that the error is about, or `None`.
        next_offset: the first offset after the batch that cannot be read, or `None`.
        log_start_offset: the smallest offset of the log, if the offset lies outside of the log; else `None`.
        log_end_offset: the offset after the last record of the log, if the offset lies outside of it; else `None`.
        key: the setting that the error is about, or `None`.
        group: the consumer group that the error is about, or `None`.
        hint: what to do about it, if the message says so at its end; else `None`.
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
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        # Backticks are around what the command line and Spark say otherwise.
        self._marked_hint = hint or ""
        self.hint = plain_hint(hint, next_offset) or None
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
    """A setting is unknown, out of bounds, contradicts another one, or is incompatible with the broker's answer.

    `key` names the setting. Change it.
    """


class ArgumentError(KafkaError, ValueError):
    """An argument of a call is invalid. Change it. The message is made of the attributes.

    Attributes:
        argument: the argument at fault, such as `"framing"`, or a part of it, `"schemas[7]"`; or `None`.
        value: what was given for it, as `repr` shows it, or `None` if the message does not show it.
        reason: what is wrong with it.
        hint: what to give instead, or `None`.
        key: of `options`, the name of the option; else `None`.
        row: of a table, the row that cannot be sent; else `None`.
    """

    def __init__(
        self,
        reason: str = "",
        *,
        argument: str | None = None,
        value: str | None = None,
        hint: str | None = None,
        key: str | None = None,
        row: int | None = None,
        **details: Any,
    ) -> None:
        plain = plain_hint(hint, None)
        message = with_hint(reason if row is None else f"row {row}: {reason}", plain, plain[:1].isupper())
        if argument is not None:
            place = f"option {key}" if argument == "options" and key is not None else argument
            message = f"{place}{'' if value is None else f'={value}'}: {message}"
        super().__init__(message, hint=hint, key=key, **details)
        self.argument = argument
        self.value = value
        self.reason = reason
        self.row = row

    @classmethod
    def of(cls, argument: str, value: object, reason: str, hint: str | None = None) -> "ArgumentError":
        """The error of an argument for which `value` was given, with the `reason` and the `hint`."""
        shown = repr(value)
        return cls(reason, argument=argument, value=shown if len(shown) <= 400 else f"{shown[:397]}...", hint=hint)


class NoThreadError(KafkaError, RuntimeError):
    """The system grants no thread: its limit of threads or of memory is reached. The same call may succeed later.

    Raise the limit (`ulimit -u`, `ulimit -v`, or `pids.max` and the memory of a container), or have fewer threads
    elsewhere. `retriable` is `True`.
    """


class BrokerConnectionError(KafkaError, ConnectionError):
    """No broker of the cluster could be reached. The message has each address with the error of the attempt.

    A port that speaks another protocol than `security.protocol` says is a `ConfigError`.
    """


class AuthenticationError(KafkaError, PermissionError):
    """A broker and this client did not accept each other's identity: a certificate, a password or a token.

    The message names the broker, what was refused by whom, and what to do. Another attempt with the same settings would
    end in the same way, so nothing is tried again: every later call of the client raises the error too. Correct the
    settings, and make a new client.

    Also if the source of tokens brought none until `bootstrap.timeout.ms` was over; the message has its words. It is
    asked again all the same, and the client works once there is a token.

    Attributes:
        broker: the broker as `"host:port"`.
        mechanism: `"TLS"`, or the name of the SASL mechanism.
    """

    def __init__(
        self, message: str = "", *, broker: str | None = None, mechanism: str | None = None, **details: Any
    ) -> None:
        super().__init__(message, **details)
        self.broker = broker
        self.mechanism = mechanism


class KafkaTimeoutError(KafkaError, TimeoutError):
    """A call did not end within its timeout; the message has the last failure. Trying again may help.

    Attributes:
        last_error: the last failure that the call met, such as a refused connection or Kafka's name of an error; `None`
            if it met none.
    """

    def __init__(self, message: str = "", *, last_error: str | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.last_error = last_error


class BrokersUnavailableError(BrokerConnectionError, KafkaTimeoutError):
    """A wait for records ended without any, while the brokers that have them did not answer.

    So the topic need not be drained. No broker could be reached yet, or none that leads an assigned partition answers,
    or the group's coordinator does not. The client goes on trying: the same call may succeed later.

    Attributes:
        failing_for: for how many seconds the client has been failing.
        since: since when, in UTC.
        last_error: the last failure, or `None`.
    """

    def __init__(
        self, message: str = "", *, failing_for: float = 0.0, last_error: str | None = None, **details: Any
    ) -> None:
        super().__init__(message, last_error=last_error, **details)
        self.failing_for = failing_for
        self.since = datetime.now(UTC) - timedelta(seconds=failing_for)


class BrokerError(KafkaError):
    """A broker answered with an error that a retry does not solve; `code` names it."""


class UnsupportedVersionError(KafkaError):
    """The broker and this client support no common version of a request."""


class PartitionError(KafkaError):
    """One partition stopped; the others continue. `topic` and `partition` name it; `seek()` makes it continue."""


class UnknownTopicError(PartitionError, LookupError):
    """The topic, or the partition of it, does not exist.

    Also at the end of a loop with `until` whose group subscribed to topics that do not exist: the message has them all.
    """


class TopicRecreatedError(PartitionError):
    """The topic was recreated: the old topic's offsets mean nothing in the new topic. Seek to a new position."""


class AuthorizationError(PartitionError, PermissionError):
    """This client is not authorized to read the topic, to write to it, or to make the call of `Admin`.

    `topic` and `partition` are `None` if it is about the cluster or a delegation token.
    """


class OffsetOutOfRangeError(PartitionError, LookupError):
    """The position (`offset`) is outside of the log, and `auto.offset.reset` sets no other position."""


class DataLossError(KafkaError):
    """Records that a Spark query or a landing job has to read are gone: by retention, or with their topic.

    With the option `failOnDataLoss` set to `false`, the query warns and continues with the records that are left; a
    landing job does with `fail_on_data_loss=False`.
    """


class LandingError(KafkaError):
    """A landing job cannot begin or go on with its table; the message says why, and the way out.

    What was committed stays, and nothing is lost: a job that begins again goes on where the table is.
    """

    def __init__(self, message: str = "", *, hint: str | None = None, **details: Any) -> None:
        super().__init__(with_hint(message, plain_hint(hint, None), is_sentence=False), hint=hint, **details)


class GroupError(KafkaError):
    """An error of a consumer group. `group` names the group, `code` has Kafka's name for the error."""


class GroupAuthorizationError(GroupError, PermissionError):
    """This client is not authorized to use the consumer group."""


class GroupInUseError(GroupError):
    """The consumer group has members, so only these may commit its offsets. Stop them, or use another `group.id`."""


class FencedInstanceError(GroupError):
    """Another consumer has the same `group.instance.id`; give each consumer an id of its own.

    Under the classic protocol the newer consumer took over, and this one is fenced. Under `group.protocol=consumer` the
    id is in use by a running consumer, or by one that died and whose session has not expired yet (`code` is
    UNRELEASED_INSTANCE_ID then).

    Attributes:
        instance_id: the `group.instance.id`.
    """

    def __init__(self, message: str = "", *, instance_id: str | None = None, **details: str | None) -> None:
        super().__init__(message, code=details.get("code", "FENCED_INSTANCE_ID"), group=details.get("group"))
        self.instance_id = instance_id


class InconsistentGroupProtocolError(GroupError):
    """The members have no assignor in common. Give all of them a common one in `partition.assignment.strategy`.

    The default of librdkafka's consumers is `range,roundrobin`. Raised too if the group is a share group: use
    `ShareConsumer`, or another `group.id`.
    """


class UnsupportedGroupProtocolError(GroupError):
    """The broker does not support `group.protocol=consumer` (KIP-848). Set `classic` or `auto`.

    Raised too if the group is a share group: use `ShareConsumer`, or another `group.id`.
    """


class UnsupportedAssignorError(GroupError, ValueError):
    """The broker has no such `group.remote.assignor`. Use one of its `group.consumer.assignors`, or leave it out."""


class InvalidPatternError(GroupError, ValueError):
    """The broker cannot compile the pattern of `subscribe(server_pattern=...)`; the message has the broker's reason."""


class InvalidSessionTimeoutError(GroupError, ValueError):
    """The broker does not allow this `session.timeout.ms`. Change it, or the broker's bounds."""


class MaxPollExceededError(GroupError):
    """The consumer was not polled for `max.poll.interval.ms`, so it left its group.

    The next call that waits joins the group again. Offsets of records returned before are not committed any more: other
    members may read the same records.
    """


class AssignorError(GroupError):
    """An assignor raised an error, or its assignment is invalid.

    Attributes:
        assignor: the name of the assignor.
    """

    def __init__(self, message: str = "", *, assignor: str | None = None, **details: str | None) -> None:
        super().__init__(message, group=details.get("group"))
        self.assignor = assignor


class CommitFailure(NamedTuple):
    """The reason why the offset of one partition was not committed."""

    offset: int
    code: str | None
    """Kafka's name for the error, if a broker returned one."""
    reason: str


class CommitFailedError(GroupError):
    """Offsets were not committed. The consumer continues, and joins its group again if it is no longer a member.

    Attributes:
        failures: the reason for each partition.
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


class AcknowledgeResult(NamedTuple):
    """What became of the decisions about a share group's rows of one partition."""

    rows: int
    """How many were acknowledged."""
    failed: int
    """How many were not, or may not have been."""
    code: str | None
    """Kafka's name for the last error; `"UNKNOWN"` if the answer was lost."""
    reason: str | None


class AcknowledgeError(GroupError):
    """Decisions about rows of a share group took no effect, or may not have: the rows may be delivered again.

    Their locks were over, their partition has another leader, the session with the broker ended, or an answer was lost.

    Attributes:
        results: what became of the decisions, by partition.
    """

    def __init__(
        self,
        message: str = "",
        *,
        results: "Mapping[TopicPartition, AcknowledgeResult] | None" = None,
        group: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, group=group, code=code)
        self.results = dict(results or {})


class BufferFullError(KafkaTimeoutError):
    """No room was left in `buffer.memory` for `max.block.ms`: records are sent faster than the brokers take them.

    The record was not sent. Another `send` of it waits for room again.
    """


class RecordTooLargeError(KafkaError, ValueError):
    """A record is larger than `max.request.size` here, or than `max.message.bytes` of its topic."""


class NoSchemaError(KafkaError, ValueError):
    """No schema can be inferred: none of the records is a JSON object with fields. Name the fields yourself."""


class InvalidRecordError(KafkaError, ValueError):
    """The broker refused this record, not only its batch; the message has the broker's reason (KIP-467)."""


class DeliveryTimeoutError(KafkaTimeoutError):
    """A record was not acknowledged within `delivery.timeout.ms`.

    Attributes:
        in_doubt: whether the record had been sent, so that its outcome is unknown: it may be in the log.
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
    """Some rows of a `send_batch` or `send_many` call were not delivered. The others were.

    Attributes:
        report: the result of the call, with the error of each failed row.
    """

    def __init__(self, message: str = "", *, report: "BatchReport | None" = None) -> None:
        super().__init__(message)
        self.report = report


class UndeliveredRecordsError(KafkaError):
    """Records were not delivered, and nobody asked for their outcome.

    Raised when the block of `with Producer(...)` is left without an exception. Records whose future was asked for its
    outcome (`result()`, `exception()`, `await`), or whose future had a callback, do not count.

    Attributes:
        count: how many records were not delivered.
        first: the error of the first one.
    """

    def __init__(self, message: str = "", *, count: int = 0, first: BaseException | None = None) -> None:
        super().__init__(message)
        self.count = count
        self.first = first


class TransactionError(KafkaError):
    """A transaction method failed, or was called in the wrong state of the transaction."""


class TransactionAbortedError(TransactionError):
    """The transaction was aborted, or can only be aborted: read_committed consumers will see none of its records."""


class ProducerFencedError(TransactionError):
    """Another producer with the same `transactional.id` has taken over. This producer is fenced: close it."""


class TransactionalIdNotFoundError(TransactionError, LookupError):
    """No coordinator knows the transactional id: it was never used, or is forgotten since (`code` names the error)."""


class TopicExistsError(BrokerError):
    """A topic of that name exists already. `topic` names it."""


class GroupNotFoundError(GroupError, LookupError):
    """The group does not exist, or is no consumer group."""


class AdminErrors(KafkaError):
    """Some of the topics, partitions, groups or resources of a call failed; the others succeeded.

    Attributes:
        results: the results of those that succeeded.
        errors: the error of each one that failed.
    """

    def __init__(self, results: "Mapping[Any, Any]", errors: "Mapping[Any, KafkaError]") -> None:
        shown = [str(error) for error in list(errors.values())[:3]]
        more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
        message = f"{len(errors)} of {len(results) + len(errors)} failed: {'; '.join(shown)}{more}"
        super().__init__(message, retriable=all(error.retriable for error in errors.values()))
        self.results = dict(results)
        self.errors = dict(errors)

    # Exception.__reduce__ would pass the message alone to __init__, and a process pool hangs if unpickling fails.
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.results, self.errors), self.__dict__


class LogTruncatedError(PartitionError):
    """Records that were read already are gone or replaced after an unclean leader election (KIP-320)."""


class CorruptRecordError(PartitionError):
    """A record batch cannot be read.

    Nothing is skipped: `offset` is the first offset that was not returned. The batch may have been damaged on its way:
    a seek to `offset`, or a new read, fetches it again. To skip the batch, seek to `next_offset`, if it is known.
    """


class DecodeError(PartitionError, ValueError):
    """The key or value of a record cannot be decoded as `key=` or `value=` of the consumer says.

    Nothing is skipped: `offset` is the record. With `mode="null"` of `Json`, `Avro` or `Protobuf` such records are kept
    with nulls, with `mode="drop"` they are left out, and with `dead_letter=` a consumer writes them to a topic. To skip
    this one alone, seek to `next_offset`.

    Attributes:
        column: `"key"` or `"value"`.
        path: the field that the fault was met in, such as `"items[3].price"`; empty if the value as a whole is bad.
        reason: what is wrong.
    """

    def __init__(
        self, message: str = "", *, column: str = "value", path: str = "", reason: str = "", **details: Any
    ) -> None:
        super().__init__(message, **details)
        self.column = column
        self.path = path
        self.reason = reason


class SchemaRegistryError(PartitionError):
    """The schema that a record was written with cannot be had from the registry: it is down, silent, or refuses.

    Nothing is skipped: the position stays at the record, and a poll a second later asks again. Other partitions go on.
    An id that the registry does not know is a `DecodeError` instead.

    A wait that ends without records raises it too if records wait for a registry that has not answered yet.

    `send_batch` raises it for the schema that rows are to be written with, and has sent nothing then.

    Attributes:
        column: `"key"` or `"value"`.
        reason: the URL, what was asked for, and the registry's own words.
    """

    def __init__(self, message: str = "", *, column: str = "value", reason: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.column = column
        self.reason = reason


class ClosedError(KafkaError, RuntimeError):
    """The consumer, producer, admin client or stream is closed."""


class WakeupError(KafkaError):
    """The wait was ended by `wakeup()`."""


class ForkError(KafkaError, RuntimeError):
    """An object that was created before a fork was used in the child process. Create a new one there."""


class BrokerStartError(KafkaError, RuntimeError):
    """An embedded broker cannot start: its port is in use, or its data directory cannot be read. Use another."""


class BrokerCommandError(KafkaError, RuntimeError):
    """An embedded broker refused a command; the message says why, and what would be valid."""
