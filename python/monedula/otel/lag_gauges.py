"""`LagGauges`: the lag of consumers as OpenTelemetry's observable gauges, computed when metrics are collected."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Literal
from weakref import WeakKeyDictionary, WeakValueDictionary

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

import monedula
from monedula.consumer._base import ConsumerBase, lag_of
from monedula.errors import ClosedError, ForkError
from monedula.otel import conventions as c

Detail = Literal["client", "topic", "partition"]
"""Attributes by which the lags of partitions are told apart."""


class LagGauges:
    """The gauges of one meter provider, over all its consumers: a meter has an instrument of a name once.

    No thread, no request to a broker, and no consumer is kept alive by them.
    """

    def __init__(self, provider: "metrics.MeterProvider | None") -> None:
        self._consumers: WeakValueDictionary[int, Any] = WeakValueDictionary()
        meter = metrics.get_meter("monedula", monedula.__version__, provider, c.SCHEMA_URL)
        for instrument, of in ((c.LAG, "position"), (c.FINISHED_LAG, "finished")):
            name, unit, description = instrument
            meter.create_observable_gauge(name, [self._observer(of)], unit, description)

    @classmethod
    def of(cls, provider: "metrics.MeterProvider | None") -> "LagGauges":
        """The gauges of a provider; of OpenTelemetry's global one, which may be set later, if it is `None`."""
        current = metrics.get_meter_provider()
        if provider is None or provider is current:
            found = _OF_GLOBAL.get(None) or _BY_PROVIDER.get(current) or cls(None)
            return _OF_GLOBAL.setdefault(None, found)
        if provider not in _BY_PROVIDER:
            _BY_PROVIDER[provider] = cls(provider)
        return _BY_PROVIDER[provider]

    def add(self, consumer: ConsumerBase) -> None:
        """Observe a consumer until it is closed."""
        self._consumers[id(consumer)] = consumer

    def _observer(self, of: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            # Of two observations with the same attributes one would be lost: they are summed up.
            sums: dict[tuple[tuple[str, c.Value], ...], int] = defaultdict(int)
            for consumer in [each() for each in self._consumers.valuerefs()]:
                for attributes, lag in _lags(consumer, of):
                    sums[attributes] += lag
            return [Observation(lag, dict(attributes)) for attributes, lag in sums.items()]

        return observe


_BY_PROVIDER: "WeakKeyDictionary[metrics.MeterProvider, LagGauges]" = WeakKeyDictionary()
_OF_GLOBAL: dict[None, LagGauges] = {}


def _lags(consumer: Any, of: str) -> Iterable[tuple[tuple[tuple[str, c.Value], ...], int]]:
    if consumer is None:
        return
    names, telemetry = consumer._names, consumer._telemetry
    common: dict[c.Attribute, c.Value | None] = {
        c.SYSTEM: "kafka",
        c.CLIENT_ID: names.client_id,
        c.GROUP: names.group,
    }
    try:
        partitions = consumer.health()["partitions"]
    except (ClosedError, ForkError):
        return
    for (topic, partition), status in partitions.items():
        lag = lag_of(status, of)
        if lag is not None:
            more = {
                c.DESTINATION: topic if telemetry.detail != "client" else None,
                c.PARTITION: str(partition) if telemetry.detail == "partition" else None,
            }
            yield tuple(telemetry._namer.named({**common, **more}).items()), lag
