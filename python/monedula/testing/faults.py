"""Faults on demand, and observers that count requests instead of sleeping until they should have come."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from monedula.errors import ArgumentError, KafkaTimeoutError


class Control(Protocol):
    """Carries out a command of the broker."""

    def __call__(self, command: str, **arguments: object) -> Any:
        """Its answer."""


class Fault:
    """A fault or an observer that is set in a broker. As a context manager it is removed at the end.

    Attributes:
        id: its number in the broker.
        effect: what it does, such as `"error"` or `"observe"`.
    """

    def __init__(self, control: Control, id: int, effect: str) -> None:  # noqa: A002 - as the control port calls it
        self._control = control
        self.id = id
        self.effect = effect

    @property
    def hits(self) -> int:
        """How many requests it took effect on.

        Raises:
            BrokerCommandError: it was removed.
        """
        return int(self._control("fault_hits", fault=self.id)["hits"])

    def wait(self, hits: int = 1, timeout: float = 10.0) -> int:
        """Wait until it has taken effect on so many requests.

        Args:
            hits: how many, counted since it was set.
            timeout: seconds after which to give up.

        Returns:
            Its hits.

        Raises:
            KafkaTimeoutError: there were not as many in that time.
            BrokerCommandError: it was removed.
        """
        waited = self._control("wait", fault=self.id, hits=hits, timeout_ms=round(timeout * 1000))
        if not waited["reached"]:
            raise KafkaTimeoutError(f"{self!r}: {waited['hits']} hits of {hits} in {timeout} s")
        return int(waited["hits"])

    def release(self) -> None:
        """Let go what it holds; connections that it made black holes of are closed. It stays set.

        Raises:
            BrokerCommandError: it was removed.
        """
        self._control("release_fault", fault=self.id)

    def remove(self) -> int:
        """Remove it, and let go what it holds.

        Returns:
            Its hits.

        Raises:
            BrokerCommandError: it was removed before.
        """
        return int(self._control("remove_fault", fault=self.id)["hits"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"Fault({self.id}, {self.effect!r})"


class FaultSetter:
    """The part of a broker that sets faults."""

    _control: Callable[..., Any]

    def fault(
        self,
        *,
        api: str | Sequence[str] = (),
        node: int | Sequence[int] = (),
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        min_version: int | None = None,
        max_version: int | None = None,
        error: str | None = None,
        whole: bool = False,
        delay_ms: int | None = None,
        hold: bool = False,
        drop: bool = False,
        close: bool = False,
        reset: bool = False,
        truncate_bytes: int | None = None,
        black_hole: Literal["requests", "answers", "both"] | None = None,
        fragment_bytes: int | None = None,
        fragment_pause_ms: int = 0,
        corrupt: bool = False,
        corrupt_offset: int | None = None,
        corrupt_bytes: int = 1,
        throttle_ms: int | None = None,
        on: Literal["request", "answer"] | None = None,
        skip: int = 0,
        count: int | None = None,
        probability: float | None = None,
    ) -> Fault:
        """Make something go wrong for the requests that are selected. Exactly one effect is given.

        Args:
            api: Kafka's name of the API, or several; all if not given.
            node: the node's id, or several.
            client_id: the client's id.
            topic: a topic that the request names.
            partition: a partition of it.
            group: a group that the request names.
            transactional_id: a transactional id that the request names.
            min_version: from this version of the API on.
            max_version: up to this version.
            error: effect: an error is answered, by Kafka's name such as `"NOT_LEADER_OR_FOLLOWER"`. With a topic
                selected, Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords get it for the selected
                partitions only.
            whole: the error is for the whole request, whatever is selected.
            delay_ms: effect: it goes on so much later.
            hold: effect: it goes on when the fault is released or removed.
            drop: effect: it is lost; the connection goes on.
            close: effect: the connection is closed in order.
            reset: effect: the connection is reset (RST).
            truncate_bytes: effect: so many bytes of the answer are sent, then the connection is closed.
            black_hole: effect: nothing is read any more, nothing is answered any more, or both; the connection stays
                open.
            fragment_bytes: effect: the answer is sent in pieces of so many bytes.
            fragment_pause_ms: with so much time between.
            corrupt: effect: bits of the answer are flipped, behind its middle, where a Fetch has records.
            corrupt_offset: where instead, counted in bytes behind the length.
            corrupt_bytes: how many bytes.
            throttle_ms: effect: the answer says that the client is throttled, and nothing is read of it for that time.
            on: whether the request is hit before it is carried out (what is usual), or its answer after.
            skip: how many of these requests are let through first.
            count: how many are hit then; all if not given.
            probability: how likely each is hit, drawn from the broker's seed.

        Returns:
            The fault, to wait for, release and remove.

        Raises:
            ArgumentError: not exactly one effect is given.
            BrokerCommandError: a name does not exist, or what is given contradicts itself.
        """
        corrupts = corrupt or corrupt_offset is not None
        effects: dict[str, dict[str, object] | None] = {
            "error": None if error is None else {"error": error, "whole": whole},
            "delay": None if delay_ms is None else {"ms": delay_ms},
            "hold": {} if hold else None,
            "drop": {} if drop else None,
            "close": {} if close else None,
            "reset": {} if reset else None,
            "truncate": None if truncate_bytes is None else {"bytes": truncate_bytes},
            "black_hole": None if black_hole is None else {"way": black_hole},
            "fragment": None if fragment_bytes is None else {"bytes": fragment_bytes, "pause_ms": fragment_pause_ms},
            "corrupt": {"offset": corrupt_offset, "bytes": corrupt_bytes} if corrupts else None,
            "throttle": None if throttle_ms is None else {"ms": throttle_ms},
        }
        given = [(effect, arguments) for effect, arguments in effects.items() if arguments is not None]
        if len(given) != 1:
            found = ", ".join(effect for effect, _ in given) or "none"
            raise ArgumentError(f"a fault has exactly one effect of {', '.join(effects)}; given: {found}")
        ((effect, arguments),) = given
        when = _selector(api, node, client_id, topic, partition, group, transactional_id, min_version, max_version)
        what = {"effect": effect, **arguments}
        how = {"on": on, "skip": skip, "count": count, "probability": probability}
        return self._set({"when": when, "what": what, **how})

    def observe(
        self,
        *,
        api: str | Sequence[str] = (),
        node: int | Sequence[int] = (),
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        min_version: int | None = None,
        max_version: int | None = None,
        on: Literal["request", "answer"] = "request",
    ) -> Fault:
        """Count the requests that are selected, without changing anything: `observe(...).wait(3)` instead of a sleep.

        Args:
            api: Kafka's name of the API, or several; all if not given.
            node: the node's id, or several.
            client_id: the client's id.
            topic: a topic that the request names.
            partition: a partition of it.
            group: a group that the request names.
            transactional_id: a transactional id that the request names.
            min_version: from this version of the API on.
            max_version: up to this version.
            on: whether a request counts when it comes, or when it is answered.

        Returns:
            The observer, to wait for and remove.

        Raises:
            BrokerCommandError: a name does not exist, or what is given contradicts itself.
        """
        when = _selector(api, node, client_id, topic, partition, group, transactional_id, min_version, max_version)
        return self._set({"when": when, "what": {"effect": "observe"}, "on": on})

    def _set(self, fault: dict[str, Any]) -> Fault:
        effect = str(fault["what"]["effect"])
        return Fault(self._control, int(self._control("fault", fault=fault)["fault"]), effect)


def _selector(
    api: str | Sequence[str],
    node: int | Sequence[int],
    client_id: str | None,
    topic: str | None,
    partition: int | None,
    group: str | None,
    transactional_id: str | None,
    min_version: int | None,
    max_version: int | None,
) -> dict[str, object]:
    return {
        "apis": [api] if isinstance(api, str) else list(api),
        "nodes": [node] if isinstance(node, int) else list(node),
        "client_id": client_id,
        "topic": topic,
        "partition": partition,
        "group": group,
        "transactional_id": transactional_id,
        "min_version": min_version,
        "max_version": max_version,
    }
