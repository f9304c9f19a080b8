"""The part of `Broker` about its schema registry, which is imported when one is started."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from monedula.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from monedula.testing.registry import Registry


class RegistryOptions(TypedDict, total=False):
    """Options of `Broker(registry={...})`."""

    port: int
    """The port; any free one by default."""
    users: Mapping[str, str]
    """Names with their passwords: only these may ask (Basic)."""
    tokens: Mapping[str, str] | list[str]
    """Tokens that may ask (Bearer), alone or with the names of those who bear them."""
    oauth: bool
    """True if tokens of the broker's own may ask: those of `mint_token` and `token_endpoint`."""
    tls: bool
    """True for TLS, with a certificate of the broker's CA; by default as the broker has it."""
    client_auth: Literal["none", "requested", "required"]
    """Demand for a client's certificate of the broker's CA; `client_certificate` issues one."""


class RegistryControl:
    """The part of `Broker` about its schema registry. Not for use on its own."""

    _control: Callable[..., Any]
    _file: Callable[[str, str], Path]
    _registry: "Registry | None" = None

    @property
    def registry(self) -> "Registry":
        """The schema registry, to set faults in it and to see what clients have asked for.

        Raises:
            ArgumentError: the broker was started without `registry`.
            ForkError: in a forked child.
        """
        self._control("users")  # in a forked child an error, as for all others
        if self._registry is None:
            raise ArgumentError("the broker has no schema registry: start it with Broker(registry=True)")
        return self._registry

    @property
    def schema_registry_url(self) -> str:
        """The URL of the schema registry, as a value for `schema.registry.url`.

        Raises:
            ArgumentError: the broker was started without `registry`.
            ForkError: in a forked child.
        """
        return self.registry.url

    def _start_registry(
        self, options: RegistryOptions, host: str, seed: int, data_dir: str | Path | None, *, has_tls: bool
    ) -> None:
        from monedula.testing.registry import Registry

        given = dict(options)
        oauth, client_auth = given.pop("oauth", False), given.pop("client_auth", "none")
        files = self._registry_files(str(client_auth)) if given.pop("tls", has_tls) else None
        if files is None and client_auth != "none":
            raise ConfigError("registry: client_auth needs TLS, which the broker has not", key="registry")
        self._registry = Registry(
            host=host,
            seed=seed,
            data_dir=data_dir,
            tls_files=files,
            client_auth=client_auth,  # type: ignore[arg-type]
            _verified=self._bearer if oauth else None,
            **given,  # type: ignore[arg-type]
        )

    def _registry_files(self, client_auth: str) -> tuple[Path, Path, Path | None]:
        issued = self._control("server_certificate")
        authority = self._file("ca.pem", self._control("ca")["certificate"]) if client_auth != "none" else None
        certificate = self._file("registry.pem", issued["certificate"])
        return certificate, self._file("registry.key", issued["key"]), authority

    def _bearer(self, token: str) -> str | None:
        subject = self._control("check_token", token=token)["subject"]
        return None if subject is None else str(subject)

    def _stop_registry(self) -> None:
        if self._registry is not None:
            self._registry.stop()


def registry_options(given: object) -> RegistryOptions | None:
    """The options of the argument `registry`; `None` for no registry.

    Raises:
        ConfigError: it is neither a boolean nor a dict of options that there are. Passwords are not shown.
    """
    if given is None or isinstance(given, bool):
        return RegistryOptions() if given else None
    names = RegistryOptions.__annotations__
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ConfigError(f"registry: expected True or a dict of options, not a value of type {kind}", key="registry")
    for name, value in given.items():
        if name not in names:
            raise ConfigError(f"registry: there is no option {name!r}; there are {', '.join(names)}", key="registry")
        _check(name, value)
    return RegistryOptions(**given)  # type: ignore[typeddict-item]


def _check(name: str, value: object) -> None:
    expected = {
        "port": (int, "a number"),
        "users": (Mapping, 'names with their passwords, such as {"anna": "secret"}'),
        "tokens": ((Mapping, list, tuple), 'a list of tokens, or a dict such as {"token": "anna"}'),
        "oauth": (bool, "True or False"),
        "tls": (bool, "True or False"),
        "client_auth": (str, '"none", "requested" or "required"'),
    }
    kinds, what = expected[name]
    if not isinstance(value, kinds) or (name == "port" and isinstance(value, bool)):  # type: ignore[arg-type]
        raise ConfigError(f"registry: {name} is {what}, not of type {type(value).__name__}", key="registry")
    texts = [*value, *(value.values() if isinstance(value, Mapping) else ())] if name in ("users", "tokens") else []  # type: ignore[misc]
    if not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"registry: {name} is {what}", key="registry")
