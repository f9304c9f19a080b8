"""What clients pushed (KIP-714), read by OpenTelemetry's own decoder."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, NamedTuple

import monedula
from monedula.testing import Broker, PushedMetrics
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA


class Point(NamedTuple):
    """A value of a metric."""

    value: float
    is_sum: bool
    is_delta: bool
    start: int
    end: int
    unit: str
    attributes: dict[str, str]


class Decoded(NamedTuple):
    """A push: values by name, and what describes the client."""

    points: dict[str, Point]
    attributes: dict[str, str]


def decoded(payload: bytes) -> Decoded:
    """Decode a payload."""
    points: dict[str, Point] = {}
    attributes: dict[str, str] = {}
    data = MetricsData()
    data.ParseFromString(payload)
    for resource in data.resource_metrics:
        attributes |= {pair.key: pair.value.string_value for pair in resource.resource.attributes}
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                assert kind in ("gauge", "sum"), metric.name
                holder = metric.sum if kind == "sum" else metric.gauge
                for point in holder.data_points:
                    value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
                    is_delta = kind == "sum" and metric.sum.aggregation_temporality == DELTA
                    points[metric.name] = Point(
                        float(value),
                        kind == "sum",
                        is_delta,
                        point.start_time_unix_nano,
                        point.time_unix_nano,
                        metric.unit,
                        {pair.key: pair.value.string_value for pair in point.attributes},
                    )
    return Decoded(points, attributes)


def total(pushes: Iterable[PushedMetrics], name: str) -> float:
    """The sum of the deltas of a metric."""
    return sum(found[name].value for push in pushes if name in (found := decoded(push.metrics).points))


def eventually(met: Callable[[], Any], what: str, timeout: float = 30.0) -> Any:
    """Ask until the answer is true, and return it."""
    until = monotonic() + timeout
    while not (answer := met()):
        assert monotonic() < until, f"{what}: not within {timeout} s"
        sleep(0.02)
    return answer


@contextmanager
def receiver(
    metrics: str | None = "*", interval_ms: int = 100, match: str = "", **options: Any
) -> Iterator[tuple[Broker, dict[str, str]]]:
    """An embedded broker that asks for metrics, and the settings of its clients."""
    with Broker(topics={"orders": 2}, client_metrics=True, **options) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        if metrics is not None:
            subscribe(settings, "all", metrics, interval_ms, match)
        yield broker, settings


def subscribe(settings: dict[str, str], name: str, metrics: str, interval_ms: int = 100, match: str = "") -> None:
    """Ask clients for metrics."""
    wanted: dict[str, str | int | None] = {"metrics": metrics, "interval.ms": interval_ms, "match": match or None}
    with monedula.Admin(settings) as admin:
        admin.alter_configs({("client_metrics", name): wanted})
