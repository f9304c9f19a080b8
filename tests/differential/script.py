"""The tools of a scenario: clients that send requests, and the answers in the order of reading."""

import base64
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.differential import batches
from tests.differential.clusters import Cluster
from tests.differential.wire import Closed, Connection, WireError
from tests.kafka.secured import ADMIN
from tests.kafka.secured.users import User

TIMEOUT_SECONDS = 60.0
"""On a busy machine, a real cluster sometimes takes more than ten seconds to elect a leader."""
SETTLE_SECONDS = 10.0
"""So long a request is repeated; an error that is still there then is the answer."""
# While a coordinator loads or moves, and while a partition gets its leader.
SETTLING = (3, 5, 6, 14, 15, 16)
CONCURRENT_TRANSACTIONS = 51

Body = Mapping[str, Any]
Answer = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """One answer."""

    label: str
    api: str
    version: int
    answer: Any


class Script:
    """One run of a scenario on one cluster."""

    def __init__(self, cluster: Cluster, scenario: str, secured: bool = False) -> None:
        self.secured = secured
        self.cluster = cluster
        self.scenario = scenario
        self.steps: list[Step] = []
        self._members: list[Member] = []
        self._admin: Member | None = None

    def close(self) -> None:
        """Close all connections."""
        for member in self._members:
            member.connection.close()

    def name(self, stem: str) -> str:
        """A name that no other scenario uses, the same on both clusters."""
        return f"{self.scenario}.{stem}"

    def member(self, client_id: str | None = "client", node: int = 1, *, user: User | None = ADMIN) -> "Member":
        """Someone with a connection.

        Args:
            client_id: theirs.
            node: whom they connect to.
            user: the user to log in as, if a login is needed; `None` for a client without a login.
        """
        member = Member(self, client_id, node)
        self._members.append(member)
        if self.secured and user is not None:
            member.log_in(user)
        return member

    @property
    def admin(self) -> "Member":
        """A client whose answers are only compared on request."""
        if self._admin is None:
            self._admin = self.member("admin")
        return self._admin

    def record(self, api: str, answer: Any, version: int = 0, label: str = "") -> None:
        """Have something compared besides answers."""
        self.steps.append(Step(label, api, version, answer))

    def topic(
        self, stem: str = "topic", partitions: int = 1, *, placed: Sequence[Sequence[int]] = (), **configs: str
    ) -> str:
        """Create a topic and wait until its leaders answer.

        Args:
            stem: of its name.
            partitions: how many.
            placed: the nodes of each partition, in place of the number.
            configs: with underscores for dots.
        """
        name = self.name(stem)
        settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        new: dict[str, Any] = {"name": name, "numPartitions": partitions, "replicationFactor": 1, "configs": settings}
        if placed:
            assignments = [{"partitionIndex": index, "brokerIds": list(nodes)} for index, nodes in enumerate(placed)]
            new |= {"numPartitions": -1, "replicationFactor": -1, "assignments": assignments}
            partitions = len(placed)
        answer = self.admin.ask("CreateTopics", 7, {"topics": [new], "timeoutMs": 20_000})
        created = answer["topics"][0]
        if created["errorCode"] != 0:
            raise AssertionError(f"{self.cluster.name}: topic {name}: {created}")
        self.record("create", {"topicId": created["topicId"]}, label=stem)
        self.wait_led(name, partitions)
        return name

    def wait_led(self, topic: str, partitions: int) -> None:
        """Wait until the leader of every partition answers."""
        for partition in range(partitions):
            self.leader_of(topic, partition)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The node that leads a partition and knows it."""

        def led() -> int | None:
            described = self.admin.ask("Metadata", 12, {"topics": [{"name": topic}]})["topics"][0]
            for found in described["partitions"]:
                if found["partitionIndex"] == partition and found["errorCode"] == 0:
                    node: int = found["leaderId"]
                    asked = {
                        "topics": [{"name": topic, "partitions": [{"partitionIndex": partition, "timestamp": -1}]}]
                    }
                    member = self.admin if node == 1 else self.member("admin", node)
                    answer = member.ask("ListOffsets", 7, {"replicaId": -1, **asked})
                    return node if answer["topics"][0]["partitions"][0]["errorCode"] == 0 else None
            return None

        return self.until(led, f"a leader of {topic}-{partition}")

    def topic_id(self, topic: str) -> str:
        """The id of a topic."""
        answer = self.admin.ask("Metadata", 12, {"topics": [{"name": topic}]})
        return str(answer["topics"][0]["topicId"])

    def until(self, look: Callable[[], T | None], what: str) -> T:
        """Repeat until there is a result, for no longer than an answer may take."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            found = look()
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.cluster.name}: waited {TIMEOUT_SECONDS} s for {what}")
            time.sleep(0.01)


class Member:
    """A client that sends requests over one connection."""

    def __init__(self, script: Script, client_id: str | None, node: int) -> None:
        self.script = script
        self.client_id = client_id
        self.node = node
        self.connection: Connection = script.cluster.connect(node)

    def reconnect(self) -> None:
        """Take a new connection."""
        self.connection.close()
        self.connection = self.script.cluster.connect(self.node)

    def log_in(self, user: User, password: str | None = None) -> None:
        """Log in with PLAIN.

        Raises:
            AssertionError: it is refused.
        """
        self.send("SaslHandshake", 1, {"mechanism": "PLAIN"}).answer()
        answer = self.send("SaslAuthenticate", 2, {"authBytes": plain(user.name, password or user.password)}).answer()
        assert answer["errorCode"] == 0, f"{self.script.cluster.name}: {user.name}: {answer}"

    def send(self, api: str, version: int, body: Body | None = None, label: str = "") -> "Waiting":
        """Send a request without waiting for its answer."""
        connection = self.connection
        correlation = connection.correlation()
        frame = connection.wire.encode(api, version, body or {}, correlation, self.client_id)
        connection.send(frame, api, version, correlation)
        return Waiting(self.script, connection, correlation, Step(label, api, version, None))

    def send_frame(self, api: str | None, version: int, frame: Callable[[int], bytes], label: str = "") -> "Waiting":
        """Send bytes for a request, made with a correlation id; the answer is decoded as that API's, or not at all."""
        connection = self.connection
        correlation = connection.correlation()
        # A connection that the broker has closed accepts no request; that it is closed counts as the answer.
        with suppress(WireError):
            connection.send(frame(correlation), api, version, correlation)
        return Waiting(self.script, connection, correlation, Step(label, api or "bytes", version, None))

    def call(
        self,
        api: str,
        version: int,
        body: Body | None = None,
        label: str = "",
        *,
        retry_on: Collection[int] = SETTLING[3:],
        keep: Callable[[Answer], Any] | None = None,
    ) -> Answer:
        """Send a request, wait for its answer and have it compared.

        Args:
            api: its name.
            version: its version.
            body: the fields that differ from Kafka's defaults.
            label: the step's name if it fails.
            retry_on: errors that pass; they are not compared.
            keep: selects the part of the answer that is compared; all by default.
        """
        answer = self.ask(api, version, body, retry_on=retry_on, label=label)
        self.script.steps.append(Step(label, api, version, keep(answer) if keep else answer))
        return answer

    def ask(
        self, api: str, version: int, body: Body | None = None, *, retry_on: Collection[int] = SETTLING, label: str = ""
    ) -> Answer:
        """The same, not compared."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            answer = self.send(api, version, body, label).answer()
            if time.monotonic() > deadline or not any(code in retry_on for code in errors(answer)):
                return answer
            time.sleep(0.01)


class Waiting:
    """A request whose answer has not been looked at."""

    def __init__(self, script: Script, connection: Connection, correlation: int, step: Step) -> None:
        self.script = script
        self.connection = connection
        self.correlation = correlation
        self.step = step

    @property
    def answered(self) -> bool:
        """Whether an answer has come."""
        return self.connection.wire.answered(self.connection.name, self.correlation)

    def answer(self, timeout_seconds: float = TIMEOUT_SECONDS) -> Answer:
        """Wait for the answer, not compared."""
        try:
            told = self.connection.wire.answer(self.connection.name, self.correlation, timeout_seconds)
        except Closed:
            return {"closed": True}
        if "response" not in told:
            return {key: value for key, value in told.items() if key in ("undecoded", "frame")}
        response: Answer = told["response"]
        return readable(response) if self.step.api in ("Fetch", "ShareFetch") else response

    def receive(self, timeout_seconds: float = TIMEOUT_SECONDS) -> Answer:
        """Wait for the answer and have it compared."""
        answer = self.answer(timeout_seconds)
        self.script.steps.append(Step(self.step.label, self.step.api, self.step.version, answer))
        return answer

    def waits(self) -> None:
        """Have it compared whether the request still waits."""
        self.script.record(self.step.api, {"answered": self.answered}, self.step.version, self.step.label)


def readable(value: Any) -> Any:
    """Records as batches in place of base64."""
    if isinstance(value, dict):
        return {
            key: batches.decoded(inner) if key == "records" and isinstance(inner, str) else readable(inner)
            for key, inner in value.items()
        }
    return [readable(item) for item in value] if isinstance(value, list) else value


def errors(answer: Any) -> Iterable[int]:
    """Every error code in an answer, at whatever depth."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key in ("errorCode", "partitionErrorCode"):
                yield value
            else:
                yield from errors(value)
    elif isinstance(answer, list):
        for item in answer:
            yield from errors(item)


def plain(name: str, password: str) -> str:
    """The message of PLAIN, as base64."""
    return text(f"\0{name}\0{password}")


def text(data: str) -> str:
    """Text as base64, which is how bytes stand in JSON."""
    return base64.b64encode(data.encode()).decode()
