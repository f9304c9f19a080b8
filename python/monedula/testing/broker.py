"""`Broker`, the embedded broker, as a context manager."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from monedula._migration_hints import tells
from monedula._monedula import BrokerCore
from monedula.errors import ConfigError
from monedula.testing import arguments, state
from monedula.testing.faults import Fault, FaultSetter
from monedula.testing.records import Headers, RecordLike, Timestamps, records_of
from monedula.testing.registry_control import RegistryControl, RegistryOptions, registry_options
from monedula.testing.security import (
    Acl,
    Mechanisms,
    Protocols,
    SecurityControl,
    acl_json,
    enabled_mechanisms,
    principal_of,
)
from monedula.testing.state import Connection, Exchange, Group, GroupListing, LogLine, PushedMetrics

Topics = Mapping[str, int] | Sequence[str]
"""Topics to create, with their partition counts: `{"orders": 3}` or `["orders:3"]`."""


@tells
class Broker(FaultSetter, SecurityControl, RegistryControl):
    """A Kafka-compatible broker on a thread of this process, listening on loopback.

    It is a context manager; without `with`, call `stop`. It stops at exit in any case. In a forked child every call
    raises `ForkError`: the broker runs in the parent process.

    Args:
        nodes: the number of broker nodes; each has a port of its own.
        topics: topics to create, as `{"orders": 3}` or `["orders:3"]`.
        port: the port of the first node; with 0 the nodes take free ports.
        data_dir: the directory for topics, offsets and groups, users, ACLs, client quotas, delegation tokens and the
            schemas of the registry; without it they are kept in memory only. Users and ACLs that are given here are set
            when they are given first, or with another password: what was changed since then stays.
        settings: Kafka's broker settings by Kafka's names, such as `{"group.min.session.timeout.ms": 100}`.
        racks: the nodes' racks, in order; empty for none.
        first_node_id: the id of the first node; the others have the ids after it.
        seed: the seed of all random values: member ids, topic ids, faults with a probability.
        clock: `"system"`, or `"manual"` for a clock that stands still until `advance` moves it.
        max_versions: the highest supported version of an API, by its name, to act as an older Kafka: `{"Fetch": 11}`. A
            negative version removes the API.
        control_port: the port that takes commands as JSON, for programs in other languages; 0 for any free port, `None`
            for none. See `control_address`.
        host: the address on which the nodes listen.
        coordinator_load_ms: how long a coordinator answers COORDINATOR_LOAD_IN_PROGRESS after it took over.
        first_use: how it answers to what is used for the first time. With `"once"` the request that creates a topic,
            and the first one that looks for a coordinator, are told that it is not there yet; the next ones find it.
            With `"kafka"` that lasts as long as in Kafka: a coordinator takes 0.1 to 1.7 s, and each node knows a topic
            that a client has created up to 17 ms later, both drawn from the seed.
        security: the security protocol of all nodes. With `"SSL"` and `"SASL_SSL"` the broker makes a CA and
            certificates of its own, see `client_settings` and `ca_pem`.
        listeners: further security protocols. Each node listens for each of them on a port of its own, see
            `bootstrap_servers_of`: `security="SASL_SSL", listeners=["PLAINTEXT"]`.
        users: the users who may log in with PLAIN and SCRAM, with their passwords.
        mechanisms: the SASL mechanisms that clients may choose; by default all that the broker has.
        client_auth: whether clients show a certificate. A client that does is `User:CN=...` without SASL.
        max_reauth_ms: after how many milliseconds clients have to log in again (KIP-368); 0 for never.
        unsecured_tokens: whether OAUTHBEARER takes tokens without a signature.
        acls: ACLs that exist at the start. With any ACL or super user there is an authorizer, which allows only what an
            ACL allows; without, everybody may do everything.
        client_metrics: whether the broker takes the metrics that clients push (KIP-714), see `client_metrics`. The
            subscriptions are resources of the type `client_metrics`, which `Admin.alter_configs` changes.
        super_users: users who may do everything, or principals such as `"User:CN=admin"`.
        registry: whether a schema registry with Confluent's API runs beside the nodes, see `schema_registry_url`; or
            its options: `{"port": 8081, "users": {"anna": "secret"}, "tokens": ["..."], "oauth": True, "tls": False,
            "client_auth": "required"}`. Without options anybody may ask it, and it has TLS if the nodes have.

    Raises:
        ConfigError: an option or setting does not exist, or its value is invalid.
        BrokerStartError: a port is in use, or the data directory cannot be read.
    """

    def __init__(
        self,
        nodes: int = 1,
        topics: Topics = (),
        *,
        port: int = 0,
        data_dir: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
        racks: Sequence[str] = (),
        first_node_id: int = 1,
        seed: int = 0,
        clock: Literal["system", "manual"] = "system",
        max_versions: Mapping[str, int] | None = None,
        control_port: int | None = None,
        host: str = "127.0.0.1",
        coordinator_load_ms: int = 0,
        first_use: Literal["once", "kafka"] = "once",
        security: Protocols = "PLAINTEXT",
        listeners: Sequence[Protocols] = (),
        users: Mapping[str, str] | None = None,
        mechanisms: Sequence[Mechanisms] = (),
        client_auth: Literal["none", "requested", "required"] = "none",
        max_reauth_ms: int = 0,
        unsecured_tokens: bool = False,
        acls: Iterable[Acl] = (),
        super_users: Iterable[str] = (),
        client_metrics: bool = False,
        registry: bool | RegistryOptions = False,
    ) -> None:
        if clock not in ("system", "manual"):
            raise ConfigError(f'clock: {clock!r} is none; there are "system" and "manual"')
        try:
            numbers = arguments.check_numbers(
                nodes=nodes,
                port=port,
                first_node_id=first_node_id,
                seed=seed,
                coordinator_load_ms=coordinator_load_ms,
                max_reauth_ms=max_reauth_ms,
                **({} if control_port is None else {"control_port": control_port}),
            )
            arguments.check_kinds(host=host, first_use=first_use, security=security, client_auth=client_auth)
            arguments.check_kinds(unsecured_tokens=unsecured_tokens, client_metrics=client_metrics, data_dir=data_dir)
            arguments.check_users(users)
            arguments.check_lists(
                listeners=listeners, mechanisms=mechanisms, super_users=super_users, racks=racks, acls=acls
            )
            acls = list(acls)
            arguments.check_acls(acls)
            arguments.check_mappings(settings=settings, max_versions=max_versions)
            arguments.check_versions(max_versions)
            of_registry = registry_options(registry)
        except ConfigError:
            users, registry = None, False  # tools that show local variables would show the passwords
            raise
        options = {
            **numbers,
            "topics": _topic_specs(topics),
            "data_dir": None if data_dir is None else str(data_dir),
            "settings": _texts(settings),
            "racks": list(racks),
            "manual_clock": clock == "manual",
            "max_versions": dict(max_versions or {}),
            "host": host,
            "first_use": first_use,
            "client_metrics": client_metrics,
            "security": security,
            "listeners": list(listeners),
            "users": dict(users or {}),
            "mechanisms": list(mechanisms),
            "client_auth": client_auth,
            "unsecured_tokens": unsecured_tokens,
            "acls": [acl_json(acl) for acl in acls],
            "super_users": [principal_of(user) for user in super_users],
        }
        self._protocol, self._client_auth, self._passwords = security, client_auth, dict(users or {})
        self._mechanisms = enabled_mechanisms(mechanisms, settings)
        try:
            self._core = BrokerCore(json.dumps(options))
        finally:
            # Tracebacks may show the local variables, and then no password.
            options.clear()
            users, registry = None, False
        if of_registry is not None:
            try:
                has_tls = any(each.upper().endswith("SSL") for each in (security, *listeners))
                self._start_registry(of_registry, host, numbers["seed"], data_dir, has_tls=has_tls)
            except BaseException:
                self.stop()
                raise
            finally:
                of_registry = None

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, as a value for `bootstrap.servers`; with `listeners`, those of `security`."""
        return ",".join(self.addresses.values())

    @property
    def addresses(self) -> dict[int, str]:
        """The address of each node, by node id (from `first_node_id` on). Metadata responses have the same ones."""
        return {node: _address(host, port) for node, host, port in self._core.addresses}

    @property
    def control_address(self) -> str | None:
        """The address of the control port, if there is one: one line of JSON for a command, one for its result."""
        address = self._core.control_address
        return None if address is None else _address(*address)

    def stop(self) -> None:
        """Close all connections and stop. Without `data_dir` all data are lost. A second call does nothing."""
        self._stop_registry()
        self._core.stop()
        self._remove_files()

    # Topics

    def create_topic(
        self,
        topic: str,
        partitions: int | None = None,
        *,
        replicas: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic.

        Args:
            topic: the name of the topic.
            partitions: the number of partitions; the setting `num.partitions` if not given.
            replicas: the number of replicas; the setting `default.replication.factor` if not given.
            config: the topic's own settings, such as `{"cleanup.policy": "compact"}`.

        Returns:
            The topic id.

        Raises:
            BrokerCommandError: the topic exists, or the name, a number or a setting is invalid.
        """
        made = self._control(
            "create_topic", topic=topic, partitions=partitions, replicas=replicas, config=_texts(config)
        )
        return str(made["id"])

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with all of its records.

        Args:
            topic: the topic.

        Raises:
            BrokerCommandError: the topic does not exist.
        """
        self._control("delete_topic", topic=topic)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic.

        Args:
            topic: the topic.
            partitions: the total number of partitions after the call.

        Raises:
            BrokerCommandError: the topic does not exist, or has that many partitions already.
        """
        self._control("add_partitions", topic=topic, partitions=partitions)

    # Records

    def append(
        self,
        topic: str,
        records: Iterable[RecordLike] | object,
        *,
        partition: int = 0,
        timestamps: Timestamps = None,
        headers: Headers = (),
        compression: Literal["gzip", "snappy", "lz4", "zstd"] | None = None,
    ) -> range:
        """Append records to a partition, without a producer.

        Args:
            topic: the topic.
            records: values, or `(key, value)` pairs, each `bytes`, `str` or `None`; or a table (anything with
                `__arrow_c_stream__`) with the column `value` and the optional columns `key`, `timestamp` and `headers`,
                as `monedula.read` returns them.
            partition: the partition.
            timestamps: the records' timestamps, one for each or one for all, as milliseconds since the Unix epoch or as
                `datetime`; the broker's time if not given.
            headers: headers that every record gets, as pairs or as a mapping.
            compression: the compression type of the record batches.

        Returns:
            The offsets of the records.

        Raises:
            ArgumentError: a record has an invalid type.
            BrokerCommandError: the partition does not exist, or the broker would refuse the records of a producer too.
        """
        rows = records_of(records, timestamps, headers)
        first, after = self._core.append(topic, partition, rows, compression)
        return range(first, after)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Delete the records of a partition before an offset, which becomes the log start offset; -1 deletes all.

        Args:
            topic: the topic.
            partition: the partition.
            before_offset: the first offset to keep; -1 keeps none.

        Raises:
            BrokerCommandError: the partition does not exist, or the offset is beyond the end of its log.
        """
        self._control("delete_records", topic=topic, partition=partition, before=before_offset)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Drop the records of a partition from an offset on, in a new leader epoch, as an unclean election does.

        Args:
            topic: the topic.
            partition: the partition.
            offset: the first offset to drop.

        Raises:
            BrokerCommandError: the partition does not exist, or the offset is beyond the end of its log.
        """
        self._control("truncate", topic=topic, partition=partition, offset=offset)

    def compact(self, topic: str, partition: int | None = None) -> None:
        """Compact a partition, or all partitions of a topic: only the latest record of each key stays, at its offset.

        Args:
            topic: the topic.
            partition: the partition; all partitions of the topic if left out.

        Raises:
            BrokerCommandError: the partition does not exist.
        """
        self._control("compact", topic=topic, partition=partition)

    def run_retention(self) -> None:
        """Run retention by time and bytes now, instead of at its next scheduled run."""
        self._control("run_retention")

    # Nodes

    def move_leader(self, topic: str, partition: int, node: int) -> int:
        """Make a node the leader of a partition.

        Args:
            topic: the topic.
            partition: the partition.
            node: the id of the node that becomes the leader.

        Returns:
            The new leader epoch.

        Raises:
            BrokerCommandError: the partition or the node does not exist, or the node is stopped.
        """
        return int(self._control("move_leader", topic=topic, partition=partition, node=node)["leader_epoch"])

    def move_coordinator(self, node: int, *, group: str | None = None, transactional_id: str | None = None) -> None:
        """Make a node the coordinator of a group or of a transactional id.

        All groups or transactional ids of the same partition of `__consumer_offsets` or `__transaction_state` move
        with it.

        Args:
            node: the id of the node that becomes the coordinator.
            group: the group id; or
            transactional_id: the transactional id.

        Raises:
            BrokerCommandError: neither or both are given, or the node does not exist or is stopped.
        """
        self._control("move_coordinator", group=group, transactional_id=transactional_id, node=node)

    def stop_node(self, node: int) -> None:
        """Stop a node: its port and connections are closed, and other nodes become leader and coordinator in its place.

        Args:
            node: the node's id.

        Raises:
            BrokerCommandError: the node does not exist, or is stopped already.
        """
        self._control("stop_node", node=node)

    def start_node(self, node: int) -> None:
        """Start a stopped node again, on its old port.

        Args:
            node: the node's id.

        Raises:
            BrokerCommandError: the node does not exist, or is running.
            BrokerStartError: its port is in use by another process.
        """
        self._control("start_node", node=node)

    def set_isr(self, topic: str, partition: int, isr: Sequence[int]) -> None:
        """Set the in-sync replicas of a partition.

        Args:
            topic: the topic.
            partition: the partition.
            isr: the node ids of the in-sync replicas, the leader among them.

        Raises:
            BrokerCommandError: one of the nodes has no replica, or the leader is not among them.
        """
        self._control("set_isr", topic=topic, partition=partition, isr=list(isr))

    def pause_replication(self) -> None:
        """Keep replicas that are not in sync from catching up, until `resume_replication`.

        A reassignment that adds nodes stays in progress, and a node that is started again stays out of sync.
        """
        self._control("pause_replication", paused=True)

    def resume_replication(self) -> None:
        """Let all living replicas catch up, and complete the reassignments that waited for them."""
        self._control("pause_replication", paused=False)

    def set_rack(self, node: int, rack: str | None) -> None:
        """Set the rack of a node; `None` for no rack.

        Args:
            node: the node's id.
            rack: the name of the rack, or `None`.

        Raises:
            BrokerCommandError: the node does not exist.
        """
        self._control("set_rack", node=node, rack=rack)

    def advance(self, seconds: float) -> None:
        """Move a manual clock forward. Timers that expire on the way run in order, each at its own time.

        Args:
            seconds: by how much to move the clock.

        Raises:
            BrokerCommandError: the broker was not created with `clock="manual"`.
        """
        self._control("advance", ms=round(seconds * 1000))

    # State

    def groups(self) -> list[GroupListing]:
        """All groups, as ListGroups returns them."""
        return [state.listing_of(group) for group in self._control("groups")]

    def group(self, group: str) -> Group:
        """The group with its members, their assignments and the committed offsets; of a share group, the start offsets.

        A group that does not exist is returned as in Kafka: in state `Dead`, without members and offsets.

        Args:
            group: the group id.

        Raises:
            BrokerCommandError: no node coordinates the group, or its coordinator is loading.
        """
        return state.group_of(self._control("group", group=group))

    def expire_locks(self, group: str) -> int:
        """End all locks of a share group at once (KIP-932).

        The records that its members have are released, as if their lock durations were over.

        Args:
            group: the group id.

        Returns:
            The number of records that were released.
        """
        return int(self._control("expire_locks", group=group)["released"])

    def connections(self) -> list[Connection]:
        """The clients' connections, each with the request that is not answered yet."""
        return [state.connection_of(connection) for connection in self._control("connections")]

    def requests(self) -> list[Exchange]:
        """The last requests of clients with what became of them, the oldest first: at most 100."""
        return [state.exchange_of(exchange) for exchange in self._control("requests")]

    def client_metrics(self) -> list[PushedMetrics]:
        """What clients pushed to this broker (KIP-714), the oldest first; of very many the newest ones."""
        return [state.pushed_of(push) for push in self._control("client_metrics")]

    def log(self) -> list[LogLine]:
        """The last lines of the broker's log, the oldest first.

        Lines of level INFO and above are always kept. Lines of level DEBUG, one for each request and response, are kept
        if the logger `monedula.broker` is set to that level; with level 5 they also have the bytes.
        """
        return [LogLine(*line) for line in self._core.log_lines()]

    def faults(self) -> list[Fault]:
        """The faults and observers that are set, also those of the registry."""
        found = [Fault(self._control, fault["fault"], fault["what"]["effect"]) for fault in self._control("faults")]
        return found if self._registry is None else found + self._registry.faults()

    def remove_faults(self) -> None:
        """Remove all faults and observers, also those of the registry, and release what they hold."""
        self._control("remove_faults")
        if self._registry is not None:
            self._registry.remove_faults()

    def control(self, command: str, **arguments: object) -> Any:
        """Execute a command by its name, with the names and arguments of the control port.

        Args:
            command: the command, such as `"move_leader"`.
            arguments: its arguments, such as `topic="orders", partition=0, node=2`.

        Returns:
            The result, parsed from JSON.

        Raises:
            ArgumentError: the command does not exist, or its arguments are invalid.
            BrokerCommandError: the command cannot be executed.
        """
        return self._control(command, **arguments)

    def __enter__(self) -> Self:
        self._control("faults")  # raises ClosedError if the broker has stopped
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Broker({self.bootstrap_servers!r})"

    def _control(self, command: str, **arguments: object) -> Any:
        given = {name: value for name, value in arguments.items() if value is not None}
        return json.loads(self._core.control(json.dumps({"command": command, **given})))


def _topic_specs(topics: Topics) -> list[str]:
    if isinstance(topics, Mapping):
        for name in topics:
            if not isinstance(name, str):
                raise ConfigError(f'topics: {name!r} is no topic\'s name; expected {{"orders": 3}}', key="topics")
        return [f"{name}:{partitions}" for name, partitions in topics.items()]
    if not isinstance(topics, Iterable):
        raise ConfigError(f'topics={topics!r}: expected {{"orders": 3}} or ["orders:3"]', key="topics")
    specs = [topics] if isinstance(topics, str) else list(topics)
    for spec in specs:
        if not isinstance(spec, str):
            expected = 'expected {"orders": 3} or ["orders:3"]'
            raise ConfigError(f"topics: {spec!r} is no topic's name with its partition count; {expected}", key="topics")
    return specs


def _texts(settings: Mapping[str, object] | None) -> dict[str, str]:
    """The settings as texts, with booleans in lower case as Kafka writes them."""
    given = (settings or {}).items()
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given}


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
