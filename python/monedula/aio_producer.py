"""`AsyncProducer`, the producer for asyncio: the methods of `Producer`, awaited."""

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

    Arguments as `Producer`. `send` returns a future at once; awaiting it gives the record's topic, partition and
    offset. Cancelling that wait does not cancel the record. `send` never blocks the loop: while `buffer.memory` is
    full, records wait in a queue, in their order, for up to `max.block.ms`. The queue has no limit: when you send very
    many records, await some of the futures in between.

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

    # Not a coroutine function: so the transaction knows of a call whose coroutine is never awaited.
    def send_batch(self, data: Any, topic: str | None = None) -> "Coroutine[Any, Any, BatchReport]":
        """Send every row of Arrow data, and wait until all are acknowledged; arguments as `Producer.send_batch`.

        Nothing is sent before the coroutine is awaited. Cancelling the wait does not cancel the rows.

        Raises:
            BatchSendError: if rows failed; its `report` has the errors.
            ArgumentError: as `Producer.send_batch`.
        """
        return self._send_rows(self._call("send_batch"), data, topic)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all records sent before are acknowledged or failed; as `Producer.flush`."""
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
        """Deliver the records that were sent, then close the connections; as `Producer.close`. May be called again."""
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

        # Without a transaction at the time of the call, the call belongs to one that was begun before the await.
        call = call or self._call("send_batch") or Asked().add("send_batch")
        future: BatchFuture = await call.in_thread(self._rows, data, topic)
        return await future

    _send_rows.__qualname__ = "AsyncProducer.send_batch"  # the name in Python's warning if it is never awaited

    def _pass(self, record: Outgoing) -> SendFuture:
        stands = behind(self._lines, _ROOM, record)
        if stands is not None:
            return stands
        self._set_detour(self._partitioner is not None)
        try:
            return self._send(0.0, 0.0, None, *record)
        except BufferFullError:
            # From here on `send` calls _detour() for every record, so that later records wait behind this one.
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
