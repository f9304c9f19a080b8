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

from monedula._exit import end as _end
from monedula._monedula import Batch, BatchFuture, Record, RecordMetadata, Schema, SendFuture, Span, Table, __version__
from monedula.config import ConfigKey, config_keys
from monedula.consumer._commits import CommitFuture
from monedula.consumer.sync import Consumer
from monedula.errors import ArgumentError, ConfigError, DecodeError, KafkaError, KafkaTimeoutError, UnknownTopicError
from monedula.formats.avro import Avro
from monedula.formats.json import Json
from monedula.formats.protobuf import Protobuf
from monedula.producer.sync import Producer
from monedula.reading.read import RecordStream, read, read_range
from monedula.types.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from monedula.admin import Admin, AsyncAdmin, NewTopic
    from monedula.consumer.aio import AsyncConsumer
    from monedula.formats.registry import RegisteredSchema, SchemaRegistry
    from monedula.landing import Delta, Iceberg, LandingJob, land
    from monedula.producer.aio import AsyncProducer
    from monedula.reading.queries import dataset, scan
    from monedula.reading.schema_inference import infer
    from monedula.share.aio import AsyncShareConsumer
    from monedula.share.sync import ShareConsumer
    from monedula.types.reports import BatchReport, RowError
    from monedula.workers import Reply, Retry

__all__ = [
    "Admin",
    "ArgumentError",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "Avro",
    "Batch",
    "BatchFuture",
    "BatchReport",
    "CommitFuture",
    "ConfigError",
    "ConfigKey",
    "Consumer",
    "DecodeError",
    "Delta",
    "Iceberg",
    "Json",
    "KafkaError",
    "KafkaTimeoutError",
    "LandingJob",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "Protobuf",
    "Record",
    "RecordMetadata",
    "RecordStream",
    "RegisteredSchema",
    "Reply",
    "Retry",
    "RowError",
    "Schema",
    "SchemaRegistry",
    "SendFuture",
    "ShareConsumer",
    "Span",
    "Table",
    "TopicPartition",
    "UnknownTopicError",
    "__version__",
    "config_keys",
    "dataset",
    "infer",
    "land",
    "read",
    "read_range",
    "scan",
]

_LATER = {
    "Admin": "monedula.admin",
    "AsyncAdmin": "monedula.admin",
    "AsyncConsumer": "monedula.consumer.aio",
    "AsyncProducer": "monedula.producer.aio",
    "AsyncShareConsumer": "monedula.share.aio",
    "BatchReport": "monedula.types.reports",
    "Delta": "monedula.landing",
    "Iceberg": "monedula.landing",
    "LandingJob": "monedula.landing",
    "NewTopic": "monedula.admin",
    "RegisteredSchema": "monedula.formats.registry",
    "Reply": "monedula.workers",
    "Retry": "monedula.workers",
    "RowError": "monedula.types.reports",
    "SchemaRegistry": "monedula.formats.registry",
    "ShareConsumer": "monedula.share.sync",
    "dataset": "monedula.reading.queries",
    "infer": "monedula.reading.schema_inference",
    "land": "monedula.landing",
    "scan": "monedula.reading.queries",
}
_MODULES_LATER = frozenset(
    {"admin", "assignors", "events", "landing", "otel", "prometheus", "formats", "spark", "testing", "workers"}
)


if not TYPE_CHECKING:  # type checkers would take any name

    def __getattr__(name: str) -> object:
        """Import these names on first use: programs that only read should not wait for what these import."""
        if name in _MODULES_LATER:
            from importlib import import_module

            return import_module(f"{__name__}.{name}")
        if name not in _LATER:
            from sys import _getframe

            # `from monedula import name` asks first by this function of importlib.
            from monedula import admin, errors
            from monedula._migration_hints import no_name

            elsewhere = next((module.__name__ for module in (errors, admin) if hasattr(module, name)), None)
            is_imported = _getframe(1).f_code.co_name == "_handle_fromlist"
            raise no_name(__name__, name, is_imported=is_imported, elsewhere=elsewhere)
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)

    def __dir__() -> list[str]:
        """Completion offers the public names, those of first use too; no module that may need an extra."""
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


_atexit.register(_end)
