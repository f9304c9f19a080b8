"""Names of OpenTelemetry's semantic conventions for messaging, in one table.

The conventions are in development: names change from version to version, and only this file has to follow.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

VERSION = "1.45.0"
"""Version of the conventions that define the names."""

SCHEMA_URL = f"https://opentelemetry.io/schemas/{VERSION}"

OPT_IN_VARIABLE = "OTEL_SEMCONV_STABILITY_OPT_IN"
"""Environment variable: with `messaging/dup` in it, renamed attributes get their earlier names, too."""


class Attribute(NamedTuple):
    """Name of an attribute."""

    name: str
    earlier: str | None = None
    """Name up to version 1.44, if that was another one."""


SYSTEM = Attribute("messaging.system.name", "messaging.system")
OPERATION_NAME = Attribute("messaging.operation.name")
OPERATION_TYPE = Attribute("messaging.operation.type")
DESTINATION = Attribute("messaging.destination.name")
PARTITION = Attribute("messaging.destination.partition.id")
GROUP = Attribute("messaging.consumer.group.name")
CLIENT_ID = Attribute("messaging.client.id")
MESSAGE_COUNT = Attribute("messaging.batch.message_count")
OFFSET = Attribute("kafka.offset", "messaging.kafka.offset")
KEY = Attribute("kafka.message.key", "messaging.kafka.message.key")
TOMBSTONE = Attribute("kafka.message.tombstone", "messaging.kafka.message.tombstone")
SERVER_ADDRESS = Attribute("server.address")
SERVER_PORT = Attribute("server.port")
ERROR_TYPE = Attribute("error.type")


class Operation(NamedTuple):
    """An operation: its name, with which the names of spans begin, and its type."""

    name: str
    type: str


SEND = Operation("send", "send")
POLL = Operation("poll", "receive")
PROCESS = Operation("process", "process")
COMMIT = Operation("commit", "settle")


class Instrument(NamedTuple):
    """A metric."""

    name: str
    unit: str
    description: str


OPERATION_DURATION = Instrument(
    "messaging.client.operation.duration",
    "s",
    "Duration of messaging operation initiated by a producer or consumer client.",
)
SENT_MESSAGES = Instrument(
    "messaging.client.sent.messages", "{message}", "Number of messages producer attempted to send to the broker."
)
CONSUMED_MESSAGES = Instrument(
    "messaging.client.consumed.messages", "{message}", "Number of messages that were delivered to the application."
)
PROCESS_DURATION = Instrument("messaging.process.duration", "s", "Duration of processing operation.")
LAG = Instrument(
    "monedula.consumer.lag",
    "{record}",
    "Offsets between the position and the end of the log, as of the last fetch.",
)
"""Monedula's own, as the conventions have no metric of the lag; so is the next one."""
FINISHED_LAG = Instrument(
    "monedula.consumer.finished_lag",
    "{record}",
    "Offsets between the first record that is not finished and the end of the log; only in a group.",
)
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The bounds that the conventions advise for durations."""

Value = str | int | bool
Values = Mapping[Attribute, Value | None]


class Namer:
    """Translation of attributes to their names, in the version that the environment selects."""

    def __init__(self) -> None:
        given = os.environ.get(OPT_IN_VARIABLE, "")
        self.duplicates = "messaging/dup" in (part.strip() for part in given.split(","))

    def named(self, values: Values) -> dict[str, Value]:
        """Return the values by name, without those that are `None`."""
        named: dict[str, Value] = {}
        for attribute, value in values.items():
            if value is None:
                continue
            named[attribute.name] = value
            if self.duplicates and attribute.earlier is not None:
                named[attribute.earlier] = value
        return named


NOTHING: Values = MappingProxyType({})
