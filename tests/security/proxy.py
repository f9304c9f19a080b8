"""A proxy that speaks SOCKS5 and CONNECT on one port, and knows names that nobody else does."""

import base64
import contextlib
import socket
import socketserver
import threading
from dataclasses import dataclass, field
from typing import Self

SOURCE = "127.0.0.9"
"""The address from which it connects, by which a server sees who came through it."""

UNKNOWN_NAME = "kafka.invalid"
"""A name that is never found (RFC 6761): who connects to it has asked a proxy for it."""


@dataclass
class ForwardProxy:
    """A proxy on a loopback port, in threads; `with` starts and ends it.

    Attributes:
        names: addresses of names that only it knows.
        login: the user and password that it asks for, if it does.
        is_silent: whether it takes connections and says nothing.
        asked: what connections were asked for, as host:port, in order.
    """

    names: dict[str, str] = field(default_factory=dict)
    login: tuple[str, str] | None = None
    is_silent: bool = False
    asked: list[str] = field(default_factory=list)
    _server: socketserver.ThreadingTCPServer | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError, EOFError):
                    proxy._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> str:
        """Its host and port."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.server_address[1]}"

    def url(self, scheme: str, login: str = "") -> str:
        """Its URL, with the user and password that it asks for, or with others."""
        login = login or (":".join(self.login) if self.login else "")
        return f"{scheme}://{login}{'@' if login else ''}{self.address}"

    def _serve(self, client: socket.socket) -> None:
        if self.is_silent:
            self._ended.wait()
            return
        first = _take(client, 1)
        host, port = self._socks(client) if first == b"\x05" else self._http(client, first)
        self.asked.append(f"{host}:{port}")
        try:
            server = socket.create_connection((self.names.get(host, host), port), source_address=(SOURCE, 0))
        except OSError:
            client.sendall(b"\x05\x04\x00\x01" + bytes(6) if first == b"\x05" else b"HTTP/1.1 502 No Way\r\n\r\n")
            return
        with server:
            client.sendall(b"\x05\x00\x00\x01" + bytes(6) if first == b"\x05" else b"HTTP/1.1 200 Connected\r\n\r\n")
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join()

    def _socks(self, client: socket.socket) -> tuple[str, int]:
        methods = _take(client, _take(client, 1)[0])
        wanted = 2 if self.login else 0
        client.sendall(bytes([5, wanted if wanted in methods else 0xFF]))
        if wanted not in methods:
            raise EOFError
        if self.login:
            _take(client, 1)
            user = _take(client, _take(client, 1)[0]).decode()
            password = _take(client, _take(client, 1)[0]).decode()
            client.sendall(b"\x01\x00" if (user, password) == self.login else b"\x01\x01")
            if (user, password) != self.login:
                raise EOFError
        kind = _take(client, 4)[3]
        if kind == 3:
            host = _take(client, _take(client, 1)[0]).decode()
        else:
            family, length = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, _take(client, length))
        return host, int.from_bytes(_take(client, 2), "big")

    def _http(self, client: socket.socket, head: bytes) -> tuple[str, int]:
        while not head.endswith(b"\r\n\r\n"):
            head += _take(client, 1)
        lines = head.decode().split("\r\n")
        if self.login:
            expected = f"Basic {base64.b64encode(':'.join(self.login).encode()).decode()}"
            if f"Proxy-Authorization: {expected}" not in lines:
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                raise EOFError
        host, _, port = lines[0].split(" ")[1].rpartition(":")
        return host.strip("[]"), int(port)


def _take(client: socket.socket, count: int) -> bytes:
    taken = b""
    while len(taken) < count:
        more = client.recv(count - len(taken))
        if not more:
            raise EOFError
        taken += more
    return taken


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
