"""Faults of the registry, and observers: the words are those of `Broker.fault`, where there are such."""

import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from monedula.errors import ArgumentError, BrokerCommandError
from monedula.testing.faults import Fault, check_how_often, check_numbers, one_effect

On = Literal["request", "answer"]

_REMOVED_KEPT = 100


@dataclass(slots=True)
class SetFault:
    """A fault that is set, with how often it matched and took effect."""

    number: int
    effect: str
    arguments: dict[str, Any]
    method: str | None
    path: str
    on: str
    skip: int
    count: int | None
    probability: float | None
    matched: int = 0
    hits: int = 0
    is_removed: bool = False
    releases: int = 0

    def is_due(self, method: str, path: str, draw: Callable[[], float]) -> bool:
        """Return true if it takes effect on this request, which counts."""
        if self.method not in (None, method) or not fnmatchcase(path, self.path):
            return False
        self.matched += 1
        if self.matched <= self.skip or (self.count is not None and self.hits >= self.count):
            return False
        if self.probability is not None and draw() >= self.probability:
            return False
        self.hits += 1
        return True


@dataclass
class Faults:
    """All that are set, and who waits for them."""

    seed: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed).random
        self._set: dict[int, SetFault] = {}
        self._removed: deque[SetFault] = deque(maxlen=_REMOVED_KEPT)
        self._last = 0
        self._is_stopped = False

    # Effects on requests

    def met(self, on: str, method: str, path: str) -> SetFault | None:
        """The fault of a request or an answer, if there is one: the first that was set. All observers count."""
        met = None
        with self.changed:
            for each in self._set.values():
                if each.on == on and (met is None or each.effect == "observe"):
                    is_due = each.is_due(method, path, self._draw)
                    met = each if is_due and each.effect != "observe" else met
            self.changed.notify_all()
        return met

    def hold(self, fault: SetFault, timeout: float | None = None) -> None:
        """Wait until a fault is released or removed, the registry stops, or the time is over."""
        with self.changed:
            releases = fault.releases
            self.changed.wait_for(lambda: fault.is_removed or fault.releases > releases or self._is_stopped, timeout)

    def stop(self) -> None:
        """Let everything go on that is held."""
        with self.changed:
            self._is_stopped = True
            self.changed.notify_all()

    # Commands of the broker, as `Fault` gives them

    def control(self, command: str, **arguments: Any) -> Any:
        """Execute a command of `Fault`."""
        with self.changed:
            fault = self._set.get(arguments["fault"])
            if fault is None:
                raise BrokerCommandError(f"there is no fault {arguments['fault']}")
            if command == "wait":
                wanted = arguments["hits"]
                reached = self.changed.wait_for(
                    lambda: fault.hits >= wanted or fault.is_removed, arguments["timeout_ms"] / 1000
                )
                return {"reached": reached and fault.hits >= wanted, "hits": fault.hits}
            if command == "remove_fault":
                fault.is_removed = True
                del self._set[fault.number]
                self._removed.append(fault)
            elif command == "release_fault":
                fault.releases += 1
            self.changed.notify_all()
            return {"hits": fault.hits}

    def set(self, effect: str, arguments: dict[str, Any], **selects: Any) -> Fault:
        """Set a fault."""
        with self.changed:
            self._last += 1
            fault = SetFault(self._last, effect, arguments, **selects)
            self._set[fault.number] = fault
        return Fault(self.control, fault.number, effect)

    def all(self) -> list[Fault]:
        """The faults that are set."""
        with self.changed:
            return [Fault(self.control, each.number, each.effect) for each in self._set.values()]

    def told(self) -> list[SetFault]:
        """The faults that are set, and the last ones that were removed, in the order in which they were set."""
        with self.changed:
            return sorted([*self._removed, *self._set.values()], key=lambda each: each.number)


class RegistryFaults:
    """The methods of `Registry` that set faults and observers."""

    _faults: Faults

    def fault(
        self,
        *,
        method: str | None = None,
        path: str = "*",
        status: int | None = None,
        error_code: int | None = None,
        message: str = "a fault of the test",
        body: bytes | str | None = None,
        delay_ms: int | None = None,
        hold: bool = False,
        drop: bool = False,
        close: bool = False,
        reset: bool = False,
        truncate_bytes: int | None = None,
        on: On | None = None,
        skip: int = 0,
        count: int | None = None,
        probability: float | None = None,
    ) -> Fault:
        """Set a fault for the requests that match the selectors. Exactly one effect must be given.

        Args:
            method: selector: the request's method, such as `"POST"`; all if not given.
            path: selector: a path, in which `*` stands for anything: `"/subjects/*/versions"`. It is compared with the
                path of the request as it was sent, without its query.
            status: effect: the answer is this status, with an error of Confluent's form.
            error_code: the code of that error; by default the status with `01` behind it, of a 404 40403.
            message: the message of that error.
            body: effect: the answer is these bytes, with the status 200, or `status`.
            delay_ms: effect: the request or answer goes on after this time.
            hold: effect: the request or answer goes on when the fault is released or removed.
            drop: effect: nothing is answered, and the connection stays open, until the fault is released or removed.
            close: effect: the connection is closed (FIN).
            reset: effect: the connection is reset (RST).
            truncate_bytes: effect: this many bytes of the answer are sent, with its head, then the connection is
                closed.
            on: whether the fault takes effect on the request, before it is handled, or on the answer (`"answer"`): what
                was to be registered is registered then. By default `truncate_bytes` takes effect on the answer, and the
                other effects on the request.
            skip: the number of matching requests that pass before the fault takes effect.
            count: the number of requests on which it takes effect, 1 or more; all if not given.
            probability: the probability of an effect on each request.

        Returns:
            The fault, to wait for, release and remove.

        Raises:
            ArgumentError: not exactly one effect is given, or an argument is out of its range.
        """
        check_numbers(delay_ms=(delay_ms, 0), truncate_bytes=(truncate_bytes, 0), status=(status, 100))
        check_how_often(skip, count, probability)
        if status is not None and status > 599:
            raise ArgumentError.of("status", status, "expected a status of HTTP, 100 to 599")
        answers = None
        if body is not None:
            answers = {"status": status or 200, "body": body.encode() if isinstance(body, str) else bytes(body)}
        elif status is not None:
            code = error_code or (40403 if status == 404 else status * 100 + 1)
            answers = {"status": status, "code": code, "message": message}
        effects: dict[str, dict[str, Any] | None] = {
            "answer": answers,
            "delay": None if delay_ms is None else {"ms": delay_ms},
            "hold": {} if hold else None,
            "drop": {} if drop else None,
            "close": {} if close else None,
            "reset": {} if reset else None,
            "truncate": None if truncate_bytes is None else {"bytes": truncate_bytes},
        }
        effect, arguments = one_effect(effects, _NAMES)
        when = on or ("answer" if effect == "truncate" else "request")
        if effect == "truncate" and on == "request":
            raise ArgumentError("truncate_bytes is about the answer, not on='request'")
        return self._faults.set(
            effect,
            arguments,
            method=method,
            path=path,
            on=when,
            skip=skip,
            count=count,
            probability=probability,
        )

    def observe(self, *, method: str | None = None, path: str = "*", on: On = "request") -> Fault:
        """Count the requests that match, without an effect: `observe(path="/schemas/ids/*").wait(3)`, not a sleep.

        Args:
            method: the request's method; all if not given.
            path: a path, in which `*` stands for anything.
            on: whether a request counts when it arrives, or when it is answered.

        Returns:
            The observer, to wait for and remove.
        """
        selects: dict[str, Any] = {"method": method, "path": path, "on": on}
        return self._faults.set("observe", {}, **selects, skip=0, count=None, probability=None)

    def faults(self) -> list[Fault]:
        """The faults and observers that are set."""
        return self._faults.all()

    def remove_faults(self) -> None:
        """Remove all faults and observers, and release what they hold."""
        for fault in self._faults.all():
            fault.remove()


_NAMES = {"answer": "status or body", "delay": "delay_ms", "truncate": "truncate_bytes"}
"""The arguments of `fault` that are not named as their effect."""
