"""`RegisteredMetrics`, a base of the clients: metrics of the user's that are pushed to brokers."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from monedula._config.texts import is_utf8
from monedula.errors import ArgumentError, ClosedError

if TYPE_CHECKING:
    from monedula._monedula import MetricRegistry

_RESERVED = ("org.apache.kafka.", "monedula.")


class RegisteredMetrics:
    """Registers metrics for the brokers' subscriptions (KIP-1076)."""

    def _metrics_registry(self) -> "MetricRegistry":
        raise NotImplementedError

    def register_metric(
        self,
        name: str,
        read: Callable[[], float],
        *,
        kind: Literal["gauge", "counter"] = "gauge",
        unit: str = "",
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Have a metric of your own pushed to brokers that ask for it, with the client's own (KIP-714, KIP-1076).

        It is pushed if a broker's subscription has a prefix of its name. `read` is called at a push only, on another
        thread. If it raises, returns no finite number, or does not return within 5 s, that push goes without the
        metric, and the log says so once. A metric of the same name and attributes is replaced. Closing the client
        removes all of them.

        Args:
            name: the name, such as `"com.example.jobs.done"`.
            read: returns the value: a finite number.
            kind: `"gauge"` for the value of now, `"counter"` for a sum that only grows.
            unit: the unit, in the notation of UCUM as OpenTelemetry has it, such as `"By"`, `"ms"` or `"{job}"`.
            attributes: attributes of the value, such as `{"queue": "high"}`.

        Raises:
            ArgumentError: if an argument is not of its type, or the name is one of the client's own.
            ClosedError: if the client is closed.
        """
        if not callable(read):
            raise ArgumentError.of("read", read, "expected a function without arguments that returns a number")
        if kind not in ("gauge", "counter"):
            raise ArgumentError.of("kind", kind, "expected 'gauge' or 'counter'")
        if not isinstance(unit, str) or not is_utf8(unit):
            raise ArgumentError.of("unit", unit, "expected a text, such as 'ms'")
        identity = _identity(name, attributes)
        if not self._metrics_registry().register(*identity, read, kind == "counter", unit):
            raise ClosedError("the client is closed, and pushes no metrics any more")

    def unregister_metric(self, name: str, *, attributes: Mapping[str, str] | None = None) -> bool:
        """Stop pushing a metric that was registered.

        Args:
            name: its name.
            attributes: its attributes.

        Returns:
            Whether there was one.
        """
        return self._metrics_registry().unregister(*_identity(name, attributes))


def _identity(name: object, attributes: object) -> tuple[str, list[tuple[str, str]]]:
    if not isinstance(name, str) or not name or not is_utf8(name):
        raise ArgumentError.of("name", name, "expected the name of a metric, such as 'com.example.jobs.done'")
    if name.startswith(_RESERVED):
        raise ArgumentError.of("name", name, f"the client's own begin with {' or '.join(_RESERVED)}")
    pairs = list(attributes.items()) if isinstance(attributes, Mapping) else None if attributes is not None else []
    if pairs is None or not all(isinstance(text, str) and is_utf8(text) for pair in pairs for text in pair):
        raise ArgumentError.of("attributes", attributes, "expected a dict of texts, such as {'queue': 'high'}")
    return name, sorted(pairs)
