"""Kafka topics as Arrow record batches.

    import monedula

    with monedula.Consumer({"bootstrap.servers": "localhost:9092", "group.id": "etl"}, topics=["orders"]) as consumer:
        for batch in consumer.batches():
            print(batch.num_rows, batch.offsets)
            consumer.commit(batch)

A Rust core owns connections, fetching and decoding, and never holds the GIL meanwhile. Batches go to polars, pandas,
pyarrow and DuckDB through Arrow's PyCapsule interface, without a copy.
"""

import atexit as _atexit

from monedula._commits import CommitFuture
from monedula._monedula import Batch, Record, Schema, Span, __version__
from monedula._monedula import shutdown as _shutdown
from monedula.aio import AsyncConsumer
from monedula.config import ConfigKey, config_keys
from monedula.consumer import Consumer
from monedula.errors import (
    ArgumentError,
    AssignorError,
    AuthorizationError,
    BatchSendError,
    BrokerCommandError,
    BrokerConnectionError,
    BrokerError,
    BrokerStartError,
    BufferFullError,
    ClosedError,
    CommitFailedError,
    CommitFailure,
    ConfigError,
    CorruptRecordError,
    DataLossError,
    DeliveryTimeoutError,
    FencedInstanceError,
    ForkError,
    GroupAuthorizationError,
    GroupError,
    GroupInUseError,
    InconsistentGroupProtocolError,
    InvalidRecordError,
    InvalidSessionTimeoutError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncatedError,
    MaxPollExceededError,
    OffsetOutOfRangeError,
    OrderInDoubtError,
    PartitionError,
    ProducerFencedError,
    RecordTooLargeError,
    TopicRecreatedError,
    TransactionAbortedError,
    TransactionError,
    UnknownTopicError,
    UnsupportedVersionError,
    WakeupError,
)
from monedula.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from monedula.reading import RecordStream, read, read_range
from monedula.reports import BatchReport, RowError

__all__ = [
    "ArgumentError",
    "AssignorError",
    "AsyncConsumer",
    "AuthorizationError",
    "Batch",
    "BatchReport",
    "BatchSendError",
    "BrokerCommandError",
    "BrokerConnectionError",
    "BrokerError",
    "BrokerStartError",
    "BufferFullError",
    "ClosedError",
    "CommitFailedError",
    "CommitFailure",
    "CommitFuture",
    "ConfigError",
    "ConfigKey",
    "Consumer",
    "CorruptRecordError",
    "DataLossError",
    "DeliveryTimeoutError",
    "FencedInstanceError",
    "ForkError",
    "GroupAuthorizationError",
    "GroupError",
    "GroupInUseError",
    "InconsistentGroupProtocolError",
    "InvalidRecordError",
    "InvalidSessionTimeoutError",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncatedError",
    "MaxPollExceededError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "OrderInDoubtError",
    "PartitionError",
    "ProducerFencedError",
    "Record",
    "RecordStream",
    "RecordTooLargeError",
    "RowError",
    "Schema",
    "Span",
    "TopicPartition",
    "TopicRecreatedError",
    "TransactionAbortedError",
    "TransactionError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "WakeupError",
    "__version__",
    "config_keys",
    "read",
    "read_range",
]

# Connections end in order at exit, and no thread of the runtime outlives the interpreter.
_atexit.register(_shutdown)
