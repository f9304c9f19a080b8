"""`AsyncProducer`, the producer for asyncio: the methods of `Producer`, awaited."""

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from monedula._health import late_flush
from monedula._migration_hints import tells
from monedula._monedula import BatchFuture, SendFuture
from monedula._process.threads import in_executor
from monedula.errors import BufferFullError, KafkaTimeoutError
from monedula.formats._typed import Typed
from monedula.producer._send_queue import OnDelivery, SendArguments, enqueue, enqueue_behind
from monedula.producer._transactions import AsyncTransactions, deadline_of, seconds_left
from monedula.producer.sync import LAST_WORDS_SECONDS, QUEUED_SECONDS, ProducerBase, check_name

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from monedula._asyncio.pending_calls import PendingCall
    from monedula.types.reports import BatchReport

_ROOM_QUEUE = "room"


@tells
class AsyncProducer(ProducerBase, AsyncTransactions):
    """Sends records, and whole tables, to Kafka from an event loop.

    Arguments as `Producer`. `send` gives a future at once, and `await` of it the record's place; a wait that is
    cancelled does not end the sending. The loop never blocks: if `buffer.memory` is full, records wait in a queue, in
    their order, for up to `max.block.ms`. If you send very many records, await something in between, or the queue holds
    them all.

    Examples:
        async with AsyncProducer({"bootstrap.servers": "localhost:9092"}) as producer:
            print(await producer.send("orders", b"a value", key="a key"))
    """

    _waits = False

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        await self.close(LAST_WORDS_SECONDS if interrupted else None)
        self._raise_unseen(error)

    # Not a coroutine function, so that the transaction knows of a call that is never awaited.
    def send_batch(
        self, data: Any, topic: str | None = None, *, key: Typed | None = None, value: Typed | None = None
    ) -> "Coroutine[Any, Any, BatchReport]":
        """Send every row of Arrow data, and wait until all are acknowledged; arguments as `Producer.send_batch`.

        Nothing is sent before the coroutine is awaited. Cancelling the wait does not cancel the rows, unless a schema
        registry is being asked for what they are written with: the wait for it ends then, and none of them is sent.

        Raises:
            BatchSendError: if rows failed; its `report` has the errors.
            ArgumentError: as `Producer.send_batch`.
        """
        return self._send_rows(self._call("send_batch"), data, topic, key, value)

    def send_many(self, topic: str, records: "Iterable[Any]") -> "Coroutine[Any, Any, BatchReport]":
        """Send many records to a topic, and wait until all are acknowledged; arguments as `Producer.send_many`.

        Nothing is sent before the coroutine is awaited, which reads the records in the event loop. Cancelling the wait
        does not cancel records that were read, unless a schema registry is being asked.

        Raises:
            BatchSendError: if records failed; its `report` has the errors.
            ArgumentError, SchemaRegistryError, KafkaTimeoutError: as `Producer.send_many`; none was sent.
        """
        return self._send_records(self._call("send_many"), topic, records)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent before is done; as `Producer.flush`."""
        deadline = deadline_of(timeout)
        if not await self._queued_sent(deadline):
            raise KafkaTimeoutError(**late_flush(timeout, self._queued.trouble()))
        await self._loop().outcome(self._flush(seconds_left(deadline)))

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of a topic; as `Producer.partitions_for`."""
        check_name(topic)
        operation = self._partitions_for(topic, timeout)
        with self._until_closed(operation):
            return await self._loop().outcome(operation)

    async def close(self, timeout: float | None = None) -> None:
        """Deliver the records that were sent, then close the connections; as `Producer.close`. May be called again."""
        deadline = deadline_of(timeout)
        try:
            await self._queued_sent(deadline)
        finally:
            self._close_lookups()
            await self._loop().outcome(self._close(seconds_left(deadline)))
            await self._queued_sent(deadline_of(QUEUED_SECONDS))

    async def _send_records(self, call: "PendingCall | None", topic: str, records: "Iterable[Any]") -> "BatchReport":
        check_name(topic)
        await self._found_encoders(topic)
        chosen = None if self._partitioner is None else self._partition_of(topic, len(await self.partitions_for(topic)))
        table = self._record_table(topic, records, chosen)
        return await self._send_rows(call, table, topic, None, None, "send_many")

    _send_records.__qualname__ = "AsyncProducer.send_many"

    async def _send_rows(
        self,
        call: "PendingCall | None",
        data: Any,
        topic: str | None,
        key: Typed | None,
        value: Typed | None,
        name: str = "send_batch",
    ) -> "BatchReport":
        from asyncio import CancelledError

        from monedula._asyncio.pending_calls import PendingCalls
        from monedula._monedula import CancellableCall

        # Or a call of a transaction that was begun since.
        call = call or self._call(name) or PendingCalls().add(name)
        cancellable = CancellableCall()
        try:
            future: BatchFuture = await call.in_thread(self._rows_until_closed, cancellable, data, topic, key, value)
        except CancelledError:
            # `asyncio.run` waits for the thread, which would wait for the registry as long as the settings allow.
            cancellable.cancel()
            raise
        return await future

    _send_rows.__qualname__ = "AsyncProducer.send_batch"  # what Python names in its warning if it is never awaited

    def _send_unencoded(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Any,
        timestamp: Any,
        on_delivery: OnDelivery,
    ) -> SendFuture:
        self._check(topic, None, None, partition, headers, timestamp)
        record = self._drafted(SendArguments(topic, value, key, partition, headers, timestamp))
        queue = f"topic {topic}"
        queued = enqueue_behind(self._queued, queue, record, on_delivery)
        if queued is not None:
            return queued
        # Further records, also once the schemas are known, are queued behind this one.
        self._set_may_queue(True)
        return enqueue(self._queued, queue, record, on_delivery, self._send_when_known)

    async def _encoded_later(self, record: SendArguments) -> SendArguments:
        """As `_encoded`, without blocking the loop."""
        await self._found_encoders(record.topic)
        return self._encoded(record)

    async def _found_encoders(self, topic: str) -> None:
        if self._lacks_encoders(topic):
            await in_executor(partial(self._find_encoders, topic, self._max_block))

    def _send_now(self, record: SendArguments, on_delivery: OnDelivery) -> SendFuture:
        queued = enqueue_behind(self._queued, _ROOM_QUEUE, record, on_delivery)
        if queued is not None:
            return queued
        self._set_may_queue(self._partitioner is not None or bool(self._queued))
        try:
            return self._send(0.0, 0.0, None, on_delivery, *record)
        except BufferFullError:
            # All further records are queued behind this one.
            self._set_may_queue(True)
            return enqueue(self._queued, _ROOM_QUEUE, record, on_delivery, self._send_waited)

    async def _queued_sent(self, deadline: float | None) -> bool:
        return not self._queued or await in_executor(partial(self._queued.wait, seconds_left(deadline)))
