"""Options that begin with `kafka.`: which become settings of our consumer, which are refused, which are ignored."""

import logging
import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches

from monedula._config.providers import PROVIDERS, resolved
from monedula._monedula import check_settings
from monedula.config import HiddenValues, RawSettings, config_keys, refuse_foreign
from monedula.errors import ConfigError
from monedula.spark.options.shipped import located, shipped

_LOGGER = logging.getLogger("monedula.spark")

PREFIX = "kafka."

_AUTO_OFFSET_RESET = (
    "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingoffsets' to 'earliest' "
    "or 'latest' to specify where to start. Structured Streaming manages which offsets are consumed internally, rather "
    "than relying on the kafkaConsumer to do it. This will ensure that no data is missed when new topics/partitions "
    "are dynamically subscribed. Note that 'startingoffsets' only applies when a new Streaming query is started, and "
    "that resuming will always pick up from where the query left off. See the docs for more details."
)
_DESERIALIZER = (
    "Kafka option '{0}.deserializer' is not supported as {0}s are deserialized as byte arrays with "
    "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the {0}s."
)
# In the order in which Spark's JVM source checks them, with its messages.
_REFUSED = {
    "auto.offset.reset": _AUTO_OFFSET_RESET,
    "key.deserializer": _DESERIALIZER.format("key"),
    "value.deserializer": _DESERIALIZER.format("value"),
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}

# Settings that matter only to a Java consumer or to a group member. Jobs written for Spark's source may have them.
_LEFT_OUT = {
    "auto.commit.interval.ms",
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "exclude.internal.topics",
    "group.id",
    "group.initial.rebalance.delay.ms",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.moves.per.round",
    "max.poll.interval.ms",
    "max.poll.records",
    "metric.reporters",
    "partition.assignment.strategy",
    "retries",
    "round.interval.ms",
    "scheduled.rebalance.max.delay.ms",
    "send.buffer.bytes",
    "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
}

_GROUP_ID = (
    "Kafka option 'kafka.group.id' has been set on this query, it is not recommended to set this option. It does "
    "nothing here: partitions are assigned, and the source is no member of a group."
)

_DEFAULTS = {"isolation.level": "read_uncommitted", "queued.max.bytes": "33554432"}


def kafka_settings(options: Mapping[str, str], client_id: str) -> dict[str, str]:
    """The settings of our consumer, by dotted name, from `options` (names in lower case)."""
    given = given_settings(options, _REFUSED, "consumer")
    if "group.id" in given:
        _LOGGER.warning(_GROUP_ID)
        if "groupidprefix" in options:
            _LOGGER.warning("Option groupIdPrefix will be ignored as option kafka.group.id has been set.")
    return used_settings(given, _LEFT_OUT, "source", {**_DEFAULTS, "client.id": client_id}, check_settings)


def given_settings(options: Mapping[str, str], refused: Mapping[str, str], client: str) -> dict[str, str]:
    """The options that begin with `kafka.`, by the dotted names of the settings.

    Args:
        options: all options, names in lower case.
        refused: the settings that are not allowed, with the error message of each.
        client: the client that they configure, consumer or producer, for the messages.
    """
    # The client accepts underscores for dots, so a refused setting must be found in that spelling too.
    given = HiddenValues(
        (name.removeprefix(PREFIX).strip().replace("_", "."), value)
        for name, value in options.items()
        if name.startswith(PREFIX)
    )
    for name, message in refused.items():
        if name in given:
            raise ConfigError(message, key=PREFIX + name)
    if not {"bootstrap.servers", "metadata.broker.list"} & given.keys():
        message = f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {client}"
        if "bootstrap.servers" in options:
            message += "; settings of Kafka begin with 'kafka.', and 'bootstrap.servers' was given without it"
        elif meant := get_close_matches("bootstrap.servers", given, 1, 0.8):
            message += f"; '{PREFIX}{meant[0]}' is none: did you mean 'kafka.bootstrap.servers'?"
        raise ConfigError(message, key="kafka.bootstrap.servers")
    return given


def used_settings(
    given: Mapping[str, str],
    left_out: Collection[str],
    user: str,
    defaults: Mapping[str, str],
    of_client: Callable[[list[tuple[str, str]]], None],
) -> dict[str, str]:
    """The settings without those in `left_out`, with those of `defaults` that are not set under any name, checked."""
    ignored = {name for name in given if name in left_out or name.startswith("metrics.")}
    if others := [PREFIX + name for name in sorted(ignored - {"group.id"})]:
        _LOGGER.warning("options that this %s has no use for are left out: %s", user, ", ".join(others))
    used = HiddenValues((name, value) for name, value in given.items() if name not in ignored)
    missing = {name: value for name, value in defaults.items() if not used.keys() & _names_of(name)}
    settings = HiddenValues({**used, **missing})
    _check(settings, of_client)
    return settings


def _check(settings: Mapping[str, str], of_client: Callable[[list[tuple[str, str]]], None]) -> None:
    """Check settings, those from config providers with the values that they have in this process.

    If one has no value here, nothing is checked: an executor may have it. The client that is made of them checks all.
    """
    try:
        found = resolved(settings.items(), shipped)
        texts = RawSettings((name, located(name, value)) for name, value in found)
    except ConfigError as error:
        if error.key is not None and error.key.startswith(PROVIDERS):
            raise kafka_error(error) from None
        _LOGGER.debug("settings are checked where they are used: %s", error)
        return
    try:
        refuse_foreign(settings)
        of_client(texts)
    except ConfigError as error:
        raise kafka_error(error) from None


def kafka_error(error: ConfigError) -> ConfigError:
    """An error that our client raised for a setting, with the setting's name as an option (`kafka.` before it)."""
    if error.key is None or error.key.startswith(PREFIX):
        return error
    return ConfigError(f"option '{PREFIX}{error.key}': {error}", key=PREFIX + error.key)


def with_prefix(words: str) -> str:
    """A message of our client, with `kafka.` before each name of a setting in it."""
    # Only names with a dot: a name of one word, such as retries, may be an English word in the message.
    names = sorted((name for name in client_keys() if "." in name), key=len, reverse=True)
    any_name = "|".join(map(re.escape, names))
    return re.sub(rf"(?<![\w.])(?:{any_name})(?!\.?\w)", lambda found: PREFIX + found[0], words)


def client_keys() -> set[str]:
    """All names of the settings that our client knows, including aliases."""
    return {name for key in config_keys() for name in (key.name, *key.aliases)}


def _names_of(name: str) -> set[str]:
    return next({key.name, *key.aliases} for key in config_keys() if key.name == name)
