"""Kafka topics as Arrow record batches.

    import monedula

    with monedula.Consumer({"bootstrap.servers": "localhost:9092", "group.id": "etl"}, topics=["orders"]) as consumer:
        for batch in consumer.batches():
            print(batch.num_rows, batch.offsets)
            consumer.commit(batch)

The Rust core runs connections, fetching and decoding without the GIL. Batches go to polars, pandas, pyarrow and DuckDB
through Arrow's PyCapsule interface, without a copy.
"""

import atexit as _atexit
from typing import TYPE_CHECKING

from monedula._monedula import Batch, BatchFuture, Record, RecordMetadata, Schema, SendFuture, Span, Table, __version__
from monedula._process.exit import end as _end
from monedula.config import ConfigKey, config_keys
from monedula.consumer._commits import CommitFuture
from monedula.consumer.aio import AsyncConsumer
from monedula.consumer.sync import Consumer
from monedula.errors import (
    AdminErrors,
    ArgumentError,
    AssignorError,
    AuthenticationError,
    AuthorizationError,
    BatchSendError,
    BrokerCommandError,
    BrokerConnectionError,
    BrokerError,
    BrokerStartError,
    BrokersUnavailableError,
    BufferFullError,
    ClosedError,
    CommitFailedError,
    CommitFailure,
    ConfigError,
    CorruptRecordError,
    DataLossError,
    DecodeError,
    DeliveryTimeoutError,
    FencedInstanceError,
    ForkError,
    GroupAuthorizationError,
    GroupError,
    GroupInUseError,
    GroupNotFoundError,
    InconsistentGroupProtocolError,
    InvalidPatternError,
    InvalidRecordError,
    InvalidSessionTimeoutError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncatedError,
    MaxPollExceededError,
    NoSchemaError,
    NoThreadError,
    OffsetOutOfRangeError,
    PartitionError,
    ProducerFencedError,
    RecordTooLargeError,
    SchemaRegistryError,
    TopicExistsError,
    TopicRecreatedError,
    TransactionAbortedError,
    TransactionError,
    UndeliveredRecordsError,
    UnknownTopicError,
    UnsupportedAssignorError,
    UnsupportedGroupProtocolError,
    UnsupportedVersionError,
    WakeupError,
)
from monedula.formats.avro import Avro
from monedula.formats.json import Json
from monedula.formats.protobuf import Protobuf
from monedula.formats.registry import RegisteredSchema, SchemaRegistry
from monedula.producer.aio import AsyncProducer
from monedula.producer.sync import Producer
from monedula.reading.read import RecordStream, read, read_range
from monedula.types.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from monedula.types.reports import BatchReport, RowError

if TYPE_CHECKING:
    from monedula.admin import Admin, AsyncAdmin, NewTopic
    from monedula.reading.scan import dataset, scan
    from monedula.workers import Retry

__all__ = [
    "Admin",
    "AdminErrors",
    "ArgumentError",
    "AssignorError",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AuthenticationError",
    "AuthorizationError",
    "Avro",
    "Batch",
    "BatchFuture",
    "BatchReport",
    "BatchSendError",
    "BrokerCommandError",
    "BrokerConnectionError",
    "BrokerError",
    "BrokerStartError",
    "BrokersUnavailableError",
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
    "DecodeError",
    "DeliveryTimeoutError",
    "FencedInstanceError",
    "ForkError",
    "GroupAuthorizationError",
    "GroupError",
    "GroupInUseError",
    "GroupNotFoundError",
    "InconsistentGroupProtocolError",
    "InvalidPatternError",
    "InvalidRecordError",
    "InvalidSessionTimeoutError",
    "Json",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncatedError",
    "MaxPollExceededError",
    "NewTopic",
    "NoSchemaError",
    "NoThreadError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "PartitionError",
    "Producer",
    "ProducerFencedError",
    "Protobuf",
    "Record",
    "RecordMetadata",
    "RecordStream",
    "RecordTooLargeError",
    "RegisteredSchema",
    "Retry",
    "RowError",
    "Schema",
    "SchemaRegistry",
    "SchemaRegistryError",
    "SendFuture",
    "Span",
    "Table",
    "TopicExistsError",
    "TopicPartition",
    "TopicRecreatedError",
    "TransactionAbortedError",
    "TransactionError",
    "UndeliveredRecordsError",
    "UnknownTopicError",
    "UnsupportedAssignorError",
    "UnsupportedGroupProtocolError",
    "UnsupportedVersionError",
    "WakeupError",
    "__version__",
    "config_keys",
    "dataset",
    "read",
    "read_range",
    "scan",
]

_LATER = {
    "Admin": "monedula.admin",
    "AsyncAdmin": "monedula.admin",
    "NewTopic": "monedula.admin",
    "Retry": "monedula.workers",
    "dataset": "monedula.reading.scan",
    "scan": "monedula.reading.scan",
}
_MODULES_LATER = frozenset({"admin", "assignors", "events", "otel", "prometheus", "formats", "spark", "testing"})


if not TYPE_CHECKING:  # type checkers would take any name

    def __getattr__(name: str) -> object:
        """Import these names on first use: programs that only read should not wait for what these import."""
        if name in _MODULES_LATER:
            from importlib import import_module

            return import_module(f"{__name__}.{name}")
        if name not in _LATER:
            from sys import _getframe

            from monedula._migration_hints import no_name

            # `from monedula import name` asks first by this function of importlib.
            raise no_name(__name__, name, is_imported=_getframe(1).f_code.co_name == "_handle_fromlist")
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)

    def __dir__() -> list[str]:
        """Completion offers the public names, those of first use too; no module that may need an extra."""
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


_atexit.register(_end)
