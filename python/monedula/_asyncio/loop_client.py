"""`LoopClient`, the base of the clients for asyncio. It imports asyncio at the first call that needs a loop."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monedula._asyncio.client_loop import ClientLoop


class LoopClient:
    """Awaits a client's operations in the event loop of its first call."""

    _client_loop: "ClientLoop | None" = None

    def _loop(self) -> "ClientLoop":
        if self._client_loop is None:
            from monedula._asyncio.client_loop import ClientLoop

            self._client_loop = ClientLoop()
        self._client_loop.check()
        return self._client_loop


def current_holder() -> int:
    """The holder number of the current task; 0 outside of a task."""
    from monedula._asyncio.holders import holder

    return holder()
