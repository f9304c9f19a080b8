"""`LoopClient`, the base of the clients for asyncio, and `HoldingClient`, that of consumers.

They import asyncio at the first call that needs a loop.
"""

from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import ref

from monedula.errors import ForkError

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


class HoldingClient(LoopClient):
    """Tells the core when tasks end, which may hold batches of it."""

    _known: set[int] | None = None  # holder numbers of the tasks that have an end-of-task callback

    def _holder(self) -> int:
        """The holder number of the current task. The end of the task is reported to the core."""
        holder = current_holder()
        if self._known is None:
            self._known = set()
        if holder and holder not in self._known:
            from monedula._asyncio.holders import when_task_ends

            self._known.add(holder)
            when_task_ends(ref(self), holder, HoldingClient._task_ended)
        return holder

    def _task_ended(self, holder: int) -> None:
        if self._known is not None:
            self._known.discard(holder)
        # In a forked child the copies of the parent's tasks end too; there the core raises ForkError.
        with suppress(ForkError):
            self._holder_ended(holder)

    def _holder_ended(self, holder: int, /) -> None:
        """What the core is told."""
        raise NotImplementedError


def current_holder() -> int:
    """The holder number of the current task; 0 outside of a task."""
    from monedula._asyncio.holders import holder

    return holder()
