"""Base class of `Admin` and `AsyncAdmin`, and the decorator that makes one function a method of both."""

from collections.abc import Callable, Coroutine
from inspect import signature
from types import NoneType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, get_args, overload

from monedula._config.client_names import ClientNames, names_in
from monedula._migration_hints import named_by
from monedula._monedula import AdminCore, MetricRegistry, Operation
from monedula._registered_metrics import RegisteredMetrics
from monedula._reprs import of_client
from monedula.config import Settings, Unpicklable, raw_settings
from monedula.errors import ClosedError

Arguments = ParamSpec("Arguments")
C = TypeVar("C", bound=type)
T = TypeVar("T")

Function = Callable[..., Any]


class Call(NamedTuple, Generic[T]):
    """A call with checked arguments, under way."""

    operation: "Operation[Any]"
    end: Callable[[Any], T]
    """Converts the core's result into that of the call; raises its errors."""


class Method(Generic[Arguments, T]):
    """Decorator of a function that checks its arguments and returns a `Call`; both clients have it as a method.

    For type checkers, `__get__` has the method's type in each client. At runtime, `with_methods` replaces it in each
    client by an ordinary function, for `help()`, `inspect` and subclasses.
    """

    def __init__(self, call: Callable[Concatenate[Any, Arguments], Call[T]]) -> None:
        self.call = call

    @overload
    def __get__(self, client: "BlockingClient", owner: type) -> Callable[Arguments, T]: ...
    @overload
    def __get__(self, client: "AsyncioClient", owner: type) -> Callable[Arguments, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(
        self, client: None, owner: "type[BlockingClient]"
    ) -> "Callable[Concatenate[BlockingClient, Arguments], T]": ...
    @overload
    def __get__(
        self, client: None, owner: "type[AsyncioClient]"
    ) -> "Callable[Concatenate[AsyncioClient, Arguments], Coroutine[Any, Any, T]]": ...
    def __get__(self, client: object, owner: type) -> Any:
        return self


def with_methods(wrap: Callable[[Function], Function]) -> Callable[[C], C]:
    """Decorate a client: each `Method` of its bases becomes a function made by `wrap`."""

    def decorate(client: C) -> C:
        for base in client.__mro__:
            for name, method in vars(base).items():
                if isinstance(method, Method):
                    setattr(client, name, _described(wrap(named_by(client, method.call)), method.call, client))
        return client

    return decorate


def _described(method: Function, call: Function, client: type) -> Function:
    """Give `method` the name, docstring and signature of `call`, with the return type of the `Call`."""
    described = signature(call)
    (result,) = (None if each is NoneType else each for each in get_args(described.return_annotation))
    method.__name__, method.__qualname__ = call.__name__, f"{client.__qualname__}.{call.__name__}"
    method.__module__, method.__doc__ = client.__module__, call.__doc__
    method.__annotations__ = call.__annotations__ | {"return": result}
    method.__signature__ = described.replace(return_annotation=result)  # type: ignore[attr-defined]
    return method


class AdminBase(RegisteredMetrics, Unpicklable):
    """Base of `Admin` and `AsyncAdmin`."""

    _is_closed = False
    _names = ClientNames()

    def __init__(self, config: Settings | None = None, /, **settings: Any) -> None:
        try:
            raw = raw_settings(config, settings, in_place_of_text="topics go into its methods")
        finally:
            del config, settings  # keeps passwords out of tracebacks that show locals
        self._names = names_in(raw)
        self._core = AdminCore(raw)
        self._security = self._core.security()
        self._transactions = self._core.transactions()

    def __repr__(self) -> str:
        """Brokers, and whether it is closed."""
        return of_client(self, self._names.servers, ["closed"] if self._is_closed else [])

    def metrics(self) -> dict[str, int]:
        """Return counters since the client was created, such as connections, requests and bytes."""
        return dict(self._core.metrics())

    def _metrics_registry(self) -> MetricRegistry:
        return self._core.metric_registry()

    def _check_open(self) -> None:
        """Raise if the client is closed; else the block of a `with` would only fail later."""
        if self._is_closed:
            raise ClosedError("the admin is closed")


class BlockingClient(AdminBase):
    """Marks the client whose methods wait for their results, for type checkers."""


class AsyncioClient(AdminBase):
    """Marks the client whose methods are awaited."""
