"""The asyncio producer: the same verbs, awaited."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from monedula._lines import Outgoing, behind, stand
from monedula._monedula import BatchFuture, SendFuture
from monedula._transactions import AsyncTransactions
from monedula.errors import BufferFullError, KafkaTimeoutError
from monedula.producer import LAST_WORDS_SECONDS, ProducerBase, check_name, deadline_of, seconds_left
from monedula.reports import BatchReport

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from monedula._asked import Call
    from monedula._bridge import Bridge

_ROOM = "room"


class AsyncProducer(ProducerBase, AsyncTransactions):
    """Sends records, and whole tables, to Kafka from an event loop.

    Arguments as `Producer`. `send` gives a future at once, and `await` of it the record's place; a wait that is
    cancelled does not end the sending. The loop never waits: where `buffer.memory` is full, records stand in a line, in
    their order, for up to `max.block.ms`. Whoever sends very many awaits something in between, or the line holds them
    all.

    Examples:
        async with AsyncProducer({"bootstrap.servers": "localhost:9092"}) as producer:
            print(await producer.send("orders", b"a value", key="a key"))
    """

    _waits = False
    _bridge: "Bridge | None" = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        await self.close(LAST_WORDS_SECONDS if interrupted else None)

    # Not a coroutine function: the transaction knows of a call that is never awaited.
    def send_batch(self, data: Any, topic: str | None = None) -> "Coroutine[Any, Any, BatchReport]":
        """Send every row of Arrow data, and wait until all are acknowledged; arguments as `Producer.send_batch`.

        Nothing is sent before it is awaited. A wait that is cancelled does not end the sending.

        Raises:
            BatchSendError: if rows were given up; its `report` says which and why.
            ArgumentError: as `Producer.send_batch`.
        """
        return self._send_rows(self._call("send_batch"), data, topic)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all that was sent before is done; as `Producer.flush`."""
        deadline = deadline_of(timeout)
        if not await self._lines_end(deadline):
            raise KafkaTimeoutError(f"flush() did not end within {timeout} s: records still wait for room")
        await self._loop().run(lambda fd: self._start_flush(fd, seconds_left(deadline)))

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of a topic; as `Producer.partitions_for`."""
        check_name(topic)
        found: list[int] = await self._loop().run(lambda fd: self._start_partitions_for(fd, topic, timeout))
        return found

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, then close the connections; as `Producer.close`. May be called again."""
        deadline = deadline_of(timeout)
        try:
            await self._lines_end(deadline)
        finally:
            await self._loop().run(lambda fd: self._start_close(fd, seconds_left(deadline)))
            if self._bridge is not None:
                self._bridge.close()
                self._bridge = None

    async def _send_rows(self, call: "Call | None", data: Any, topic: str | None) -> BatchReport:
        from monedula._asked import Asked

        # Also of a transaction that was begun since.
        call = call or self._call("send_batch") or Asked().add("send_batch")
        future: BatchFuture = await call.in_thread(self._rows, data, topic)
        return await future

    _send_rows.__qualname__ = "AsyncProducer.send_batch"  # what Python warns of if it is never awaited

    def _pass(self, record: Outgoing) -> SendFuture:
        stands = behind(self._lines, _ROOM, record)
        if stands is not None:
            return stands
        self._set_detour(self._partitioner is not None)
        try:
            return self._send(0.0, 0.0, None, *record)
        except BufferFullError:
            # From here on whatever is sent comes by here, and stands behind.
            self._set_detour(True)
            return stand(self._lines, _ROOM, record, self._send_after)

    async def _lines_end(self, deadline: float | None) -> bool:
        return not self._lines or await self._in_thread(self._lines.wait, seconds_left(deadline))

    async def _in_thread(self, call: "Callable[..., Any]", *arguments: Any) -> Any:
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)

    def _loop(self) -> "Bridge":
        if self._bridge is None:
            from monedula._bridge import Bridge

            self._bridge = Bridge()
        return self._bridge
