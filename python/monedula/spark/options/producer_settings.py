"""A sink's options that begin with `kafka.`: which become producer settings, which are refused, which are ignored."""

from collections.abc import Mapping

from monedula._monedula import check_producer_settings
from monedula.spark.options.kafka_settings import given_settings, used_settings

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

# buffer.memory: Java's default, half of that of our producer, because an executor runs several producers.
_DEFAULTS = {"buffer.memory": "33554432", "client.id": CLIENT_ID}


def producer_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of our producer, by dotted name, from `options` (names in lower case)."""
    given = given_settings(options, _REFUSED, "producer")
    return used_settings(given, _LEFT_OUT, "sink", _DEFAULTS, check_producer_settings)
