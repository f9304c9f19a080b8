"""Names of a client in telemetry and in its repr: its `client.id`, its group, and its bootstrap servers."""

from collections.abc import Iterable
from typing import NamedTuple


class ClientNames(NamedTuple):
    """Names that tell a client from others."""

    client_id: str = "monedula"
    group: str | None = None
    server: tuple[str, int | None] | None = None
    """Host and port of the bootstrap server, if it is the only one."""
    servers: str = ""
    """All bootstrap servers as they were given."""


def names_in(raw: Iterable[tuple[str, str]]) -> ClientNames:
    settings = {key.strip().replace("_", "."): value for key, value in raw}
    given = settings.get("bootstrap.servers", settings.get("metadata.broker.list", ""))
    servers = given.split(",")
    return ClientNames(
        settings.get("client.id", ClientNames().client_id),
        settings.get("group.id"),
        _address(servers[0]) if len(servers) == 1 else None,
        given,
    )


def _address(server: str) -> tuple[str, int | None] | None:
    host, colon, port = server.strip().rpartition("://")[2].rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        return None
    return host.strip("[]"), int(port)


def names_of(client: object) -> ClientNames:
    names = getattr(client, "_names", None)
    return names if isinstance(names, ClientNames) else ClientNames()
