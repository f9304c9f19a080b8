"""The exceptions: one tree, by what the caller can do next."""


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


class ConfigError(KafkaError, ValueError):
    """A setting is unknown, out of bounds, or contradicts another. `key` names it. Change it."""


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
    """The topic may not be read."""


class OffsetOutOfRangeError(PartitionError, LookupError):
    """The position (`offset`) is not in the log, and no reset policy says where to go."""


class DataLossError(KafkaError):
    """Records that a Spark query was to read are gone: aged out, or their topic was deleted or created again.

    With the option `failOnDataLoss` set to `false`, the query warns and goes on with what is left.
    """


class GroupAuthorizationError(KafkaError, PermissionError):
    """The consumer group may not be used."""


class GroupInUseError(KafkaError):
    """The consumer group has members: nobody else may commit its offsets. Stop them, or use another group id."""


class LogTruncatedError(PartitionError):
    """Records that were read are gone or replaced after an unclean leader election (KIP-320)."""


class CorruptRecordError(PartitionError):
    """A record batch cannot be read.

    Nothing is skipped: `offset` is the first that was not handed out. Seek to `next_offset`, where it is known, to skip
    that batch.
    """


class ClosedError(KafkaError, RuntimeError):
    """The consumer is closed."""


class WakeupError(KafkaError):
    """The wait was ended by `wakeup()`."""


class ForkError(KafkaError, RuntimeError):
    """An object made before a fork was used in the child. Make a new one there."""


class BrokerStartError(KafkaError, RuntimeError):
    """An embedded broker cannot start: its port is in use, or its data directory cannot be read. Use another."""


class BrokerCommandError(KafkaError, RuntimeError):
    """An embedded broker was told something that cannot be done; the message says why, and what would be right."""
