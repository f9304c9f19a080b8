"""Tracing and metrics by OpenTelemetry. Needs the extra `otel` (opentelemetry-api).

    from monedula import otel

    producer = otel.Producer(settings, telemetry=otel.Telemetry(propagate=True))
    consumer = otel.Consumer(settings, topics=["orders"], headers=True)
    for record in consumer.records():
        with consumer.process(record):
            ...

The clients are monedula's, with spans and metrics by the semantic conventions for messaging; `conventions` has their
version and every name. The export of spans and metrics is up to the SDK that the program sets up. Programs that do not
import this module pay nothing for it.
"""

from monedula.otel import conventions as conventions
from monedula.otel.clients import (
    AsyncConsumer,
    AsyncProducer,
    AsyncShareConsumer,
    Consumer,
    Producer,
    ShareConsumer,
)
from monedula.otel.lag_gauges import Detail
from monedula.otel.telemetry import Telemetry

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "Consumer",
    "Detail",
    "Producer",
    "ShareConsumer",
    "Telemetry",
]
