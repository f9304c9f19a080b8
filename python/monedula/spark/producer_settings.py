"""A sink's options that begin with `kafka.`: which become producer settings, which are refused, which are ignored."""

import logging
from collections.abc import Mapping

from monedula._monedula import check_producer_settings
from monedula.config import HiddenValues
from monedula.spark.kafka_settings import PREFIX, check, given_settings, with_defaults

_LOGGER = logging.getLogger("monedula.spark")

CLIENT_ID = "spark-kafka-sink"
"""The `client.id`, if `kafka.client.id` is not given."""

# The first two in the order in which Spark's JVM sink checks them, with its messages.
_REFUSED = {
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": (
        "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer."
    ),
    "transactional.id": (
        "Kafka option 'transactional.id' is not supported: a sink writes at least once, without transactions"
    ),
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported: no class of Java can be run here",
}

# Settings that matter only to a producer in Java, as in jobs written for Spark's sink, or to a source with the same
# options.
_LEFT_OUT = {
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "group.remote.assignor",
    "max.poll.records",
    "metadata.max.idle.ms",
    "metric.reporters",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "security.providers",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "transaction.two.phase.commit.enable",
}
_LEFT_OUT_PREFIXES = ("metrics.",)

# buffer.memory: Java's default, half of that of our producer, because an executor runs several producers.
_DEFAULTS = {"buffer.memory": "33554432", "client.id": CLIENT_ID}


def producer_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of our producer, by dotted name, from `options` (names in lower case)."""
    given = given_settings(options, _REFUSED, "producer")
    left_out = {name for name in given if name in _LEFT_OUT or name.startswith(_LEFT_OUT_PREFIXES)}
    if left_out:
        names = ", ".join(PREFIX + name for name in sorted(left_out))
        _LOGGER.warning("options that this sink has no use for are left out: %s", names)
    used = HiddenValues((name, value) for name, value in given.items() if name not in left_out)
    settings = with_defaults(used, _DEFAULTS)
    check(settings, check_producer_settings)
    return settings
