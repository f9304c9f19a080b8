"""Options that begin with `kafka.`: which become settings of our clients, which are refused, which are ignored.

Settings travel as the user gave them. The process that makes a client, driver or executor, looks up what config
providers give, and where files are that were shipped with `--files`: neither is the same on every machine, and a secret
that is looked up there is in no pickled task.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from monedula._config.providers import PROVIDERS, resolved
from monedula._monedula import check_producer_settings, check_settings
from monedula.config import HiddenValues, RawSettings, config_keys, refuse_foreign
from monedula.errors import ConfigError

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
_REFUSED_BY_SOURCE = {
    "auto.offset.reset": _AUTO_OFFSET_RESET,
    "key.deserializer": _DESERIALIZER.format("key"),
    "value.deserializer": _DESERIALIZER.format("value"),
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}
# The first two in the order in which Spark's JVM sink checks them, with its messages.
_REFUSED_BY_SINK = {
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": (
        "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer."
    ),
    "transactional.id": (
        "Kafka option 'transactional.id' is not supported: a sink writes at least once, without transactions"
    ),
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported: no class of Java can be run here",
}

# Settings that matter only to clients in Java, as in jobs written for Spark's source and sink, or to the other one of
# the two, with the same options.
_OF_JAVA = {
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "group.remote.assignor",
    "max.poll.records",
    "metric.reporters",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
}
_LEFT_OUT_BY_SOURCE = _OF_JAVA | {
    "auto.commit.interval.ms",
    "exclude.internal.topics",
    "group.id",
    "group.initial.rebalance.delay.ms",
    "group.instance.id",
    "group.protocol",
    "heartbeat.interval.ms",
    "max.moves.per.round",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "retries",
    "round.interval.ms",
    "scheduled.rebalance.max.delay.ms",
    "session.timeout.ms",
}
_LEFT_OUT_BY_SINK = _OF_JAVA | {
    "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "security.providers",
    "transaction.two.phase.commit.enable",
}

_GROUP_ID = (
    "Kafka option 'kafka.group.id' has been set on this query, it is not recommended to set this option. It does "
    "nothing here: partitions are assigned, and the source is no member of a group."
)

_DEFAULTS_OF_SOURCE = {"isolation.level": "read_uncommitted", "queued.max.bytes": "33554432"}
# buffer.memory: Java's default, half of that of our producer, because an executor runs several producers.
_DEFAULTS_OF_SINK = {"buffer.memory": "33554432", "client.id": "spark-kafka-sink"}

_FILE_ENDINGS = (".location", ".keytab", ".file")


@dataclass(frozen=True)
class ClientSettings:
    """The settings of a client on their way to it. Printed without values: passwords may be among them."""

    given: tuple[tuple[str, str], ...] = field(repr=False)
    """By dotted name, as the user gave them."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "ClientSettings":
        """Sorted, so that equal settings compare equal."""
        return cls(tuple(sorted(settings.items())))

    def here(self) -> RawSettings:
        """The settings for a client in this process."""
        try:
            return _here(self.given)
        except ConfigError as error:
            error.__context__ = None
            raise _kafka_error(error).with_traceback(None) from None  # without the frames below, which have values


def kafka_settings(options: Mapping[str, str], client_id: str) -> dict[str, str]:
    """The settings of our consumer, by dotted name, from `options` (names in lower case)."""
    given = _given_settings(options, _REFUSED_BY_SOURCE, "consumer")
    if "group.id" in given:
        _LOGGER.warning(_GROUP_ID)
        if "groupidprefix" in options:
            _LOGGER.warning("Option groupIdPrefix will be ignored as option kafka.group.id has been set.")
    defaults = {**_DEFAULTS_OF_SOURCE, "client.id": client_id}
    return _used_settings(given, _LEFT_OUT_BY_SOURCE, "source", defaults, check_settings)


def producer_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of our producer, by dotted name, from `options` (names in lower case)."""
    given = _given_settings(options, _REFUSED_BY_SINK, "producer")
    return _used_settings(given, _LEFT_OUT_BY_SINK, "sink", _DEFAULTS_OF_SINK, check_producer_settings)


def _given_settings(options: Mapping[str, str], refused: Mapping[str, str], client: str) -> dict[str, str]:
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


def _used_settings(
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
        texts = _here(settings.items())
    except ConfigError as error:
        if error.key is not None and error.key.startswith(PROVIDERS):
            raise _kafka_error(error) from None
        _LOGGER.debug("settings are checked where they are used: %s", error)
        return
    try:
        refuse_foreign(settings)
        of_client(texts)
    except ConfigError as error:
        raise _kafka_error(error) from None


def _here(given: Iterable[tuple[str, str]]) -> RawSettings:
    """Settings with the values of config providers, and the paths of files, that they have in this process."""
    found = resolved(given, shipped)
    return RawSettings((name, shipped(value) if name.endswith(_FILE_ENDINGS) else value) for name, value in found)


def shipped(path: str) -> str:
    """The path of a file: shipped with `--files` or `addFile` if it is not in the working directory, else as named.

    An executor works in the folder of shipped files, a driver does not.
    """
    if not path or Path(path).is_absolute() or Path(path).exists():
        return path
    root = _folder_of_shipped_files()
    if root is None:
        return path
    # The driver of a streaming query gets a folder of its session, inside the folder of all files.
    places = (root / path, root.parent / path)
    return next((str(place) for place in places if place.exists()), path)


def _folder_of_shipped_files() -> Path | None:
    from pyspark import SparkContext, SparkFiles

    files: Any = SparkFiles
    context: Any = SparkContext
    # `getRootDirectory()` would not do: it fails where there is no context, as with Spark Connect.
    if files._is_running_on_worker:
        return Path(files._root_directory) if files._root_directory else None
    active = context._active_spark_context
    return None if active is None else Path(files.getRootDirectory())


def _kafka_error(error: ConfigError) -> ConfigError:
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
