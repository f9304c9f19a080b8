"""`Collector`: reads the figures of clients at each scrape by Prometheus."""

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Union, get_args
from weakref import WeakKeyDictionary, ref

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as PrometheusCollector

from monedula._config.client_names import names_of
from monedula.admin.calls import AdminBase
from monedula.consumer._base import ConsumerBase, lag_of
from monedula.errors import ArgumentError, ForkError
from monedula.producer.sync import ProducerBase
from monedula.prometheus import families
from monedula.prometheus.families import FAMILIES, OTHER_HELP, Role, value_of
from monedula.share._base import ShareConsumerBase

if TYPE_CHECKING:
    from monedula import (
        Admin,
        AsyncAdmin,
        AsyncConsumer,
        AsyncProducer,
        AsyncShareConsumer,
        Consumer,
        LandingJob,
        Producer,
        ShareConsumer,
    )
    from monedula.spark import LagListener

    Reader = Union[AsyncConsumer, AsyncShareConsumer, Consumer, LagListener, LandingJob, ShareConsumer]  # noqa: UP007 - quoted names
    Client = Union[Admin, AsyncAdmin, AsyncProducer, Producer, Reader]  # noqa: UP007 - quoted names

Detail = Literal["client", "topic", "partition"]
"""Labels by which the figures of partitions are told apart."""

CLIENT_LABELS = ("role", "client_id", "group")

Labels = tuple[str, ...]
Sums = dict[tuple[str, Labels], float]
"""Values by the name of the family and the values of its labels."""


class Collector(PrometheusCollector):
    """A collector for `prometheus_client`, over any number of clients.

    The collector reads `metrics()` and `health()` of each client at each scrape. It has no thread, sends no request,
    and keeps no client alive. Figures of clients with the same labels are summed up; of durations the longest counts.
    The counts of a client that was garbage-collected stay in the sums, as of the last scrape, so that no counter ever
    decreases. A forked process begins anew, without the clients of its parent.

    Args:
        clients: consumers, also of share groups, producers and admin clients, synchronous or for asyncio; a
            `LagListener` of Spark, whose
            queries are shown like consumers, with the role `spark` and the name of the query, or its id, as client id;
            and a `LandingJob`, which is shown as its consumer.
        detail: the labels of the figures of partitions: `"client"` for none besides those of the client, `"topic"`, or
            `"partition"` for topic and partition, which also adds positions and log end offsets. Each partition is
            then a time series of its own.

    Raises:
        ArgumentError: if `detail` is none of these, or a client is not one of monedula's.
    """

    def __init__(self, *clients: "Client", detail: Detail = "topic") -> None:
        _check_detail(detail)
        self.detail = detail
        self._begin()
        self.add(*clients)

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._clients: dict[int, tuple[ref[Any], Sums]] = {}
        self._gone: Sums = defaultdict(float)

    def add(self, *clients: "Client") -> None:
        """Read these clients too. Those that it reads already are not counted twice.

        Raises:
            ArgumentError: if one is not a client of monedula.
        """
        clients = tuple(map(_client_of, clients))
        for client in clients:
            if not _is_lag_listener(client):
                role_of(client)
        self._forget_parent()
        with self._lock:
            for client in clients:
                known = self._clients.get(id(client))
                if known is not None and known[0]() is not client:  # the id was that of another client, now gone
                    _add(self._gone, known[1])
                    known = None
                self._clients[id(client)] = known or (ref(client), {})

    def describe(self) -> Iterable[Metric]:
        """Return the families without values, by which a registry detects duplicate registrations."""
        return [_family(name, labels, {}) for name, labels in self._label_names().items()]

    def collect(self) -> Iterator[Metric]:
        """The current figures, by family."""
        self._forget_parent()
        with self._lock:
            counters, gauges = self._sums()
        values: dict[str, dict[Labels, float]] = defaultdict(dict)
        for (name, labels), value in (counters | gauges).items():
            values[name][labels] = value
        for name, label_names in self._label_names().items():
            if values[name]:
                yield _family(name, label_names, values[name])

    def _forget_parent(self) -> None:
        # Make a new lock: in a forked child, another thread of the parent may have held the old one.
        if self._process != os.getpid():
            self._begin()

    def _sums(self) -> tuple[Sums, Sums]:
        gauges: Sums = defaultdict(float)
        for key, (reference, last) in list(self._clients.items()):
            client = reference()
            if client is None:
                _add(self._gone, last)
                del self._clients[key]
                continue
            try:
                figures = _QueryFigures if _is_lag_listener(client) else _Figures
                seen = figures(client, self.detail)
            except ForkError:
                del self._clients[key]
                continue
            self._clients[key] = (reference, seen.counters)
            _combine(gauges, seen.gauges)
        counters: Sums = defaultdict(float, self._gone)
        for _, last in self._clients.values():
            _add(counters, last)
        return counters, gauges

    def _label_names(self) -> dict[str, Labels]:
        further = {"client": (), "topic": ("topic",), "partition": ("topic", "partition")}[self.detail]
        names: dict[str, Labels] = {family.name: CLIENT_LABELS for family in FAMILIES}
        for name in OTHER_HELP:
            if self.detail == "partition" or name not in (families.POSITION, families.LOG_END_OFFSET):
                names[name] = CLIENT_LABELS + further
        names[families.RETRIED_ERRORS] = (*CLIENT_LABELS, "error")
        names[families.GROUP_STATE] = (*CLIENT_LABELS, "state")
        return names


class _Figures:
    def __init__(self, client: Any, detail: Detail) -> None:
        role = role_of(client)
        metrics: Mapping[str, float] = client.metrics()
        health: Mapping[str, Any] = {} if role == "admin" else client.health()
        group = health.get("group")
        self.labels: Labels = (role, names_of(client).client_id, group["group_id"] if group else "")
        self.counters: Sums = {}
        self.gauges: Sums = defaultdict(float)
        for family in FAMILIES:
            value = value_of(family, metrics, health) if role in family.roles else None
            if value is not None:
                sums = self.counters if family.kind == "counter" else self.gauges
                sums[(family.name, self.labels)] = value
        for error, count in health.get("retried_errors", {}).items():
            self.counters[(families.RETRIED_ERRORS, (*self.labels, error))] = count
        if group:
            self.gauges[(families.GROUP_STATE, (*self.labels, group["state"]))] = 1.0
        for (topic, partition), status in health.get("partitions", {}).items():
            further = {"client": (), "topic": (topic,), "partition": (topic, str(partition))}[detail]
            self._add_partition(self.labels + further, status, detail)

    def _add_partition(self, labels: Labels, status: Mapping[str, Any], detail: Detail) -> None:
        figures = {
            families.STOPPED_PARTITIONS: status["error"] is not None,
            families.PAUSED_PARTITIONS: status["paused"],
            families.QUEUED_RECORDS: status["queued_records"],
            families.QUEUED_BYTES: status["queued_bytes"],
            families.LAG: lag_of(status, "position"),
            families.FINISHED_LAG: lag_of(status, "finished"),
        }
        if detail == "partition":
            figures |= {families.POSITION: status["position"], families.LOG_END_OFFSET: status["log_end_offset"]}
        for name, value in figures.items():
            if value is not None:
                self.gauges[(name, labels)] += value


class _QueryFigures:
    """Figures of the queries that a Spark listener observes, as of their last micro-batch."""

    def __init__(self, listener: "LagListener", detail: Detail) -> None:
        self.counters: Sums = {}
        self.gauges: Sums = defaultdict(float)
        for report in listener.reports.values():
            labels = ("spark", report.name or report.query_id, "")
            for (topic, partition), at in report.partitions.items():
                further = {"client": (), "topic": (topic,), "partition": (topic, str(partition))}[detail]
                figures = {families.LAG: at.lag}
                if detail == "partition":
                    figures |= {families.POSITION: at.end_offset, families.LOG_END_OFFSET: at.latest_offset}
                for name, value in figures.items():
                    if value is not None:
                        self.gauges[(name, labels + further)] += value


def _is_lag_listener(client: object) -> bool:
    """Return true for a Spark listener. If none was created, nothing of Spark is imported."""
    module = sys.modules.get("monedula.spark.listener")
    return module is not None and isinstance(client, module.LagListener)


def _client_of(given: Any) -> Any:
    """The consumer of a landing job, which has the job's figures too; anything else as it is."""
    module = sys.modules.get("monedula.landing.job")
    return given._consumer if module is not None and isinstance(given, module.LandingJob) else given


def role_of(client: object) -> Role:
    """Return the role of a client: it consumes, produces or administers."""
    if isinstance(client, ConsumerBase):
        return "consumer"
    if isinstance(client, ShareConsumerBase):
        return "share_consumer"
    if isinstance(client, ProducerBase):
        return "producer"
    if isinstance(client, AdminBase):
        return "admin"
    raise ArgumentError(f"{type(client).__name__} is not a consumer, a producer or an admin client of monedula")


_COUNTERS = {family.name for family in FAMILIES if family.kind == "counter"} | {families.RETRIED_ERRORS}
_HELP = {family.name: family.help for family in FAMILIES} | dict(OTHER_HELP)


def _family(name: str, label_names: Labels, values: Mapping[Labels, float]) -> Metric:
    kind = CounterMetricFamily if name in _COUNTERS else GaugeMetricFamily
    family = kind(name, _HELP[name], labels=label_names)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


_FIRST = {"monedula_certificate_expiry_timestamp_seconds"}
"""Gauges of which the smallest value is shown for clients with the same labels."""

_LARGEST = {family.name for family in FAMILIES if family.name.endswith(("_seconds", "_seconds_max"))} - _FIRST
"""Gauges of durations, of which the largest value is shown."""


def _combine(gauges: Sums, more: Sums) -> None:
    for key, value in more.items():
        if key[0] in _FIRST:
            gauges[key] = min(gauges.get(key, value), value)
        elif key[0] in _LARGEST:
            gauges[key] = max(gauges.get(key, value), value)
        else:
            gauges[key] = gauges.get(key, 0.0) + value


def _add(sums: Sums, more: Sums) -> None:
    for key, value in more.items():
        sums[key] = sums.get(key, 0.0) + value


_REGISTERED: "WeakKeyDictionary[CollectorRegistry, Collector]" = WeakKeyDictionary()
_REGISTERING = Lock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_REGISTERING.acquire, after_in_parent=_REGISTERING.release, after_in_child=_REGISTERING.release
    )


def watch(*clients: "Client", registry: CollectorRegistry = REGISTRY, detail: Detail | None = None) -> Collector:
    """Show the figures of these clients to Prometheus, in addition to those of earlier calls.

    A registry has one collector: however often this is called, in whichever process, no metric is there twice.

    Args:
        clients: consumers, producers and admin clients, synchronous or for asyncio, a `LagListener` of Spark, and a
            `LandingJob`. They are not kept alive.
        registry: where the collector is registered.
        detail: as of `Collector`; `"topic"` if left out. The first call for a registry decides.

    Returns:
        The collector of the registry.

    Raises:
        ArgumentError: if `detail` is none of these, or not that of an earlier call, or a client is not one of
            monedula's.
    """
    if detail is not None:
        _check_detail(detail)
    with _REGISTERING:
        collector = _REGISTERED.get(registry)
        if collector is None:
            collector = Collector(detail=detail or "topic")
            registry.register(collector)
            _REGISTERED[registry] = collector
    if detail is not None and detail != collector.detail:
        raise ArgumentError.of("detail", detail, f"an earlier call for this registry said {collector.detail!r}")
    collector.add(*clients)
    return collector


def _check_detail(detail: object) -> None:
    if detail not in get_args(Detail):
        raise ArgumentError.of("detail", detail, f"expected one of {', '.join(map(repr, get_args(Detail)))}")


def unwatch(registry: CollectorRegistry = REGISTRY) -> None:
    """Remove the collector of a registry; nothing happens if it has none."""
    with _REGISTERING:
        collector = _REGISTERED.pop(registry, None)
        if collector is not None:
            registry.unregister(collector)
