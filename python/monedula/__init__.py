"""Kafka topics as Arrow record batches.

    import monedula

    with monedula.Consumer({"bootstrap.servers": "localhost:9092", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign("orders")
        for batch in consumer.batches():
            print(batch.num_rows, batch.offsets)

A Rust core owns connections, fetching and decoding, and never holds the GIL meanwhile. Batches go to polars, pandas,
pyarrow and DuckDB through Arrow's PyCapsule interface, without a copy.
"""

import atexit as _atexit

from monedula._monedula import Batch, Record, Schema, Span, __version__
from monedula._monedula import shutdown as _shutdown
from monedula.aio import AsyncConsumer
from monedula.config import ConfigKey, config_keys
from monedula.consumer import Consumer
from monedula.errors import (
    ArgumentError,
    AuthorizationError,
    BrokerCommandError,
    BrokerConnectionError,
    BrokerError,
    BrokerStartError,
    ClosedError,
    ConfigError,
    CorruptRecordError,
    DataLossError,
    ForkError,
    GroupAuthorizationError,
    GroupInUseError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    PartitionError,
    TopicRecreatedError,
    UnknownTopicError,
    UnsupportedVersionError,
    WakeupError,
)
from monedula.partitions import OffsetAndTimestamp, TopicPartition
from monedula.reading import RecordStream, read, read_range

__all__ = [
    "ArgumentError",
    "AsyncConsumer",
    "AuthorizationError",
    "Batch",
    "BrokerCommandError",
    "BrokerConnectionError",
    "BrokerError",
    "BrokerStartError",
    "ClosedError",
    "ConfigError",
    "ConfigKey",
    "Consumer",
    "CorruptRecordError",
    "DataLossError",
    "ForkError",
    "GroupAuthorizationError",
    "GroupInUseError",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncatedError",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "PartitionError",
    "Record",
    "RecordStream",
    "Schema",
    "Span",
    "TopicPartition",
    "TopicRecreatedError",
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
