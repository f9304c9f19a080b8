"""One or three KRaft nodes, each a JVM of its own on loopback ports, gone when the `with` block ends."""

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka import jars, prepared, wire
from tests.kafka.errors import NodeFailed
from tests.kafka.reaper import Reaper
from tests.kafka.tools import KafkaHelper
from tests.standing import stand_still

HOST = "127.0.0.1"
# Below the ephemeral range of Linux and macOS: while a node is down, no outgoing connection can take its port.
PORTS = range(15_000, 32_000)
POLL_SECONDS = 0.05
ERRORS_SHOWN = 5
LOG_TAIL_BYTES = 6000
FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Node:
    """One broker and controller in one JVM."""

    def __init__(self, node_id: int, port: int, controller_port: int, directory: Path, host: str = HOST) -> None:
        self.id = node_id
        self.host = host
        self.port = port
        self.controller_port = controller_port
        self.directory = directory
        self.rack = f"rack-{node_id}"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`host:port` of the broker's listener."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The pid of the running JVM; `None` while the node is stopped."""
        return self.process.pid if self.process is not None and self.process.poll() is None else None

    @property
    def properties(self) -> Path:
        """The settings of the node."""
        return self.directory / "server.properties"

    @property
    def log_path(self) -> Path:
        """The path of the log: all output of the JVM, over all its starts."""
        return self.directory / "kafka.log"

    def log_tail(self) -> str:
        """The first errors and the end of the log, for messages: a node that gives up says much after the reason."""
        try:
            log = self.log_path.read_bytes()
        except FileNotFoundError:
            log = b"(no log)"
        errors = [line for line in log.splitlines() if b" ERROR " in line or b" FATAL " in line][:ERRORS_SHOWN]
        text = b"\n".join([*errors, b"...", log[-LOG_TAIL_BYTES:]]).decode(errors="replace")
        return f"--- node {self.id}, {self.log_path} ---\n{text}"


class KafkaCluster:
    """A real Apache Kafka, as a context manager.

    Topics are not created by asking for them, groups do not wait for more members, internal topics are replicated
    on every node, and each node stands in a rack of its own (`rack-1`...) with `RackAwareReplicaSelector`, so that a
    consumer with `client.rack` fetches from the closest replica (KIP-392).

    Args:
        nodes: how many, each broker and controller; ids are 1, 2, 3.
        config: broker settings on top of the fixture's own, for every node.
        heap: heap of each JVM; 1g for one node, 768m each for more.
        fast_start: start quicker and smaller, at the cost of peak speed. Benches turn it off.
        host: where the nodes listen, an address of this machine.
        features: levels of features in place of the release's own, such as `transaction.version`.
        java_options: in place of those with which nodes start faster.
        directory: keep the data here, from one run to the next. Default: a temporary directory, removed at the end.
        start_timeout_seconds: for all nodes to see each other.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        config: Mapping[str, object] | None = None,
        heap: str | None = None,
        fast_start: bool = True,
        host: str = HOST,
        features: Mapping[str, int] | None = None,
        java_options: Sequence[str] | None = None,
        directory: Path | None = None,
        start_timeout_seconds: float = 120.0,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes must be 1 or more, not {nodes}")
        self.config = dict(config or {})
        self.features = dict(features or {})
        self.java_options = java_options
        self.heap = heap or ("1g" if nodes == 1 else "768m")
        self.fast_start = fast_start
        self.start_timeout_seconds = start_timeout_seconds
        self.directory = directory or Path(tempfile.gettempdir()) / f"monedula-kafka-{uuid.uuid4().hex[:12]}"
        self._temporary = directory is None
        self.host = host
        ports = free_ports(2 * nodes, host)
        self.nodes = {
            node_id: Node(node_id, ports.pop(), ports.pop(), self.directory / f"node-{node_id}", host)
            for node_id in range(1, nodes + 1)
        }
        self._reaper: Reaper | None = None
        self._paused: set[int] = set()
        self._owner_pid = os.getpid()

    def __enter__(self) -> Self:
        jars.java(), prepared.class_path()  # errors about missing programs come before anything is started
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=not self._temporary)
        self._reaper = Reaper()
        if self._temporary:
            self._reaper.remove(str(self.directory))
        atexit.register(self.close)
        try:
            self._format()
            for node in self.nodes.values():
                self._spawn(node)
            self.wait_ready(self.start_timeout_seconds)
        except BaseException:
            self._end(keep_logs=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(keep_logs=kind is not None and issubclass(kind, Exception))

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers`: the address of every node, comma-separated."""
        return ",".join(node.address for node in self.nodes.values())

    @cached_property
    def helper(self) -> KafkaHelper:
        """Java's Admin client and producers: in the JVM of the first node, or in one of its own while that is down."""
        return KafkaHelper(self.bootstrap, self._reaper, self._host if self.fast_start else None)

    def _hosts_helper(self, node: Node) -> bool:
        # Saves a JVM in almost every test. In benches the nodes run alone.
        return node.id == 1 and self.fast_start

    def _host(self) -> "subprocess.Popen[bytes] | None":
        return None if 1 in self._paused else self.nodes[1].process

    def metadata(self) -> wire.Metadata:
        """The cluster as the first running node sees it."""
        for node in self._running():
            return wire.metadata(node.host, node.port)
        raise NodeFailed("no node is running")

    def start(self, node_id: int, timeout_seconds: float = 60.0) -> None:
        """Start a stopped node; returns when every running node sees it.

        Raises:
            NodeFailed: it ended, or was not ready in time; with the end of its log.
        """
        node = self.nodes[node_id]
        if node.pid is not None:
            raise ValueError(f"node {node_id} is running (pid {node.pid})")
        self._spawn(node)
        self.wait_ready(timeout_seconds)

    def stop(self, node_id: int, timeout_seconds: float = 60.0) -> None:
        """Stop a node cleanly (SIGTERM): it first moves its leaders to other replicas, if there are any."""
        node = self.nodes[node_id]
        self._signal(node, signal.SIGTERM)
        try:
            self._reap(node, timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill(node_id)
            raise NodeFailed(f"node {node_id} ignored SIGTERM for {timeout_seconds} s\n{node.log_tail()}") from None

    def kill(self, node_id: int) -> None:
        """End a node at once (SIGKILL)."""
        node = self.nodes[node_id]
        self._signal(node, signal.SIGKILL)
        self._reap(node, 30.0)

    def restart(self, node_id: int, timeout_seconds: float = 60.0) -> None:
        """Stop a node cleanly and start it again."""
        self.stop(node_id, timeout_seconds)
        self.start(node_id, timeout_seconds)

    def pause(self, node_id: int) -> None:
        """Freeze a node (SIGSTOP): its connections stay open and nothing answers."""
        stand_still(self._process(self.nodes[node_id]).pid)
        self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        """Resume a frozen node (SIGCONT)."""
        self._signal(self.nodes[node_id], signal.SIGCONT)
        self._paused.discard(node_id)

    def wait_ready(self, timeout_seconds: float = 60.0) -> None:
        """Wait until every running node sees every running node, unfenced."""
        self._wait_until(self._all_see_all, timeout_seconds, "running nodes to see each other")

    def wait_in_sync(self, topic: str | None = None, timeout_seconds: float = 60.0) -> None:
        """Wait until every partition (of one topic, or of all) has a leader and all its replicas in sync."""

        def in_sync() -> bool:
            topics = self.metadata().topics
            chosen = topics.values() if topic is None else [topics[topic]] if topic in topics else [{}]
            return all(
                bool(partitions) and all(p.leader >= 0 and set(p.isr) == set(p.replicas) for p in partitions.values())
                for partitions in chosen
            )

        self._wait_until(in_sync, timeout_seconds, f"every replica of {topic or 'every topic'} to be in sync")

    def wait_leader(self, topic: str, partition: int, node_id: int, timeout_seconds: float = 60.0) -> None:
        """Wait until every running node names this leader."""

        def leads() -> bool:
            for node in self._running():
                seen = wire.metadata(node.host, node.port).topics.get(topic, {}).get(partition)
                if seen is None or seen.leader != node_id:
                    return False
            return True

        self._wait_until(leads, timeout_seconds, f"node {node_id} to lead {topic}-{partition}")

    def wait_partitions(self, topic: str, count: int, timeout_seconds: float = 60.0) -> None:
        """Wait until every running node names this many partitions of a topic, each with a leader."""

        def are_known() -> bool:
            for node in self._running():
                seen = wire.metadata(node.host, node.port).topics.get(topic, {})
                if sum(each.leader >= 0 for each in seen.values()) != count:
                    return False
            return True

        self._wait_until(are_known, timeout_seconds, f"every node to know {count} partitions of {topic}")

    def close(self) -> None:
        """End every process and remove the temporary directory. Safe to call again."""
        self._end(keep_logs=False)

    def _running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.pid is not None]

    def _all_see_all(self) -> bool:
        running = self._running()
        expected = {node.id for node in running}
        return all(set(wire.metadata(node.host, node.port).brokers) == expected for node in running)

    def _wait_until(self, condition: Callable[[], bool], timeout_seconds: float, what: str) -> None:
        deadline = time.monotonic() + timeout_seconds
        last_error: OSError | None = None
        while True:
            for node in self.nodes.values():
                if node.process is not None and node.process.poll() is not None:
                    raise NodeFailed(f"node {node.id} ended with {node.process.returncode}\n{node.log_tail()}")
            try:
                if condition():
                    return
            except OSError as error:
                last_error = error
            if time.monotonic() > deadline:
                logs = "\n".join(node.log_tail() for node in self.nodes.values())
                raise NodeFailed(f"waited {timeout_seconds} s for {what} (last error: {last_error})\n{logs}")
            time.sleep(POLL_SECONDS)

    def _format(self) -> None:
        cluster_id = prepared.random_id()
        for node in self.nodes.values():
            node.directory.mkdir(parents=True, exist_ok=True)
            settings = "".join(f"{key}={_escaped(str(value))}\n" for key, value in self._properties(node).items())
            node.properties.write_text(settings)
            prepared.format_storage(node.directory / "data", node.id, cluster_id, self.features)

    def _java_properties(self) -> Mapping[str, str]:
        """System properties of each node's JVM."""
        return {}

    def _properties(self, node: Node) -> dict[str, object]:
        voters = ",".join(f"{n.id}@{n.host}:{n.controller_port}" for n in self.nodes.values())
        factor = len(self.nodes)
        return {
            "process.roles": "broker,controller",
            "node.id": node.id,
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{node.host}:{node.port},CONTROLLER://{node.host}:{node.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": node.directory / "data",
            "broker.rack": node.rack,
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.replication.factor": factor,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.min.isr": min(factor, 2),
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": factor,
            "share.coordinator.state.topic.min.isr": min(factor, 2),
            # A killed node is fenced after this (9 s by default): tests of a broker's loss need not wait so long.
            "broker.session.timeout.ms": 4000,
            "broker.heartbeat.interval.ms": 500,
            # Tests write records of 1970: looked at 30 s after the start, and then every five minutes, these were gone
            # from under a running test.
            "log.initial.task.delay.ms": 86_400_000,
            "log.retention.check.interval.ms": 86_400_000,
            **self.config,
        }

    def _spawn(self, node: Node) -> None:
        ours = prepared.loaded_before_kafka() if self.fast_start and self.java_options is None else ()
        options = (
            "-XX:-UsePerfData",
            f"-Xmx{self.heap}",
            *(FAST_START if self.fast_start else ()),
            *(self.java_options or ours),
            *(f"-D{name}={value}" for name, value in self._java_properties().items()),
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        )
        is_host = self._hosts_helper(node)
        if is_host and "helper" in self.__dict__:
            self.helper.end_own()
        main = ["Helper", self.bootstrap] if is_host else ["kafka.Kafka"]
        with node.log_path.open("ab") as log:
            # A process group of its own: Ctrl-C in the terminal is for the tests, which then end the nodes.
            node.process = subprocess.Popen(
                [jars.java(), *options, "-cp", prepared.class_path(), *main, str(node.properties)],
                stdin=subprocess.PIPE if is_host else subprocess.DEVNULL,
                stdout=subprocess.PIPE if is_host else log,
                stderr=log,
                bufsize=0,
                start_new_session=True,
            )
        if self._reaper is not None:
            self._reaper.watch(node.process.pid)

    def _signal(self, node: Node, number: signal.Signals) -> None:
        self._process(node).send_signal(number)

    def _process(self, node: Node) -> subprocess.Popen[bytes]:
        if node.process is None or node.process.poll() is not None:
            raise ValueError(f"node {node.id} is not running")
        return node.process

    def _reap(self, node: Node, timeout_seconds: float) -> None:
        if node.process is None:
            return
        node.process.wait(timeout_seconds)
        if self._reaper is not None:
            self._reaper.forget(node.process.pid)
        for pipe in (node.process.stdin, node.process.stdout):
            if pipe is not None:
                pipe.close()
        node.process = None
        self._paused.discard(node.id)

    def _end(self, keep_logs: bool) -> None:
        # A forked child inherits the atexit hook, but neither the nodes nor the right to end them.
        if self._reaper is None or os.getpid() != self._owner_pid:
            return
        atexit.unregister(self.close)
        if "helper" in self.__dict__:
            self.helper.close()
        for node in self._running():
            if self._temporary:
                self.kill(node.id)
            else:
                self.stop(node.id)
        if self._temporary and keep_logs:
            self._save_logs()
        reaper, self._reaper = self._reaper, None
        reaper.close()

    def _save_logs(self) -> None:
        kept = Path(tempfile.mkdtemp(prefix="monedula-kafka-logs-"))
        for node in self.nodes.values():
            if node.log_path.exists():
                shutil.copy(node.log_path, kept / f"node-{node.id}.log")
        warnings.warn(f"Kafka's logs are kept in {kept}", stacklevel=3)


def _escaped(value: str) -> str:
    """Escape a value for a properties file: Latin-1, and a backslash begins an escape."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n")
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 0x80 else f"\\u{code:04x}" for code in codes)


def free_ports(count: int, host: str) -> list[int]:
    """Ports of `PORTS` where nobody listens."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports
