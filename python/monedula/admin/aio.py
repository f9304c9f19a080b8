"""`AsyncAdmin`, the admin client for asyncio: the methods of `Admin`, awaited."""

from typing import Any, Self

from monedula._asyncio.loop_client import LoopClient
from monedula._migration_hints import tells
from monedula.admin.calls import AsyncioClient, Function, with_methods
from monedula.admin.methods import AdminMethods

LAST_PUSH_SECONDS = 1.0
"""The time of the last push of metrics (KIP-714) when a client closes."""


def _awaited(call: Function) -> Function:
    async def method(self: "AsyncAdmin", *args: Any, **kwargs: Any) -> Any:
        loop = self._loop()
        operation, end = call(self, *args, **kwargs)
        return end(await loop.outcome(operation))

    return method


@tells
@with_methods(_awaited)
class AsyncAdmin(AdminMethods, AsyncioClient, LoopClient):
    """Administers a cluster from an event loop.

    Arguments, results and errors as `Admin`. Cancelling a wait ends the call; requests that were sent before may still
    take effect. A client belongs to one event loop.

    Examples:
        async with AsyncAdmin({"bootstrap.servers": "localhost:9092"}) as admin:
            await admin.create_topics("orders", partitions=6)
    """

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; current calls end with `ClosedError`. May be called again."""
        self._is_closed = True
        push = self._core.last_push(LAST_PUSH_SECONDS)
        try:
            if push is not None:
                await self._loop().outcome(push)
        finally:
            self._core.close(0.0)
