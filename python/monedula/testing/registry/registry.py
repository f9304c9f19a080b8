"""`Registry`, the schema registry of the embedded broker."""

import os
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

from monedula._arguments import whole_number
from monedula._process.threads import no_thread
from monedula.errors import BrokerCommandError, BrokerStartError, ClosedError, ConfigError
from monedula.formats.registry import text_of
from monedula.testing.registry.access import Access
from monedula.testing.registry.errors import ApiError
from monedula.testing.registry.faults import Faults, RegistryFaults
from monedula.testing.registry.kept import FILE
from monedula.testing.registry.server import RegistryRequest, Server


class Registry(RegistryFaults):
    """A schema registry with Confluent's API, on threads of this process, listening on loopback.

    `Broker(registry=True)` starts one with the broker. It keeps Avro, Protobuf and JSON Schema, checks whether new
    versions are compatible, and any client of Confluent's API can use it. Without a broker it is a context manager of
    its own, or `stop` ends it.

    Args:
        host: the address on which it listens.
        port: the port; 0 for any free one.
        users: names with their passwords: only these may ask (Basic).
        tokens: tokens that may ask (Bearer), alone or with the names of those who bear them.
        tls_files: the files of a certificate and its key, and of the authority of clients' certificates: it speaks TLS
            then.
        client_auth: whether clients show a certificate.
        data_dir: a directory in which it keeps what was registered, in the file `schema-registry.json`; without it, in
            memory only.
        seed: the seed of faults with a probability.

    Raises:
        ConfigError: an argument is invalid.
        BrokerStartError: the port is in use, or a file cannot be read.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        users: Mapping[str, str] | None = None,
        tokens: Mapping[str, str] | Sequence[str] = (),
        tls_files: tuple[Path, Path, Path | None] | None = None,
        client_auth: Literal["none", "requested", "required"] = "none",
        data_dir: str | Path | None = None,
        seed: int = 0,
        _verified: Callable[[str], str | None] | None = None,
    ) -> None:
        if whole_number(port) is None or not 0 <= port <= 65535:
            raise ConfigError(f"registry: port is a number from 0 to 65535, not {port!r}", key="registry")
        named = dict(tokens) if isinstance(tokens, Mapping) else {token: f"token {n}" for n, token in enumerate(tokens)}
        access = Access(dict(users or {}), named, _verified)
        self._faults = Faults(seed)
        try:
            tls = None if tls_files is None else _context(tls_files, client_auth)
            file = None if data_dir is None else Path(data_dir) / FILE
            self._server = Server((host, port), access, self._faults, tls, file)
        except OSError as error:
            where = f"{host}:{port}"
            raise BrokerStartError(f"the registry cannot start on {where}: {error.strerror or error}") from None
        self._process = os.getpid()
        self._is_stopped = False
        address = f"[{host}]" if ":" in host else host
        scheme = "http" if tls is None else "https"
        self._url = f"{scheme}://{address}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve, name="monedula-registry", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._server.server_close()
            raise no_thread("the registry", error) from error

    @property
    def url(self) -> str:
        """The URL, as a value for `schema.registry.url`."""
        return self._url

    def register(
        self,
        subject: str,
        schema: Any,
        *,
        kind: Literal["AVRO", "PROTOBUF", "JSON"] = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
        **more: Any,
    ) -> int:
        """Register a schema, without a client.

        Args:
            subject: such as `"orders-value"`.
            schema: its text, or what `json.loads` makes of it; or a `monedula.Avro` with the schema.
            kind: what it is.
            references: what it refers to: a name, and the subject and version that are meant.
            more: further parts of the request, such as `metadata` and `ruleSet`.

        Returns:
            The schema's id.

        Raises:
            BrokerCommandError: the registry refuses it; the message says why.
            ArgumentError: `schema` is none of these.
        """
        text = schema if isinstance(schema, str) else text_of(schema, kind)
        body = {"schema": text, "schemaType": kind, **more}
        names = ("name", "subject", "version")
        body["references"] = [dict(zip(names, reference, strict=True)) for reference in references]
        return int(self.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)["id"])

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level of compatibility of a subject, or of all that have none of their own.

        Args:
            level: such as `"FULL_TRANSITIVE"`; `"NONE"` checks nothing.
            subject: the subject; all if left out.

        Raises:
            BrokerCommandError: there is no such level.
        """
        scope = "" if subject is None else f"/{quote(subject, safe='')}"
        self.ask("PUT", f"/config{scope}", {"compatibility": level})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the registry to a request, without HTTP, credentials and faults.

        Args:
            method: such as `"GET"`.
            path: such as `"/subjects"`.
            body: what would be sent as JSON.

        Raises:
            BrokerCommandError: the answer is an error; the message has its code.
        """
        try:
            return self._server.answer(method, path, body)
        except ApiError as error:
            raise BrokerCommandError(f"{error.code}: {error.message}") from None

    def requests(self) -> list[RegistryRequest]:
        """The requests that clients have sent, the oldest first; of very many the newest."""
        with self._server.lock:
            return list(self._server.requests)

    def stop(self) -> None:
        """Close all connections and stop. A second call does nothing.

        Without `data_dir` what was registered is lost.
        """
        if self._is_stopped or os.getpid() != self._process:
            return
        self._is_stopped = True
        self._server.stop(self._thread)

    def __enter__(self) -> Self:
        if self._is_stopped:
            raise ClosedError("the registry has stopped")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Registry({self.url!r})"


def _context(files: tuple[Path, Path, Path | None], client_auth: str) -> ssl.SSLContext:
    needs = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
    if client_auth not in needs:
        raise ConfigError(f"client_auth: {client_auth!r} is none of {', '.join(needs)}", key="client_auth")
    certificate, key, authority = files
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.verify_mode = needs[client_auth]
    if authority is not None:
        context.load_verify_locations(authority)
    return context
