"""From the core to an event loop; a module of its own, because importing asyncio costs more than all the rest."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from monedula._monedula import Operation
from monedula.errors import ArgumentError


class Bridge:
    """Wakes a loop when an operation of the core is done: the core writes a byte to a socket that the loop watches."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[asyncio.Future[None], Operation] = {}
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        self._task: asyncio.Task[None] | None = None
        try:
            self._loop.add_reader(self._receiver, self._woken)
        except NotImplementedError:  # Windows' proactor loop watches sockets only by reading them
            self._task = self._loop.create_task(self._read())

    def time(self) -> float:
        """The loop's clock."""
        return self._loop.time()

    async def run(self, start: Callable[[int], Operation]) -> Any:
        """Start an operation and await its result. A cancelled wait cancels the operation.

        Raises:
            ArgumentError: in another loop than the first: its sockets are watched there.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise ArgumentError("this consumer belongs to another event loop; make one in each loop")
        operation = start(self._sender.fileno())
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting[done] = operation
        try:
            if not operation.done():
                await done
        except BaseException:
            operation.cancel()
            raise
        finally:
            self._waiting.pop(done, None)
        return operation.result()

    def close(self) -> None:
        """Free the sockets. Waits that are under way end with what their operations came to, or `ClosedError`."""
        for done in self._waiting:
            if not done.done():
                done.set_result(None)
        if self._task is None:
            self._loop.remove_reader(self._receiver)
        else:
            self._task.cancel()
        self._receiver.close()
        self._sender.close()

    def _woken(self) -> None:
        try:
            self._receiver.recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        self._finish()

    async def _read(self) -> None:
        while await self._loop.sock_recv(self._receiver, 4096):
            self._finish()

    def _finish(self) -> None:
        for done, operation in list(self._waiting.items()):
            if operation.done() and not done.done():
                done.set_result(None)
