"""The embedded broker as a context manager."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from monedula._monedula import BrokerCore

_Topics = Mapping[str, int] | Sequence[str]


class Broker:
    """A Kafka-compatible broker on a thread of this process, listening on loopback.

    Args:
        nodes: how many nodes to play; each has a port of its own.
        topics: topics to make, as `{"orders": 3}` or `["orders:3"]`.
        port: port of the first node; 0 takes any free ports.
        data_dir: where topics, offsets and groups are kept; in memory only without it.
        settings: Kafka's broker settings by Kafka's names, such as `{"group.min.session.timeout.ms": 100}`.
        racks: the nodes' racks, in order.
        seed: seeds what the broker draws: member ids, topic ids, faults with a probability.
        clock: `"system"`, or `"manual"` for a time that stands still until `advance` moves it.
        max_versions: the highest version to offer of an API, by its name, to play an older Kafka: `{"Fetch": 11}`. A
            negative one withdraws the API.
        host: where the nodes listen.
        coordinator_load_ms: how long a coordinator says that it is loading after it took over.

    Raises:
        ConfigError: an option or setting does not exist or makes no sense.
        BrokerStartError: a port is in use, or the data directory cannot be read.
    """

    def __init__(
        self,
        nodes: int = 1,
        topics: _Topics = (),
        *,
        port: int = 0,
        data_dir: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
        racks: Sequence[str] = (),
        seed: int = 0,
        clock: Literal["system", "manual"] = "system",
        max_versions: Mapping[str, int] | None = None,
        host: str = "127.0.0.1",
        coordinator_load_ms: int = 0,
    ) -> None:
        options = {
            "nodes": nodes,
            "topics": _topic_specs(topics),
            "port": port,
            "data_dir": None if data_dir is None else str(data_dir),
            "settings": {name: _setting(value) for name, value in (settings or {}).items()},
            "racks": list(racks),
            "seed": seed,
            "manual_clock": clock == "manual",
            "max_versions": dict(max_versions or {}),
            "host": host,
            "coordinator_load_ms": coordinator_load_ms,
        }
        self._core = BrokerCore(json.dumps(options))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, as `bootstrap.servers` takes them."""
        return ",".join(self.addresses.values())

    @property
    def addresses(self) -> dict[int, str]:
        """The address of each node, by its id."""
        return {node: f"{host}:{port}" for node, host, port in self._core.addresses}

    def create_topic(
        self,
        topic: str,
        partitions: int | None = None,
        *,
        replicas: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Make a topic.

        Args:
            topic: its name.
            partitions: how many partitions; the setting `num.partitions` if not given.
            replicas: how many replicas; the setting `default.replication.factor` if not given.
            config: its own settings, such as `{"cleanup.policy": "compact"}`.

        Returns:
            The topic's id.
        """
        own = {name: _setting(value) for name, value in (config or {}).items()}
        made = self._control("create_topic", topic=topic, partitions=partitions, replicas=replicas, config=own)
        return str(made["id"])

    def stop(self) -> None:
        """Close all connections and stop; in memory, everything is gone then."""
        self._core.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Broker({self.bootstrap_servers!r})"

    def _control(self, command: str, **arguments: object) -> Any:
        given = {name: value for name, value in arguments.items() if value is not None}
        return json.loads(self._core.control(json.dumps({"command": command, **given})))


def _topic_specs(topics: _Topics) -> list[str]:
    if isinstance(topics, Mapping):
        return [f"{name}:{partitions}" for name, partitions in topics.items()]
    return [topics] if isinstance(topics, str) else list(topics)


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
