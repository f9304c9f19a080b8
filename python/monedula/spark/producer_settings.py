"""Options of a sink that begin with `kafka.`: what of them goes to the producer, what is refused, what is left out."""

import logging
from collections.abc import Mapping

from monedula._monedula import check_producer_settings
from monedula.errors import ConfigError
from monedula.spark.kafka_settings import PREFIX, given_settings, kafka_error, with_defaults

_LOGGER = logging.getLogger("monedula.spark")

CLIENT_ID = "spark-kafka-sink"
"""The name that brokers see, unless `kafka.client.id` gives another."""

# In the order in which Spark's JVM sink looks for the first two, and with its words.
_REFUSED = {
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": (
        "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer."
    ),
    "transactional.id": (
        "Kafka option 'transactional.id' is not supported: a sink writes at least once, without transactions"
    ),
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported: no class of Java can be run here",
    "sasl.jaas.config": "Kafka option 'sasl.jaas.config' is not supported yet: this version has no SASL",
}

# What only a producer in Java has a use for: jobs that worked with Spark's sink bring it along. And what a source
# of the same options may have.
_LEFT_OUT = {
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "config.providers",
    "enable.metrics.push",
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

# Java's default, and half of our producer's: executors run several.
_DEFAULTS = {"buffer.memory": "33554432", "client.id": CLIENT_ID}


def producer_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Settings for our producer, by dotted name, out of `options` (names in lower case).

    Raises:
        ConfigError: if there is a setting that a sink cannot leave to its user, or that the producer refuses, or if
            there are no `bootstrap.servers`.
    """
    given = given_settings(options, _REFUSED, "producer")
    left_out = {name for name in given if name in _LEFT_OUT or name.startswith(_LEFT_OUT_PREFIXES)}
    if left_out:
        names = ", ".join(PREFIX + name for name in sorted(left_out))
        _LOGGER.warning("options that this sink has no use for are left out: %s", names)
    settings = with_defaults({name: value for name, value in given.items() if name not in left_out}, _DEFAULTS)
    try:
        check_producer_settings(list(settings.items()))
    except ConfigError as error:
        raise kafka_error(error) from None
    return settings
