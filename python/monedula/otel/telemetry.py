"""`Telemetry`: the spans and metrics of clients, and of the code that processes what they read."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from time import perf_counter, time_ns
from typing import Any, TypeVar, get_args

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

import monedula
from monedula._config.client_names import ClientNames, names_of
from monedula._monedula import Batch, ObservedFuture, Record, RecordMetadata
from monedula.errors import ArgumentError, KafkaError
from monedula.otel import conventions as c
from monedula.otel.lag_gauges import Detail, LagGauges
from monedula.types.reports import BatchReport

Handler = TypeVar("Handler", bound=Callable[..., Any])
Headers = list[tuple[str, bytes]]
What = Record | Batch | Sequence[Record]
"""Argument of `process`: a record, a batch, or several records."""


class Telemetry:
    """Tracing and measuring of clients; one object for all clients of a program, or one for each.

    Args:
        tracer_provider: makes the spans; OpenTelemetry's global one if left out.
        meter_provider: makes the metrics; OpenTelemetry's global one if left out.
        propagate: whether the context of the span is sent along in the headers of each record, in the form of the
            global propagator: `traceparent` and so on. Records that have such headers already keep them.
        parent: whether the span of a single record that is processed is a child of the span that sent it, and in its
            trace. Otherwise it only has a link to it, and so has the span of a batch in any case.
        max_links: the most links of a span.
        keys: whether the keys of single records become attributes. They are often personal data.
        detail: the attributes of the lag of consumers: `"client"` for none besides those of the client, `"topic"`, or
            `"partition"` for topic and partition. Each partition is then a time series of its own.

    Raises:
        ArgumentError: if `max_links` is negative, `detail` is none of these, or a provider is none.
    """

    def __init__(
        self,
        *,
        tracer_provider: "trace.TracerProvider | None" = None,
        meter_provider: "metrics.MeterProvider | None" = None,  # quoted, so that Sphinx can mock the package
        propagate: bool = False,
        parent: bool = False,
        max_links: int = 128,
        keys: bool = False,
        detail: Detail = "topic",
    ) -> None:
        if max_links < 0:
            raise ArgumentError(f"max_links={max_links}: expected 0 or more")
        if detail not in get_args(Detail):
            raise ArgumentError.of("detail", detail, f"expected one of {', '.join(map(repr, get_args(Detail)))}")
        _check_provider("tracer_provider", tracer_provider, "get_tracer", "TracerProvider")
        _check_provider("meter_provider", meter_provider, "get_meter", "MeterProvider")
        self.propagate = propagate
        self.parent = parent
        self.max_links = max_links
        self.keys = keys
        self.detail = detail
        self._namer = c.Namer()
        name, version = "monedula", monedula.__version__
        self.tracer = trace.get_tracer(name, version, tracer_provider, c.SCHEMA_URL)
        meter = metrics.get_meter(name, version, meter_provider, c.SCHEMA_URL)
        self._operation_duration = _histogram(meter, c.OPERATION_DURATION)
        self._process_duration = _histogram(meter, c.PROCESS_DURATION)
        self._sent_messages = meter.create_counter(*c.SENT_MESSAGES)
        self._consumed_messages = meter.create_counter(*c.CONSUMED_MESSAGES)
        self._lag_gauges = LagGauges.of(meter_provider)

    @contextmanager
    def process(self, what: What, consumer: object = None) -> Iterator[Span]:
        """A span for the processing of a record or of a batch, which is the current one inside of the block.

        It links to the spans that sent the records, as far as their headers say: the consumer has to read headers
        (`headers=True`). An exception that leaves the block is recorded and raised.

        Args:
            what: a record, a batch, or a list of records that a consumer returned.
            consumer: the consumer, from which the span gets the names of the group and the client.

        Yields:
            The span, for further attributes.
        """
        names = names_of(consumer)
        values = {**_common(c.PROCESS, names), **self._about(what)}
        named = self._namer.named(values)
        links, parent = self._links(what), None
        if self.parent and isinstance(what, Record) and links:
            parent, ambient = self._extract_record(what), trace.get_current_span().get_span_context()
            if ambient.is_valid:
                links.append(Link(ambient))
        span = self.tracer.start_span(_span_name(values), parent, SpanKind.CONSUMER, named, links)
        began = perf_counter()
        failed: BaseException | None = None
        token = attach(trace.set_span_in_context(span, parent if parent is not None else get_current()))
        try:
            yield span
        except BaseException as error:
            failed = error
            if isinstance(error, Exception):
                span.record_exception(error)
            raise
        finally:
            detach(token)
            self._end(span, failed)
            measured = {key: values.get(key) for key in _MEASURED}
            self._process_duration.record(perf_counter() - began, self._named_for_metric(measured, failed))

    def traced(self, handler: Handler, consumer: object = None) -> Handler:
        """Wrap a function whose first argument is a record or a batch: each call is a span, as by `process`.

        Args:
            handler: a function or a coroutine function, such as one that is given to `consumer.run()`.
            consumer: as of `process`.

        Returns:
            The wrapped function.
        """
        if iscoroutinefunction(handler):

            @wraps(handler)
            async def awaited(what: What, *arguments: Any, **keywords: Any) -> Any:
                with self.process(what, consumer):
                    return await handler(what, *arguments, **keywords)

            return awaited  # type: ignore[return-value]

        @wraps(handler)
        def called(what: What, *arguments: Any, **keywords: Any) -> Any:
            with self.process(what, consumer):
                return handler(what, *arguments, **keywords)

        return called  # type: ignore[return-value]

    def _begin_send(
        self, names: ClientNames, topic: object, headers: Any = None, more: c.Values = c.NOTHING
    ) -> "Sending":
        fields = propagate.get_global_textmap().fields
        given = _pairs(headers)
        own = None if given is None else [(key, value) for key, value in given if key in fields]
        values = {**_common(c.SEND, names), c.DESTINATION: topic if isinstance(topic, str) else None, **more}
        creates = self.propagate and given is not None and not own
        kind = SpanKind.PRODUCER if creates else SpanKind.CLIENT
        links = _link(self._extract(own)) if own else []
        span = self.tracer.start_span(_span_name(values), None, kind, self._namer.named(values), links)
        carrier: dict[str, str] = {}
        if creates:
            propagate.inject(carrier, trace.set_span_in_context(span))
        added = [(key, value.encode()) for key, value in carrier.items()]
        return Sending(self, span, values, added, [*(given or ()), *added] if added else headers)

    def _received(self, names: ClientNames, batch: Batch, began: "Began") -> None:
        values = {**_common(c.POLL, names), **self._about(batch), c.MESSAGE_COUNT: len(batch)}
        named = self._namer.named(values)
        span = self.tracer.start_span(
            _span_name(values), None, SpanKind.CLIENT, named, self._links(batch), start_time=began.at
        )
        span.end()
        measured = {key: values.get(key) for key in _MEASURED}
        self._operation_duration.record(began.seconds(), self._namer.named(measured))
        rows: dict[str, int] = {}
        for run in batch.spans:
            rows[run.topic] = rows.get(run.topic, 0) + run.rows
        for topic, count in rows.items():
            self._consumed_messages.add(count, self._namer.named({**measured, c.DESTINATION: topic}))

    def _record(self, operation: c.Operation, names: ClientNames, error: BaseException | None, began: "Began") -> None:
        values = _common(operation, names)
        named = self._namer.named(values)
        span = self.tracer.start_span(_span_name(values), None, SpanKind.CLIENT, named, start_time=began.at)
        self._end(span, error)
        measured = {key: values.get(key) for key in _MEASURED}
        self._operation_duration.record(began.seconds(), self._named_for_metric(measured, error))

    def _sent(self, sending: "Sending", count: int, error: BaseException | None, more: c.Values) -> None:
        if sending.span.is_recording():
            sending.span.set_attributes(self._namer.named(more))
        self._end(sending.span, error)
        measured = self._named_for_metric({key: sending.values.get(key) for key in _MEASURED}, error)
        self._operation_duration.record(sending.began.seconds(), measured)
        self._sent_messages.add(count, measured)

    def _named_for_metric(self, values: c.Values, error: BaseException | None) -> dict[str, c.Value]:
        return self._namer.named({**values, c.ERROR_TYPE: None if error is None else _error_type(error)})

    def _end(self, span: Span, error: BaseException | None) -> None:
        if error is not None and span.is_recording():
            span.set_attributes(self._namer.named({c.ERROR_TYPE: _error_type(error)}))
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()

    def _about(self, what: What) -> c.Values:
        if not isinstance(what, Record):
            of = what.spans if isinstance(what, Batch) else what
            topics = {each.topic for each in of}
            partitions = {(each.topic, each.partition) for each in of}
            return {
                c.DESTINATION: next(iter(topics)) if len(topics) == 1 else None,
                c.PARTITION: str(next(iter(partitions))[1]) if len(partitions) == 1 else None,
                c.MESSAGE_COUNT: len(what),
            }
        return {
            c.DESTINATION: what.topic,
            c.PARTITION: None if what.partition is None else str(what.partition),
            c.OFFSET: what.offset,
            c.KEY: self._key(what.key),
        }

    def _key(self, key: object) -> str | None:
        """Return the key of a record as an attribute, if enabled and if it is text."""
        if not self.keys:
            return None
        if isinstance(key, (bytes, bytearray)):
            try:
                return bytes(key).decode()
            except UnicodeDecodeError:
                return None
        return key if isinstance(key, str) else None

    def _links(self, what: What) -> list[Link]:
        if self.max_links == 0:
            return []
        if isinstance(what, Record):
            return _link(self._extract_record(what))
        links: dict[tuple[int, int], Link] = {}
        for carrier in self._carriers(what):
            for link in _link(self._extract(carrier)):
                links[link.context.trace_id, link.context.span_id] = link
            if len(links) >= self.max_links:
                break
        return list(links.values())

    def _carriers(self, what: Batch | Sequence[Record]) -> Iterable[Iterable[tuple[str, Any]]]:
        """Return the headers of each record; for a batch, each combination of headers that propagators read, once."""
        if not isinstance(what, Batch):
            return (record.headers or [] for record in what)
        names = sorted(propagate.get_global_textmap().fields - {"baggage"})
        found = what._header_values(names, self.max_links)
        return [[pair for pair in zip(names, values, strict=True) if pair[1] is not None] for values in found]

    def _extract_record(self, record: Record) -> Context:
        return self._extract(record.headers or [])

    def _extract(self, headers: Iterable[tuple[str, Any]]) -> Context:
        carrier: dict[str, str] = {}
        for key, value in headers:
            text = _text(value)
            if text is not None:
                carrier.setdefault(key, text)
        return propagate.extract(carrier, Context())


class Began:
    """Start time of an operation."""

    __slots__ = ("_counter", "at")

    def __init__(self) -> None:
        self.at = time_ns()
        self._counter = perf_counter()

    def seconds(self) -> float:
        """Return the seconds since then."""
        return perf_counter() - self._counter


class Sending:
    """A `send` or `send_batch` with a pending outcome."""

    __slots__ = ("_telemetry", "added", "began", "headers", "span", "values")

    def __init__(self, telemetry: Telemetry, span: Span, values: c.Values, added: Headers, headers: Any) -> None:
        self._telemetry = telemetry
        self.span = span
        self.values = values
        self.added = added
        """The headers with the context of the span."""
        self.headers = headers
        """The record's headers, including `added`."""
        self.began = Began()

    def refused(self, error: BaseException) -> None:
        """Record that the call raised an error."""
        self._telemetry._sent(self, 0, error, c.NOTHING)

    def done(self, observed: ObservedFuture) -> None:
        """Record the outcome."""
        outcome, error = observed.outcome()
        count, more = 1, c.NOTHING
        if isinstance(outcome, BatchReport):
            count, more = outcome.num_rows, {c.MESSAGE_COUNT: outcome.num_rows}
            error = outcome.errors[0].error if outcome.errors else error
        elif isinstance(outcome, RecordMetadata):
            more = {c.PARTITION: str(outcome.partition), c.OFFSET: outcome.offset}
        self._telemetry._sent(self, count, error, more)


_MEASURED = (c.OPERATION_NAME, c.OPERATION_TYPE, c.SYSTEM, c.DESTINATION, c.GROUP, c.SERVER_ADDRESS, c.SERVER_PORT)
"""Attributes of metrics besides the error: those with few different values."""


def _common(operation: c.Operation, names: ClientNames) -> dict[c.Attribute, c.Value | None]:
    address, port = names.server or (None, None)
    return {
        c.SYSTEM: "kafka",
        c.OPERATION_NAME: operation.name,
        c.OPERATION_TYPE: operation.type,
        c.CLIENT_ID: names.client_id,
        c.GROUP: names.group,
        c.SERVER_ADDRESS: address,
        c.SERVER_PORT: port,
    }


def _span_name(values: c.Values) -> str:
    destination = values.get(c.DESTINATION)
    return f"{values[c.OPERATION_NAME]} {destination}" if destination else str(values[c.OPERATION_NAME])


def _error_type(error: BaseException) -> str:
    code = error.code if isinstance(error, KafkaError) else None
    return code or type(error).__qualname__


def _link(context: Context) -> list[Link]:
    found = trace.get_current_span(context).get_span_context()
    return [Link(found)] if found.is_valid else []


def _text(value: object) -> str | None:
    if isinstance(value, (bytes, bytearray, memoryview)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return None
    return value if isinstance(value, str) else None


def _pairs(headers: Any) -> Sequence[tuple[Any, Any]] | None:
    """Return the pairs of a record's headers; `None` if they are invalid, which `send` will report."""
    if headers is None:
        return []
    if isinstance(headers, Mapping):
        return list(headers.items())
    if isinstance(headers, (list, tuple)) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in headers):
        return headers
    return None


def _histogram(meter: metrics.Meter, instrument: c.Instrument) -> metrics.Histogram:
    return meter.create_histogram(*instrument, explicit_bucket_boundaries_advisory=c.BUCKETS)


def _check_provider(name: str, provider: object, method: str, kind: str) -> None:
    if provider is not None and not callable(getattr(provider, method, None)):
        given = type(provider).__name__
        raise ArgumentError(f"{name}: expected a {kind} of OpenTelemetry, which has {method}(), not a {given}")
