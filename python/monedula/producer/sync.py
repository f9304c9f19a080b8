"""`Producer`, the synchronous producer, and `ProducerBase`, which it shares with `AsyncProducer`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from sys import modules
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from monedula._arguments import as_text, whole_number
from monedula._config.client_names import ClientNames, names_in
from monedula._health import late_flush, with_since
from monedula._migration_hints import tells
from monedula._monedula import (
    BatchFuture,
    CancellableCall,
    MetricRegistry,
    ProducerCore,
    QueuedSendsCore,
    RecordTable,
    SendFuture,
)
from monedula._registered_metrics import RegisteredMetrics
from monedula._reprs import counted, of_client
from monedula.config import Settings, Unpicklable, raw_settings
from monedula.errors import (
    ArgumentError,
    ClosedError,
    DeliveryTimeoutError,
    ForkError,
    KafkaTimeoutError,
    SchemaRegistryError,
    UndeliveredRecordsError,
)
from monedula.formats._typed import Typed, spec_of
from monedula.producer._send_queue import OnDelivery, SendArguments, enqueue, enqueue_behind, refuse_in_partitioner
from monedula.producer._transactions import Transactions, deadline_of, seconds_left
from monedula.types.json_dict import JsonDict

if TYPE_CHECKING:
    from monedula._monedula import ColumnSpec, Operation

Form = Typed | Mapping[str, Typed]
"""What keys or values are encoded as: in all topics, or by the names of topics; in others they are bytes."""

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""Called with topic, key, value and the number of partitions. Returns the partition."""

LAST_WORDS_SECONDS = 5.0
"""Time of a producer to deliver after Ctrl-C, or at exit."""


QUEUED_SECONDS = 1.0
"""Time for records in queues to fail once the producer is closed: their threads may be in a partitioner of the user."""


class ProducerBase(RegisteredMetrics, Unpicklable, ProducerCore):
    """Base class of `Producer` and `AsyncProducer`."""

    _waits = True
    _names: ClientNames
    _partitioner: Partitioner | None
    _queued: QueuedSendsCore
    _encodes = False
    _forms: dict[str, Form | None]
    """The form of keys and of values, as `"key"` and `"value"`; `None` for bytes."""
    _of_subjects: "dict[str, Typed]"
    _lookups: "set[CancellableCall | Operation[Any]]"
    """Calls of threads that may wait for a registry, and operations about a topic's partitions."""
    _is_closed = False

    def __new__(
        cls,
        config: Settings | None = None,
        /,
        *,
        partitioner: Partitioner | str | None = None,
        key: Form | None = None,
        value: Form | None = None,
        **settings: Any,
    ) -> Self:
        """Parse the settings; see the class for the arguments."""
        try:
            if isinstance(partitioner, str):
                settings["partitioner"] = partitioner
                partitioner = None
            raw = raw_settings(config, settings, in_place_of_text="the topic of a record goes into send(topic, value)")
        finally:
            del config, settings  # no traceback shows passwords as locals
        if partitioner is not None and not callable(partitioner):
            message = "expected a function of topic, key, value and the number of partitions, or a partitioner's name"
            raise ArgumentError.of("partitioner", partitioner, message)
        forms = {"key": _checked_form("key", key), "value": _checked_form("value", value)}
        encodes = key is not None or value is not None
        made = super().__new__(cls, raw, cls._waits, partitioner is not None, encodes)
        made._encodes = encodes
        made._forms = forms
        made._names = names_in(raw)
        made._partitioner = partitioner
        made._queued = QueuedSendsCore(made)
        made._of_subjects = {}
        made._lookups = set()
        return made

    def __repr__(self) -> str:
        """Brokers, and how far the producer is, without a request."""
        facts: list[str] = []
        try:
            figures = dict(self._metrics())
            facts.append(f"{counted(figures['records_acknowledged'], 'record')} acknowledged")
            if failed := figures["records_failed"]:
                facts.append(f"{failed:,} failed")
        except ForkError:
            pass  # it belongs to the parent process
        if self._is_closed:
            facts.append("closed")
        return of_client(self, self._names.servers, facts)

    def _metrics_registry(self) -> MetricRegistry:
        return self._metric_registry()

    def metrics(self) -> dict[str, float]:
        """Counters since the producer was created: connections, requests, bytes, records sent and failed, and so on."""
        return dict(self._metrics())

    def health(self) -> JsonDict[str, Any]:
        """The state of the client, and what is in flight.

        `ok` is whether brokers answer and the producer is open. If they do not, `failing_for` and `failing_since` say
        for how many seconds and since when (in UTC), and `last_error` why. The other keys are `connections`, `brokers`,
        `bootstrapped`, `retried_errors`; `client_instance_id` (in the metrics that are pushed to brokers, KIP-714) and
        `certificate_expires` (the client's own, in seconds since 1970); `memory_used_bytes` of `memory_bytes`,
        `waiting_for_room`; `records_unfinished`, all records without a result; `requests_in_flight`,
        `batches_in_flight` and `batches_in_flight_by_broker`; `topics`, those that records were sent to within
        `metadata.max.idle.ms`. `health().to_json()` has all of them as types of JSON.
        """
        return with_since(self._health())

    def _send_unencoded(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Any,
        timestamp: Any,
        on_delivery: OnDelivery,
    ) -> SendFuture:
        """Send a record of a topic whose schemas are not known yet, which the registry may have to be asked for."""
        self._check(topic, None, None, partition, headers, timestamp)
        record = SendArguments(topic, value, key, partition, headers, timestamp)
        return self._send_or_queue(*self._encoded(record), on_delivery)

    def _encoded(self, record: SendArguments, patience: float | None = None) -> SendArguments:
        """Encode key and value. Waits for the registry up to `patience` seconds, `max.block.ms` if that is `None`.

        Raises:
            ArgumentError: if the key or the value is no value of the schema.
            SchemaRegistryError: if the registry does not have the schema, or refuses it.
            KafkaTimeoutError: if it does not answer.
        """
        if not self._encodes:
            return record
        found = self._encode(record.topic, record.key, record.value, record.headers)
        if found is None:
            self._find_encoders(record.topic, self._max_block if patience is None else patience)
            found = self._encode(record.topic, record.key, record.value, record.headers)
            assert found is not None
        key, value, headers = found
        return record._replace(key=key, value=value, headers=headers)

    def _find_encoders(self, topic: str, patience: float) -> None:
        self._check_record(topic)
        call, started = CancellableCall(), monotonic()
        try:
            with self._until_closed(call):
                call.run_within(patience, self._make_encoders, topic)
        except SchemaRegistryError as error:
            if monotonic() - started < patience:
                raise
            allowed = round(self._max_block * 1000)
            message = f"{topic}: the schema registry did not answer within max.block.ms={allowed} ms; nothing was sent"
            registry = self._registry()
            why = None if registry is None else registry.failure()
            because = "" if why is None else f"; the last error: {why}"
            raise KafkaTimeoutError(f"{message}{because}", retriable=True, last_error=why) from error

    def _make_encoders(self, topic: str) -> None:
        key, value = (self._of_subject(self._form(column, topic), column, topic) for column in ("key", "value"))
        self._open_encoders(topic, *written_as(key, value))

    def _form(self, column: str, topic: str | None) -> Typed | None:
        form = self._forms[column]
        if isinstance(form, Mapping):
            return None if topic is None else form.get(topic)
        return form

    def _drafted(self, record: SendArguments) -> SendArguments:
        """The record with its key and value as they are now, whatever the caller does with them."""

        def draft(column: str, given: Any) -> Any:
            is_encoded = given is not None and self._form(column, record.topic) is not None
            return self._draft(column, given) if is_encoded else given

        return record._replace(key=draft("key", record.key), value=draft("value", record.value))

    def _send_or_queue(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Any,
        timestamp: Any,
        on_delivery: OnDelivery,
    ) -> SendFuture:
        """Send a record through Python: to a partitioner that is a function, or behind queued records."""
        self._check(topic, value, key, partition, headers, timestamp)
        record = SendArguments(topic, value, key, partition, headers, timestamp)
        queued = enqueue_behind(self._queued, f"topic {topic}", record, on_delivery)
        if queued is not None:
            return queued
        return (self._send_now if self._partitioner is None else self._send_partitioned)(record, on_delivery)

    def _send_now(self, record: SendArguments, on_delivery: OnDelivery) -> SendFuture:
        return self._send(self._max_block, 0.0, None, on_delivery, *record)

    def _send_partitioned(self, record: SendArguments, on_delivery: OnDelivery) -> SendFuture:
        """Send a record to its partition, or the one that the user's function chooses once the number of them is known.

        A record with a partition waits only behind others of its topic, which may go to the same partition.
        """
        if record.partition is not None:
            return self._send_now(record, on_delivery)
        partitions = self._partition_count(record.topic)
        if partitions is None:
            return enqueue(self._queued, f"topic {record.topic}", record, on_delivery, self._send_when_known)
        return self._send_now(self._with_partition(record, partitions), on_delivery)

    def _send_when_known(self, record: SendArguments, waited: float, transaction: int) -> SendFuture:
        started = monotonic()
        if record.is_draft:
            record = self._encoded(record, max(self._max_block - waited, 0.0))
        if record.partition is None and self._partitioner is not None:
            partitions = self._partition_count(record.topic)
            if partitions is None:
                partitions = self._await_partition_count(record.topic, waited)
            record = self._with_partition(record, partitions)
        return self._send_waited(record, waited + monotonic() - started, transaction)

    def _await_partition_count(self, topic: str, waited: float) -> int:
        left = self._delivery_timeout - waited
        # A request for metadata has its own timeout, which may be shorter than the time that is left.
        operation = self._partitions_for(topic, None if left > self._api_timeout else max(left, 0.0))
        try:
            with self._until_closed(operation):
                return len(operation.outcome())
        except KafkaTimeoutError as error:
            if left > self._api_timeout:
                raise
            allowed = round(self._delivery_timeout * 1000)
            message = f"{topic}: not delivered within delivery.timeout.ms={allowed} ms: {error}"
            raise DeliveryTimeoutError(message, topic=topic) from error

    def _send_waited(self, record: SendArguments, waited: float, transaction: int) -> SendFuture:
        return self._send(max(self._max_block - waited, 0.0), waited, transaction, None, *record)

    def _with_partition(self, record: SendArguments, partitions: int) -> SendArguments:
        assert self._partitioner is not None
        chosen = self._partitioner(record.topic, _encoded(record.key), _encoded(record.value), partitions)
        index = whole_number(chosen)
        if index is None or not 0 <= index < partitions:
            raise ArgumentError(f"the partitioner chose {chosen!r} for {record.topic}: expected 0 to {partitions - 1}")
        return record._replace(partition=index)

    def _partition_of(self, topic: str, partitions: int) -> Callable[[Any, Any], int | None]:
        """The user's partitioner for records of a topic, as a function of key and value."""

        def partition_of(key: Any, value: Any) -> int | None:
            return self._with_partition(SendArguments(topic, value, key, None, None, None), partitions).partition

        return partition_of

    def _lacks_encoders(self, topic: str) -> bool:
        return self._encodes and self._encode(topic, None, None, None) is None

    def _raise_unseen(self, raised: BaseException | None) -> None:
        """Raise if records failed and nobody asked for their outcome. An exception raised before gets a note."""
        unseen = self._unseen_failures()
        if unseen is None:
            return
        count, first = unseen
        records = "a record was" if count == 1 else f"{count} records were"
        message = f"{records} not delivered, and nobody asked for the outcome; the first error: {first}"
        if raised is not None:
            raised.add_note(message)
            return
        advice = "ask the futures for their result(), or give send() an on_delivery, to handle failures by yourself"
        raise UndeliveredRecordsError(f"{message}. To go on without this error, {advice}", count=count, first=first)

    def _of_subject(self, given: Typed | None, column: str, topic: str | None) -> Typed | None:
        """The form of rows, with the schema of its subject if it has none, which a registry is asked for once."""
        if not isinstance(given, Typed) or not given.is_of_registry:
            return given
        given = given.of_topic(column, topic, self._registry())
        wanted = given.identity
        if wanted not in self._of_subjects:
            self._of_subjects[wanted] = given.of_subject(self._registry())
        return self._of_subjects[wanted]

    def _rows_until_closed(self, call: CancellableCall, *arguments: Any) -> BatchFuture:
        """Call `_rows`; its wait for a registry ends when the producer is closed."""
        with self._until_closed(call):
            future: BatchFuture = call.run(self._rows, *arguments)
            return future

    def _check_open(self) -> None:
        """Raise if it was closed: the block of a `with` would only fail later."""
        if self._is_closed:
            raise ClosedError("the producer is closed")

    @contextmanager
    def _until_closed(self, lookup: "CancellableCall | Operation[Any]") -> Iterator[None]:
        """End the wait in the block once the producer is closed.

        Raises:
            ClosedError: if that ended it.
        """
        self._lookups.add(lookup)
        try:
            self._check_open()
            yield
        except (ClosedError, SchemaRegistryError):
            lookup.cancel()
            if self._is_closed:
                raise ClosedError("the producer is closed") from None
            raise
        finally:
            self._lookups.discard(lookup)

    def _close_lookups(self) -> None:
        self._is_closed = True
        for call in list(self._lookups):
            call.cancel()

    def _rows(
        self,
        data: Any,
        topic: str | None,
        key: Typed | None,
        value: Typed | None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> BatchFuture:
        if topic is not None:
            check_name(topic)
            self._check_record(topic)
        _check_no_objects(data)
        if not isinstance(data, RecordTable):  # whose keys and values are written already
            key, value = key or self._form("key", topic), value or self._form("value", topic)
        specs: tuple[ColumnSpec | None, ColumnSpec | None] = (None, None)
        if key is not None or value is not None:
            specs = written_as(self._of_subject(key, "key", topic), self._of_subject(value, "value", topic))
        return self._send_batch(data, topic, self._partitioner is not None, headers, *specs)


def _check_no_objects(data: Any) -> None:
    """Refuse Python objects in a polars frame, such as UUIDs: it exports their addresses in memory as bytes."""
    frame: Any = getattr(modules.get("polars"), "DataFrame", ())  # another thread may just be importing it
    if not isinstance(data, frame):
        return
    if objects := [name for name, kind in data.schema.items() if str(kind) == "Object"]:
        raise ArgumentError(
            f"the column {objects[0]!r} has Python objects (polars.Object), which are no Arrow data: make texts of "
            f"them before the frame is made, or pl.Series([str(each) for each in frame[{objects[0]!r}]])"
        )


@tells
class Producer(ProducerBase, Transactions):
    """Sends records, and whole tables, to Kafka.

    Calls may come from any thread. `send` does not wait for brokers; each record's future has its outcome.
    Idempotent by default: retries neither lose, repeat nor reorder. `docs/producer.md` has more.

    Args:
        config: settings by Kafka's names, such as `{"bootstrap.servers": "localhost:9092"}`; both Java's and
            librdkafka's names are accepted. `monedula.config_keys()` lists them with their defaults.
        partitioner: a function `(topic, key, value, partitions) -> partition`, or the name of a built-in partitioner.
        key: what keys are encoded as: `monedula.Avro(schema)`, `Protobuf(schema)` or `Json(schema)`; or a dict of these
            by topics, whose other keys are bytes. Keys are bytes or str if it is left out.
        value: what values are encoded as, likewise: `send` takes dicts, dataclasses and other objects with named fields
            then. Fields that are missing have the schema's default; a field that the schema does not have is refused.
        **settings: settings with underscores for dots, such as `bootstrap_servers="localhost:9092"`.

    Leaving the block of `with Producer(...)` delivers what was sent. If records failed whose outcome nobody asked for,
    it raises `UndeliveredRecordsError`; an exception that leaves the block gets a note instead.

    Raises:
        ConfigError: on an unknown setting (the message names the nearest known one) or an invalid value.

    Examples:
        with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
            future = producer.send("orders", b"a value", key="a key")
            print(future.result())

        with Producer({"schema.registry.url": "http://localhost:8081", ...}, value=Avro(schema)) as producer:
            producer.send("orders", {"id": 7, "price": Decimal("9.90")})
    """

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        # After Ctrl-C, do not wait for delivery.timeout.ms.
        interrupted = kind is not None and not issubclass(kind, Exception)
        self.close(LAST_WORDS_SECONDS if interrupted else None)
        self._raise_unseen(error)

    def send_batch(
        self, data: Any, topic: str | None = None, *, key: Typed | None = None, value: Typed | None = None
    ) -> BatchFuture:
        """Send every row of Arrow data, without a Python object for each row.

        Returns once all rows are in batches. While `buffer.memory` is full, it waits for room, with the GIL free. Rows
        that find no room for `max.block.ms` fail, and the future's report has their errors.

        Args:
            data: an object with `__arrow_c_stream__` or `__arrow_c_array__`: a table or batch of pyarrow, a frame of
                polars, pandas or DuckDB, a `monedula.Batch`, a `monedula.read(...)`. Its columns, in any order: key and
                value (binary or string), topic (string), partition (integer), timestamp (timestamp, or integer
                milliseconds), headers (list of structs of key and value).
            topic: the topic of all rows, also if there is a column `topic`; by that column if left out.
            key: what the column key is written as, if it is not bytes yet: `monedula.Json()`, `Avro(schema)` or
                `Protobuf(schema)`; by default that of the producer.
            value: what values are written as, likewise. A value is the column value, or, if there is none or with
                `flatten=True`, an object of all columns but Kafka's. Every row is written before the first one is sent.

        Raises:
            ArgumentError: if it is not Arrow data, or a column is invalid; the message says what is expected. Also if a
                row is no value of the schema; then it names row and field, and no row was sent.
            ClosedError: if the producer is closed.
        """
        return self._rows_until_closed(CancellableCall(), data, topic, key, value)

    def send_many(self, topic: str, records: Iterable[Any]) -> BatchFuture:
        """Send many records to a topic, with one future for all: what `send` does, at about half of its cost.

        All records are read, and written as bytes, before the first one is sent; they share their time. Returns once
        all are in batches. While `buffer.memory` is full, it waits for room, with the GIL free. Records that find no
        room for `max.block.ms` fail, and the future's report has their errors.

        Args:
            topic: the name of the topic.
            records: a list, a generator or another iterable. A record is its value, or a tuple `(key, value)` or
                `(key, value, headers)`, each as `send` takes them; a value that is itself a tuple is given with its
                key, `(None, value)`. With an endless iterator, send slices of it (`itertools.islice`).

        Returns:
            A future, whose report numbers the records from 0.

        Raises:
            ArgumentError: if a record is invalid, or no value of the schema. A note has its number. None was sent.
            Exception: what the iterable itself raises. None was sent.
            SchemaRegistryError: if the registry does not have the schema, or refuses it.
            KafkaTimeoutError: if it does not answer for `max.block.ms`; if the partitioner is a function, and the
                number of partitions is not known within `default.api.timeout.ms`.
            ClosedError: if the producer is closed.

        Examples:
            producer.send_many("orders", [("key", b"a value"), ("key", b"another")]).result()
        """
        check_name(topic)
        if self._lacks_encoders(topic):
            self._find_encoders(topic, self._max_block)
        chosen = None if self._partitioner is None else self._partition_of(topic, len(self.partitions_for(topic)))
        table = self._record_table(topic, records, chosen)
        return self._rows_until_closed(CancellableCall(), table, topic, None, None)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent before is done, and its callbacks were called.

        The outcome of a record is that of its future; errors of records are not raised here.

        Args:
            timeout: seconds to wait; `None` for as long as it takes, which `delivery.timeout.ms` limits.

        Raises:
            KafkaTimeoutError: after `timeout`.
        """
        refuse_in_partitioner(self._queued, "flush")
        deadline = deadline_of(timeout)
        if not self._queued.wait(seconds_left(deadline)):
            raise KafkaTimeoutError(**late_flush(timeout, self._queued.trouble()))
        self._flush(seconds_left(deadline)).outcome()

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of a topic.

        Args:
            topic: the name of the topic.
            timeout: seconds to wait; `default.api.timeout.ms` if left out.

        Raises:
            KafkaTimeoutError: after `timeout`; the message has the last failure.
            UnknownTopicError: if the topic does not exist.
            ClosedError: if the producer is closed.
        """
        check_name(topic)
        operation = self._partitions_for(topic, timeout)
        with self._until_closed(operation):
            return operation.outcome()

    def close(self, timeout: float | None = None) -> None:
        """Deliver the records that were sent, then close the connections. May be called again.

        Calls of `send_batch` in other threads that wait for a schema registry fail with `ClosedError`.

        Args:
            timeout: seconds after which the futures of unfinished records fail with `ClosedError`; `None` for as long
                as it takes: `delivery.timeout.ms` bounds it.
        """
        refuse_in_partitioner(self._queued, "close")
        deadline = deadline_of(timeout)
        self._queued.wait(seconds_left(deadline))
        self._close_lookups()
        self._close(seconds_left(deadline)).outcome()
        self._queued.wait(QUEUED_SECONDS)


def written_as(key: Typed | None, value: Typed | None) -> "tuple[ColumnSpec | None, ColumnSpec | None]":
    """The core's form of `key=` and `value=`."""
    return spec_of("key", key), spec_of("value", value)


def _checked_form(column: str, given: object) -> "Form | None":
    """Refuse what is no form of keys or values."""
    if isinstance(given, Mapping):
        for topic, each in given.items():
            check_name(topic)
            if each is None:
                raise ArgumentError(f"the topic {topic} has None: leave out topics of bytes", argument=column)
            spec_of(column, each if not isinstance(each, Typed) or not each.is_of_registry else None)
        return dict(given)
    if given is not None and not isinstance(given, Typed):
        spec_of(column, given)
    return given if isinstance(given, Typed) else None


def check_name(topic: object) -> None:
    """Refuse a topic that is not a str. The core checks its characters."""
    if not isinstance(topic, str):
        raise ArgumentError(f"topic={topic!r} ({type(topic).__name__}): expected its name, a str")
    as_text("topic", topic)


def _encoded(data: Any) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    return data.encode() if isinstance(data, str) else bytes(data)
