"""`monedula.otel`: spans, links, headers and metrics, as OpenTelemetry's own in-memory exporters see them."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import monedula
import polars
import pytest
from monedula import otel
from monedula.otel import conventions
from monedula.testing import Broker
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.trace import SpanKind, StatusCode


class Seen(NamedTuple):
    """What was exported, and the providers to give to `Telemetry`."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    tracer_provider: TracerProvider
    meter_provider: MeterProvider

    def telemetry(self, **options: Any) -> otel.Telemetry:
        return otel.Telemetry(tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, **options)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        (span,) = self.spans(name)
        return span

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        data = self.reader.get_metrics_data()
        return [
            (dict(point.attributes or {}), getattr(point, "value", None) or getattr(point, "count", None))
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def seen() -> Iterator[Seen]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracer_provider = TracerProvider(shutdown_on_exit=False)
    tracer_provider.add_span_processor(SimpleSpanProcessor(exporter))
    meter_provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    yield Seen(exporter, reader, tracer_provider, meter_provider)
    tracer_provider.shutdown()
    meter_provider.shutdown()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W", "-", request.node.name)
    broker.create_topic(name, 1)
    return name


def context_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def traceparent(span: ReadableSpan) -> bytes:
    assert span.context is not None
    context = span.context
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}".encode()


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def sent_headers(broker: Broker, topic: str) -> list[list[tuple[str, bytes | None]] | None]:
    stream = monedula.read({"bootstrap.servers": broker.bootstrap_servers}, topic, headers=True)
    return [record.headers for batch in stream for record in batch.records()]


def reader(broker: Broker, topic: str, telemetry: otel.Telemetry | None, **settings: Any) -> otel.Consumer:
    return otel.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest", **settings},
        topics=topic,
        headers=True,
        telemetry=telemetry,
    )


def test_a_send_has_a_span_until_it_is_acknowledged(broker: Broker, topic: str, seen: Seen) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop"}
    with otel.Producer(settings, telemetry=seen.telemetry()) as producer:
        producer.send(topic, b"value", key="a customer").result()
    span = seen.span(f"send {topic}")
    host, _, port = broker.bootstrap_servers.rpartition(":")
    assert span.kind is SpanKind.CLIENT  # the records do not carry its context
    assert span.status.status_code is StatusCode.UNSET
    assert attributes(span) == {
        "messaging.system.name": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "shop",
        "kafka.offset": 0,
        "server.address": host,
        "server.port": int(port),
    }
    scope = span.instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.version, scope.schema_url) == (
        "monedula",
        monedula.__version__,
        "https://opentelemetry.io/schemas/1.45.0",
    )
    assert sent_headers(broker, topic) == [None]


def test_headers_carry_the_context_only_if_asked(broker: Broker, topic: str, seen: Seen) -> None:
    with otel.Producer(
        {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(propagate=True)
    ) as producer:
        producer.send(topic, b"value")
        producer.send(topic, b"value", headers=[("kept", b"1")])
        producer.send(topic, b"value", headers={"kept": b"1"})
    spans = seen.spans(f"send {topic}")
    headers = sent_headers(broker, topic)
    assert [found and found[-1] for found in headers] == [("traceparent", traceparent(span)) for span in spans]
    assert [found and found[:-1] for found in headers] == [[], [("kept", b"1")], [("kept", b"1")]]
    assert {span.kind for span in spans} == {SpanKind.PRODUCER}


def test_a_context_that_a_record_has_already_is_kept_and_linked(broker: Broker, topic: str, seen: Seen) -> None:
    own = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    with otel.Producer(
        {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(propagate=True)
    ) as producer:
        producer.send(topic, b"value", headers=[own])
    assert sent_headers(broker, topic) == [[own]]
    span = seen.span(f"send {topic}")
    assert span.kind is SpanKind.CLIENT
    assert linked(span) == [(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)]


def test_a_table_has_one_span_with_the_number_of_its_rows(broker: Broker, topic: str, seen: Seen) -> None:
    frame = polars.DataFrame({"value": ["a", "b", "c"]})
    with otel.Producer(
        {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(propagate=True)
    ) as producer:
        producer.send_batch(frame, topic).result()
    span = seen.span(f"send {topic}")
    assert attributes(span)["messaging.batch.message_count"] == 3
    assert span.kind is SpanKind.PRODUCER
    assert sent_headers(broker, topic) == [[("traceparent", traceparent(span))]] * 3
    assert seen.points("messaging.client.sent.messages")[0][1] == 3


def test_rows_with_headers_get_the_context_besides_unless_they_have_one(broker: Broker, topic: str, seen: Seen) -> None:
    pair = polars.Struct({"key": polars.String, "value": polars.Binary})
    own = {"key": "traceparent", "value": b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    frame = polars.DataFrame(
        {"value": ["a", "b", "c"], "headers": [[{"key": "kept", "value": b"1"}], None, [own]]},
        schema_overrides={"headers": polars.List(pair)},
    )
    with otel.Producer(
        {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(propagate=True)
    ) as producer:
        producer.send_batch(frame, topic).result()
    names = [[name for name, _ in headers or ()] for headers in sent_headers(broker, topic)]
    assert names == [["kept", "traceparent"], ["traceparent"], ["traceparent"]]
    assert (sent_headers(broker, topic)[2] or [])[0] == ("traceparent", own["value"])


@pytest.mark.parametrize("name", ["tracer_provider", "meter_provider"])
def test_a_provider_that_is_none_is_refused_when_it_is_given(seen: Seen, name: str) -> None:
    wrong: Any = trace.get_tracer("not a provider") if name == "tracer_provider" else seen.reader
    with pytest.raises(monedula.ArgumentError, match=f"{name}: expected a .*Provider of OpenTelemetry"):
        otel.Telemetry(**{name: wrong})


def test_a_failed_send_says_why(broker: Broker, topic: str, seen: Seen) -> None:
    broker.fault(api="Produce", error="INVALID_RECORD", topic=topic, count=1)
    with otel.Producer({"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry()) as producer:
        future = producer.send(topic, b"value")
        assert isinstance(future.exception(), monedula.errors.InvalidRecordError)
        with pytest.raises(monedula.ArgumentError):
            producer.send(topic, b"value", timestamp=-2)
    failed, refused = seen.spans(f"send {topic}")
    assert failed.status.status_code is StatusCode.ERROR
    assert {attributes(failed)["error.type"], attributes(refused)["error.type"]} == {"INVALID_RECORD", "ArgumentError"}
    errors = {found.get("error.type") for found, _ in seen.points("messaging.client.operation.duration")}
    assert errors == {"INVALID_RECORD", "ArgumentError"}


def test_a_failure_that_only_telemetry_saw_is_raised_at_the_end(broker: Broker, topic: str, seen: Seen) -> None:
    broker.fault(api="Produce", error="INVALID_RECORD", topic=topic, count=2)
    with (
        pytest.raises(monedula.errors.UndeliveredRecordsError, match="a record was not"),
        otel.Producer({"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry()) as producer,
    ):
        producer.send(topic, b"value")
    with (
        pytest.raises(monedula.errors.UndeliveredRecordsError, match="2 records were not"),
        otel.Producer({"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry()) as producer,
    ):
        producer.send_batch(polars.DataFrame({"value": ["a", "b"]}), topic)
    assert len(seen.spans(f"send {topic}")) == 2


def test_a_batch_has_a_span_with_links_to_those_that_sent_it(broker: Broker, topic: str, seen: Seen) -> None:
    with otel.Producer(
        {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(propagate=True)
    ) as producer:
        producer.send(topic, b"value").result()
        producer.send_batch(polars.DataFrame({"value": ["a", "b"]}), topic).result()
    with reader(broker, topic, seen.telemetry()) as consumer:
        for batch in consumer.batches(max_wait=0.5):
            assert len(batch) == 3
            with consumer.process(batch):
                pass
            consumer.commit()
            break
    sent = [context_of(span) for span in seen.spans(f"send {topic}")]
    polled, processed = seen.span(f"poll {topic}"), seen.span(f"process {topic}")
    assert (polled.kind, processed.kind) == (SpanKind.CLIENT, SpanKind.CONSUMER)
    assert linked(polled) == linked(processed) == sent  # the two rows of the table have the same context
    assert polled.parent is None
    expected = {
        "messaging.operation.name": "poll",
        "messaging.operation.type": "receive",
        "messaging.batch.message_count": 3,
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": topic,
    }
    assert expected.items() <= attributes(polled).items()
    assert attributes(seen.span("commit"))["messaging.operation.type"] == "settle"
    assert [value for _, value in seen.points("messaging.client.consumed.messages")] == [3]


def test_links_end_at_the_limit(broker: Broker, topic: str, seen: Seen) -> None:
    with otel.Producer(
        {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(propagate=True)
    ) as producer:
        for _ in range(5):
            producer.send(topic, b"value")
    for limit in (2, 0):
        with reader(broker, topic, seen.telemetry(max_links=limit), **{"group.id": f"{topic}{limit}"}) as consumer:
            assert len(next(iter(consumer.batches(max_wait=0.5)))) == 5
    assert [len(span.links) for span in seen.spans(f"poll {topic}")] == [2, 0]


@pytest.mark.parametrize("parent", [False, True])
def test_a_record_has_a_span_while_it_is_processed(broker: Broker, topic: str, seen: Seen, parent: bool) -> None:
    tracer = seen.tracer_provider.get_tracer("test")
    with otel.Producer(
        {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(propagate=True)
    ) as producer:
        producer.send(topic, b"value").result()
    with reader(broker, topic, seen.telemetry(parent=parent)) as consumer:
        for record in consumer.records():
            with (
                tracer.start_as_current_span("ambient"),
                consumer.process(record),
                tracer.start_as_current_span("inside"),
            ):
                break
    sent, ambient = context_of(seen.span(f"send {topic}")), context_of(seen.span("ambient"))
    span, inside = seen.span(f"process {topic}"), seen.span("inside")
    assert attributes(span)["kafka.offset"] == 0
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (sent if parent else ambient)
    assert linked(span) == ([sent, ambient] if parent else [sent])
    assert inside.parent is not None
    assert (inside.parent.trace_id, inside.parent.span_id) == context_of(span)
    assert seen.spans(f"poll {topic}") == []  # records that are read ahead are not received yet


def test_several_records_have_one_span_with_links(broker: Broker, topic: str, seen: Seen) -> None:
    """As `consumer.run(handler, batch_size=...)` hands them over."""
    with otel.Producer(
        {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(propagate=True)
    ) as producer:
        for _ in range(3):
            producer.send(topic, b"value")
    with reader(broker, topic, seen.telemetry(max_links=2)) as consumer:
        records = list(islice(consumer.records(), 3))
        assert consumer.traced(len)(records) == 3
    span = seen.span(f"process {topic}")
    assert attributes(span)["messaging.batch.message_count"] == 3
    assert linked(span) == [context_of(sent) for sent in seen.spans(f"send {topic}")][:2]


def test_an_exception_in_the_processing_is_in_its_span(broker: Broker, topic: str, seen: Seen) -> None:
    broker.append(topic, [("key", "value")])
    with reader(broker, topic, seen.telemetry()) as consumer:

        @consumer.traced
        def handle(record: monedula.Record) -> None:
            raise ZeroDivisionError(record.offset)

        with pytest.raises(ZeroDivisionError):
            handle(next(consumer.records()))
    span = seen.span(f"process {topic}")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "ZeroDivisionError"
    assert [event.name for event in span.events] == ["exception"]
    ((measured, count),) = seen.points("messaging.process.duration")
    assert (measured["error.type"], count) == ("ZeroDivisionError", 1)


def test_keys_are_shown_only_if_asked(broker: Broker, topic: str, seen: Seen) -> None:
    for keys in (False, True):
        with otel.Producer(
            {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(keys=keys)
        ) as producer:
            producer.send(topic, b"value", key="a customer")
    shown = [attributes(span).get("kafka.message.key") for span in seen.spans(f"send {topic}")]
    assert shown == [None, "a customer"]
    with reader(broker, topic, seen.telemetry()) as consumer, consumer.process(next(consumer.records())):
        pass
    assert "a customer" not in str(attributes(seen.span(f"process {topic}")))


def test_a_failed_poll_has_a_span_and_an_empty_one_has_none(broker: Broker, topic: str, seen: Seen) -> None:
    with reader(broker, topic, seen.telemetry()) as consumer:
        assert len(consumer.poll(0.0)) == 0
        assert seen.exporter.get_finished_spans() == ()
        consumer.close()
        with pytest.raises(monedula.errors.ClosedError):
            consumer.poll()
    assert attributes(seen.span("poll"))["error.type"] == "ClosedError"


async def test_the_clients_for_asyncio_have_the_same_spans(broker: Broker, topic: str, seen: Seen) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    tracer = seen.tracer_provider.get_tracer("test")
    async with otel.AsyncProducer(
        {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(propagate=True)
    ) as producer:
        with tracer.start_as_current_span("ambient"):
            await producer.send(topic, b"value")
            await producer.send_batch(polars.DataFrame({"value": ["a", "b"]}), topic)
    async with otel.AsyncConsumer(settings, topics=topic, headers=True, telemetry=seen.telemetry()) as consumer:

        @consumer.traced
        async def handle(batch: monedula.Batch) -> int:
            await asyncio.sleep(0)
            return len(batch)

        async for batch in consumer.batches(max_wait=0.5):
            assert await handle(batch) == 3
            await consumer.commit()
            break
        assert len(await consumer.poll(0.0)) == 0
    ambient, sent = context_of(seen.span("ambient")), seen.spans(f"send {topic}")
    assert [span.parent and (span.parent.trace_id, span.parent.span_id) for span in sent] == [ambient, ambient]
    assert linked(seen.span(f"poll {topic}")) == [context_of(span) for span in sent]
    assert linked(seen.span(f"process {topic}")) == [context_of(span) for span in sent]
    assert len(seen.spans("commit")) == 1


@pytest.fixture
def share_group(broker: Broker, topic: str) -> dict[str, Any]:
    """Settings of a member of a share group that reads from the start."""
    with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_configs({("group", topic): {"share.auto.offset.reset": "earliest"}})
    return {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic}


def test_share_consumers_have_the_same_spans(
    broker: Broker, topic: str, seen: Seen, share_group: dict[str, Any]
) -> None:
    with otel.Producer(
        {"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry(propagate=True)
    ) as producer:
        producer.send(topic, b"value").result()
    with otel.ShareConsumer(share_group, topics=topic, headers=True, telemetry=seen.telemetry()) as consumer:
        consumer.run(consumer.traced(lambda record: record.value), timeout=1.0)
        assert len(seen.spans("poll")) == 0, "a run has spans of its handler alone"
        broker.append(topic, ["another", "third"])
        assert len(consumer.poll(5.0)) == 2
        assert sum(consumer.commit().values()) == 2
        broker.append(topic, ["last"])
        assert [record.value for record in consumer.records(timeout=1.0)] == [b"last"]
    sent = context_of(seen.spans(f"send {topic}")[0])
    assert linked(seen.span(f"process {topic}")) == [sent]
    assert attributes(seen.span(f"process {topic}"))["messaging.consumer.group.name"] == topic
    assert attributes(seen.span(f"poll {topic}"))["messaging.batch.message_count"] == 2
    assert len(seen.spans("commit")) == 1


async def test_share_consumers_for_asyncio_have_the_same_spans(
    broker: Broker, topic: str, seen: Seen, share_group: dict[str, Any]
) -> None:
    broker.append(topic, ["a", "b"])
    async with otel.AsyncShareConsumer(share_group, topics=topic, telemetry=seen.telemetry()) as consumer:
        assert len(await consumer.poll(5.0)) == 2
        await consumer.commit()
        broker.append(topic, ["c"])
        assert [record.value async for record in consumer.records(timeout=1.0)] == [b"c"]
    assert attributes(seen.span(f"poll {topic}"))["messaging.batch.message_count"] == 2
    assert len(seen.spans("commit")) == 1


def test_durations_are_measured_in_seconds_with_the_advised_buckets(broker: Broker, topic: str, seen: Seen) -> None:
    with otel.Producer({"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry()) as producer:
        producer.send(topic, b"value").result()
    data = seen.reader.get_metrics_data()
    assert data is not None
    found = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    duration = found["messaging.client.operation.duration"]
    point: Any = duration.data.data_points[0]
    assert (duration.unit, tuple(point.explicit_bounds), point.count) == ("s", conventions.BUCKETS, 1)
    assert 0 < point.sum < 60


@pytest.mark.parametrize(
    ("opted", "earlier"), [("", False), ("messaging", False), ("http/dup", False), ("http, messaging/dup", True)]
)
def test_earlier_names_are_added_only_if_the_environment_asks(
    broker: Broker, topic: str, seen: Seen, monkeypatch: pytest.MonkeyPatch, opted: str, earlier: bool
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", opted)
    with otel.Producer({"bootstrap.servers": broker.bootstrap_servers}, telemetry=seen.telemetry()) as producer:
        producer.send(topic, b"value").result()
    shown = attributes(seen.span(f"send {topic}"))
    assert shown["messaging.system.name"] == "kafka"
    assert (shown.get("messaging.system"), shown.get("messaging.kafka.offset")) == (
        ("kafka", 0) if earlier else (None, None)
    )


def test_names_are_those_of_the_conventions() -> None:
    """Of those that were renamed in 1.45, which the SDK's package does not have yet, the earlier ones."""
    known = {value for name, value in vars(messaging_attributes).items() if name.isupper()}
    known |= {"server.address", "server.port", "error.type"}
    attributes = [value for value in vars(conventions).values() if isinstance(value, conventions.Attribute)]
    names = [attribute.earlier or attribute.name for attribute in attributes]
    assert len(names) >= 14
    assert [name for name in names if name not in known] == []
    metrics = {value for name, value in vars(messaging_metrics).items() if name.isupper()}
    assert {found.name for found in (conventions.OPERATION_DURATION, conventions.SENT_MESSAGES)} <= metrics
    assert {found.name for found in (conventions.CONSUMED_MESSAGES, conventions.PROCESS_DURATION)} <= metrics


def test_a_program_that_does_not_import_it_does_not_load_opentelemetry() -> None:
    program = "import sys, monedula; monedula.Producer, monedula.Consumer; print('opentelemetry' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.strip() == "False"


def test_without_an_sdk_nothing_is_made_and_records_arrive(broker: Broker, topic: str) -> None:
    telemetry = otel.Telemetry(tracer_provider=trace.NoOpTracerProvider(), meter_provider=None, propagate=True)
    with otel.Producer({"bootstrap.servers": broker.bootstrap_servers}, telemetry=telemetry) as producer:
        producer.send(topic, b"value").result()
    assert sent_headers(broker, topic) == [None]
    with reader(broker, topic, telemetry) as consumer:
        assert len(next(iter(consumer.batches()))) == 1


def lags(seen: Seen) -> dict[str, dict[tuple[str | None, str | None], int]]:
    """The lag gauges by their names, and the values of each by topic and partition."""
    names = (conventions.LAG.name, conventions.FINISHED_LAG.name)
    data = seen.reader.get_metrics_data()
    found = [
        metric
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name in names
    ]
    assert {metric.unit for metric in found} <= {"{record}"}
    points: dict[str, dict[tuple[str | None, str | None], int]] = {}
    for metric in found:
        of_metric = points.setdefault(metric.name.rpartition(".")[2], {})
        for point in metric.data.data_points:
            given: Any = dict(point.attributes or {})
            place = (given.get("messaging.destination.name"), given.get("messaging.destination.partition.id"))
            assert place not in of_metric
            of_metric[place] = getattr(point, "value", 0)
    return points


@pytest.mark.parametrize("detail", ["client", "topic", "partition"])
def test_the_lag_is_that_of_the_consumer_and_of_its_group(broker: Broker, seen: Seen, detail: Any) -> None:
    name = f"lag-of-{detail}"
    broker.create_topic(name, 2)
    for partition in range(2):
        broker.append(name, [str(number) for number in range(10)], partition=partition)
    telemetry = seen.telemetry(detail=detail)

    def expected(lag: dict[monedula.TopicPartition, int | None]) -> dict[tuple[str | None, str | None], int]:
        sums: dict[tuple[str | None, str | None], int] = {}
        for (topic, partition), value in lag.items():
            place = (topic if detail != "client" else None, str(partition) if detail == "partition" else None)
            if value is not None:
                sums[place] = sums.get(place, 0) + value
        return sums

    with reader(broker, name, telemetry, **{"enable.auto.commit": False}) as consumer:
        taken = 0
        while taken < 7:
            taken += len(consumer.poll(10.0, max_rows=7 - taken))
        while None in consumer.lag().values():
            pass  # the other partition is being fetched
        shown = lags(seen)
        assert shown["lag"] == expected(consumer.lag())
        assert shown["finished_lag"] == expected(consumer.lag(of="finished"))
        assert sum(shown["lag"].values()) < sum(shown["finished_lag"].values())
        consumer.commit()
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            told = {place: each.lag for place, each in admin.group_lag(name).items() if each.lag is not None}
        of_group = expected(consumer.lag(of="finished"))
        assert lags(seen)["finished_lag"] == of_group
        assert sum(of_group.values()) == 13
        assert told == {place: lag for place, lag in consumer.lag(of="finished").items() if place in told}
    assert lags(seen) == {}  # a closed consumer has no partitions


def test_consumers_with_the_same_attributes_are_summed_up_and_a_provider_has_each_gauge_once(
    broker: Broker, topic: str, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    broker.append(topic, ["1", "2", "3"])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
    with (
        otel.Consumer(settings, telemetry=seen.telemetry()) as first,
        otel.Consumer(settings, telemetry=seen.telemetry()) as second,
    ):
        for consumer in (first, second):
            consumer.assign([(topic, 0)])
            assert len(consumer.poll(10.0, max_rows=1)) == 1
        assert lags(seen) == {"lag": {(topic, None): 4}}
    assert caplog.records == []


def test_the_global_provider_may_be_set_after_the_consumer_is_made(broker: Broker) -> None:
    program = f"""
from monedula import otel
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

settings = {{"bootstrap.servers": {broker.bootstrap_servers!r}, "auto.offset.reset": "earliest"}}
first = otel.Consumer(settings)
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
second = otel.Consumer(settings, telemetry=otel.Telemetry(meter_provider=metrics.get_meter_provider()))
for consumer in (first, second):
    consumer.assign("global")
    assert len(consumer.poll(10.0, max_rows=1)) == 1
(scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
(lag,) = [metric for metric in scope.metrics if metric.name == "monedula.consumer.lag"]
print([point.value for point in lag.data.data_points])
first.close()
second.close()
"""
    broker.create_topic("global", 1)
    broker.append("global", ["1", "2", "3"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "[4]\n"), done.stderr


def test_a_detail_that_is_none_is_refused() -> None:
    with pytest.raises(monedula.ArgumentError, match="detail='topics': expected one of 'client', 'topic', 'partition'"):
        otel.Telemetry(detail="topics")  # type: ignore[arg-type]
