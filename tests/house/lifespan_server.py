"""The names of FastAPI that the cookbook uses, and a server that ends the lifespan after SIGTERM, as uvicorn does."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any, NamedTuple


class JSONResponse(NamedTuple):
    """FastAPI's answer in JSON, whose content is encoded as there: without a `default`, and without NaN."""

    content: Any
    status_code: int = 200

    def encoded(self) -> bytes:
        body = json.dumps(self.content, allow_nan=False).encode()
        return b"HTTP/1.0 %d x\r\nContent-Length: %d\r\n\r\n%s" % (self.status_code, len(body), body)


Endpoint = Callable[[], Awaitable[JSONResponse]]


class FastAPI:
    """An application of endpoints that take no arguments."""

    def __init__(self, lifespan: "Callable[[FastAPI], AbstractAsyncContextManager[None]]") -> None:
        self.state = SimpleNamespace()
        self._lifespan = lifespan
        self._endpoints: dict[str, Endpoint] = {}

    def get(self, path: str) -> Callable[[Endpoint], Endpoint]:
        def register(endpoint: Endpoint) -> Endpoint:
            self._endpoints[path] = endpoint
            return endpoint

        return register

    async def serve(self) -> None:
        """Serve until SIGTERM; the port is printed once the lifespan has begun."""
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        async with self._lifespan(self):
            server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
            print(server.sockets[0].getsockname()[1], flush=True)
            await ended.wait()
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, path, _ = (await reader.readline()).decode().split(" ")
        writer.write((await self._endpoints[path]()).encoded())
        await writer.drain()
        writer.close()
