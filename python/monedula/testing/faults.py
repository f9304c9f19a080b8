"""Faults that a test sets in the broker, and observers, with which a test waits for requests instead of sleeping."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from monedula._arguments import whole_number
from monedula.errors import ArgumentError, KafkaTimeoutError


class Fault:
    """A fault or an observer that is set in a broker. As a context manager it removes itself at the end.

    Attributes:
        id: the number of the fault in the broker.
        effect: the effect, such as `"error"` or `"observe"`.
    """

    def __init__(self, control: Callable[..., Any], id: int, effect: str) -> None:  # noqa: A002 - as the control port calls it
        self._control = control
        self.id = id
        self.effect = effect

    @property
    def hits(self) -> int:
        """The number of requests on which the fault took effect.

        Raises:
            BrokerCommandError: the fault was removed.
        """
        return int(self._control("fault_hits", fault=self.id)["hits"])

    def wait(self, hits: int = 1, timeout: float = 10.0) -> int:
        """Wait until the fault has taken effect on `hits` requests.

        Args:
            hits: the number of requests, counted since the fault was set.
            timeout: seconds to wait.

        Returns:
            The number of requests on which it took effect.

        Raises:
            KafkaTimeoutError: there were fewer requests within `timeout`.
            BrokerCommandError: the fault was removed.
        """
        waited = self._control("wait", fault=self.id, hits=hits, timeout_ms=round(timeout * 1000))
        if not waited["reached"]:
            raise KafkaTimeoutError(f"{self!r}: {waited['hits']} hits of {hits} in {timeout} s")
        return int(waited["hits"])

    def release(self) -> None:
        """Let the requests that it holds continue, and close the connections that it turned into black holes.

        The fault stays set.

        Raises:
            BrokerCommandError: the fault was removed.
        """
        self._control("release_fault", fault=self.id)

    def remove(self) -> int:
        """Remove the fault, and release it as `release` does.

        Returns:
            The number of requests on which it took effect.

        Raises:
            BrokerCommandError: the fault was removed before.
        """
        return int(self._control("remove_fault", fault=self.id)["hits"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"Fault({self.id}, {self.effect!r})"


_ARGUMENTS = {
    "delay": "delay_ms",
    "truncate": "truncate_bytes",
    "fragment": "fragment_bytes",
    "throttle": "throttle_ms",
}
"""The arguments of `fault` that are not named as their effect."""


class FaultSetter:
    """Base of `Broker`: the methods that set faults and observers."""

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
        scram: Literal["wrong_signature", "no_signature", "foreign_nonce"] | None = None,
        scram_iterations: int | None = None,
        on: Literal["request", "answer"] | None = None,
        skip: int = 0,
        count: int | None = None,
        probability: float | None = None,
    ) -> Fault:
        """Set a fault for the requests that match all given selectors. Exactly one effect must be given.

        Args:
            api: selector: Kafka's name of the API, or several; all APIs if not given.
            node: selector: the node id, or several.
            client_id: selector: the client id.
            topic: selector: a topic that the request names.
            partition: selector: a partition of that topic.
            group: selector: a group that the request names.
            transactional_id: selector: a transactional id that the request names.
            min_version: selector: the lowest version of the API.
            max_version: selector: the highest version of the API.
            error: effect: the response has this error, by Kafka's name such as `"NOT_LEADER_OR_FOLLOWER"`. With a topic
                selected, Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords get it for the selected
                partitions only, and Metadata for the topic.
            whole: whether the error is for the whole request, also with a topic selected.
            delay_ms: effect: the request or response continues after this time.
            hold: effect: the request or response continues when the fault is released or removed.
            drop: effect: the request or response is dropped; the connection stays usable.
            close: effect: the connection is closed (FIN).
            reset: effect: the connection is reset (RST).
            truncate_bytes: effect: this many bytes of the response, including its length field, are sent, then the
                connection is closed.
            black_hole: effect: the connection stays open, but requests are no longer read (`"requests"`), or they are
                handled and never answered (`"answers"`), or both; until the fault is released or removed.
            fragment_bytes: effect: the response is sent in pieces of this many bytes.
            fragment_pause_ms: the pause between two pieces.
            corrupt: effect: bytes of the response are inverted, in the middle of its second half, where a Fetch
                response has records.
            corrupt_offset: effect: as `corrupt`, but at this offset, in bytes after the length field.
            corrupt_bytes: the number of bytes to invert.
            throttle_ms: effect: the response has this throttle time, and the broker reads nothing more from the
                connection until it has passed (KIP-219).
            scram: effect: the broker's SCRAM messages have a wrong signature, none, or a nonce that does not begin with
                the client's. Only the message that has the field is changed.
            scram_iterations: effect: the broker's first SCRAM message asks for this many iterations.
            on: whether the fault takes effect on the request, before it is handled, or on the response (`"answer"`). By
                default `truncate_bytes`, `fragment_bytes`, `corrupt`, `throttle_ms` and those of SCRAM take effect on
                the response, and the other effects on the request.
            skip: the number of matching requests that pass before the fault takes effect.
            count: the number of requests on which it takes effect, 1 or more; all if not given.
            probability: the probability of an effect on each request, drawn from the broker's seed.

        Returns:
            The fault, to wait for, release and remove.

        Raises:
            ArgumentError: not exactly one effect is given, or a number is out of its range.
            BrokerCommandError: a name does not exist, or the arguments contradict each other.
        """
        check_numbers(
            delay_ms=(delay_ms, 0),
            truncate_bytes=(truncate_bytes, 0),
            fragment_bytes=(fragment_bytes, 1),
            fragment_pause_ms=(fragment_pause_ms, 0),
            corrupt_offset=(corrupt_offset, 0),
            corrupt_bytes=(corrupt_bytes, 1),
            throttle_ms=(throttle_ms, 0),
        )
        check_how_often(skip, count, probability)
        corrupts = corrupt or corrupt_offset is not None
        lies = scram is not None or scram_iterations is not None
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
            "scram": {"lie": scram, "iterations": scram_iterations} if lies else None,
        }
        effect, arguments = one_effect(effects, _ARGUMENTS)
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
        """Count the requests that match all given selectors, without an effect: `observe(...).wait(3)`, not a sleep.

        Args:
            api: Kafka's name of the API, or several; all APIs if not given.
            node: the node id, or several.
            client_id: the client id.
            topic: a topic that the request names.
            partition: a partition of that topic.
            group: a group that the request names.
            transactional_id: a transactional id that the request names.
            min_version: the lowest version of the API.
            max_version: the highest version of the API.
            on: whether a request counts when it arrives, or when it is answered.

        Returns:
            The observer, to wait for and remove.

        Raises:
            BrokerCommandError: a name does not exist, or the arguments contradict each other.
        """
        when = _selector(api, node, client_id, topic, partition, group, transactional_id, min_version, max_version)
        return self._set({"when": when, "what": {"effect": "observe"}, "on": on})

    def _set(self, fault: dict[str, Any]) -> Fault:
        effect = str(fault["what"]["effect"])
        return Fault(self._control, int(self._control("fault", fault=fault)["fault"]), effect)


def one_effect(
    effects: Mapping[str, dict[str, object] | None], names: Mapping[str, str]
) -> tuple[str, dict[str, object]]:
    """The effect that is given, with its arguments.

    Args:
        effects: all that there are; `None` for those that are not given.
        names: the arguments that are not named as their effect.
    """
    given = [(effect, arguments) for effect, arguments in effects.items() if arguments is not None]
    if len(given) != 1:
        found = ", ".join(names.get(effect, effect) for effect, _ in given) or "none"
        known = ", ".join(names.get(effect, effect) for effect in effects)
        raise ArgumentError(f"a fault has exactly one effect of {known}; given: {found}")
    return given[0]


def check_how_often(skip: object, count: object, probability: float | None) -> None:
    """Check on which of the requests that match a fault takes effect."""
    check_numbers(skip=(skip, 0), count=(count, 1))
    if probability is not None and not 0 < probability <= 1:
        raise ArgumentError.of("probability", probability, "expected a number above 0, up to 1")


def check_numbers(**numbers: tuple[object, int]) -> None:
    """Check arguments, each given with its smallest value. A fault with `count=0` would never take effect."""
    for name, (value, least) in numbers.items():
        number = whole_number(value)
        if value is not None and (number is None or number < least):
            raise ArgumentError.of(name, value, f"expected a whole number, {least} or more")


def _selector(api: str | Sequence[str], node: int | Sequence[int], *others: object) -> dict[str, object]:
    names = ("client_id", "topic", "partition", "group", "transactional_id", "min_version", "max_version")
    return {
        "apis": [api] if isinstance(api, str) else list(api),
        "nodes": [node] if isinstance(node, int) else list(node),
        **dict(zip(names, others, strict=True)),
    }
