"""Clients with telemetry, by the names that they have in monedula: producers, consumers, consumers of share groups."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Self, TypeVar

from opentelemetry.trace import Span

import monedula
from monedula._monedula import Batch
from monedula.config import Settings
from monedula.consumer._base import ConsumerBase
from monedula.errors import WakeupError
from monedula.otel import conventions as c
from monedula.otel.telemetry import Began, Handler, Telemetry, What
from monedula.producer.sync import Form, Partitioner, ProducerBase
from monedula.share._base import ShareConsumerBase

Result = TypeVar("Result")


class _TracedProducer(ProducerBase):
    """Common base of the producers with telemetry."""

    _telemetry: Telemetry

    def __new__(
        cls,
        config: Settings | None = None,
        /,
        *,
        telemetry: Telemetry | None = None,
        partitioner: Partitioner | str | None = None,
        key: Form | None = None,
        value: Form | None = None,
        **settings: Any,
    ) -> Self:
        try:
            made = super().__new__(cls, config, partitioner=partitioner, key=key, value=value, **settings)
        finally:
            del config, settings  # keeps passwords out of tracebacks that show locals
        made._telemetry = telemetry or Telemetry()
        return made

    # Hidden from type checkers, `help()` and editors, which show the signatures of the base class.
    if not TYPE_CHECKING:

        @wraps(ProducerBase.send)
        def send(self, topic, value=None, key=None, partition=None, headers=None, timestamp=None, *, on_delivery=None):
            more = {
                c.PARTITION: str(partition) if isinstance(partition, int) else None,
                c.TOMBSTONE: True if value is None else None,
                c.KEY: self._telemetry._key(key),
            }
            sending = self._telemetry._begin_send(self._names, topic, headers, more)
            try:
                future = super().send(topic, value, key, partition, sending.headers, timestamp, on_delivery=on_delivery)
            except BaseException as error:
                sending.refused(error)
                raise
            future._observe(sending.done)
            return future

        def _rows(self, data, topic, key, value):
            sending = self._telemetry._begin_send(self._names, topic)
            try:
                future = super()._rows(data, topic, key, value, sending.added)
            except BaseException as error:
                sending.refused(error)
                raise
            future._observe(sending.done)
            return future


class Producer(_TracedProducer, monedula.Producer):
    """A `monedula.Producer` with a span for each `send`, `send_batch` and `send_many`, from the call to the outcome.

    Args:
        config: as of `monedula.Producer`.
        telemetry: how it is traced and measured; `Telemetry()` if left out.
        partitioner: as of `monedula.Producer`.
        key: as of `monedula.Producer`.
        value: as of `monedula.Producer`.
        **settings: as of `monedula.Producer`.
    """


class AsyncProducer(_TracedProducer, monedula.AsyncProducer):
    """A `monedula.AsyncProducer` with a span for each `send`, `send_batch` and `send_many`; arguments as `Producer`."""


class _Traced:
    """Common base of the consumers with telemetry, also of share groups."""

    def __init__(
        self, config: Settings | None = None, /, *arguments: Any, telemetry: Telemetry | None = None, **settings: Any
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        try:
            super().__init__(config, *arguments, **settings)  # type: ignore[call-arg]  # that of a consumer's base
        finally:
            del config, settings  # keeps passwords out of tracebacks that show locals
        if isinstance(self, ConsumerBase):  # members of a share group have no positions
            self._telemetry._lag_gauges.add(self)

    def process(self, what: What) -> AbstractContextManager[Span]:
        """A span for the processing of records, as by `Telemetry.process`.

        Args:
            what: a record, a batch, or a list of records of this consumer.

        Returns:
            A context manager that yields the span.
        """
        return self._telemetry.process(what, self)

    def traced(self, handler: Handler) -> Handler:
        """Wrap a function that processes records or batches, as by `Telemetry.traced`.

        Args:
            handler: a function or a coroutine function whose first argument is a record, a batch, or a list of records.

        Returns:
            The wrapped function.
        """
        return self._telemetry.traced(handler, self)


class _TracedConsumer(_Traced, ConsumerBase):
    """Common base of the consumers with telemetry, except those of share groups."""


class _TracedShareConsumer(_Traced, ShareConsumerBase):
    """Common base of the share groups' consumers with telemetry."""


class Consumer(_TracedConsumer, monedula.Consumer):
    """A `monedula.Consumer` with a span for each batch of `poll` and `batches`, and for each `commit`.

    Spans for the processing of records and batches are made by `process` and `traced`. Spans have links to the spans
    that sent the records if the consumer reads headers (`headers=True`).

    Args:
        config: as of `monedula.Consumer`.
        *arguments: as of `monedula.Consumer`.
        telemetry: how it is traced and measured; `Telemetry()` if left out.
        **settings: as of `monedula.Consumer`.
    """

    if not TYPE_CHECKING:

        @wraps(monedula.Consumer.poll)
        def poll(self, *arguments, **keywords):
            return _received(self, super().poll, *arguments, **keywords)

        @wraps(monedula.Consumer.batches)
        def batches(self, *arguments, **keywords):
            return _traced_batches(self, super().batches(*arguments, **keywords))

        @wraps(monedula.Consumer.records)
        def records(self, *arguments, **keywords):
            # Untraced, because records are read ahead in batches, and a batch that is read ahead is not received yet.
            return monedula.Consumer.records(_Untraced(self, super().batches), *arguments, **keywords)

        @wraps(monedula.Consumer.commit)
        def commit(self, *arguments, **keywords):
            with _observed(self, c.COMMIT) as began:
                committed = super().commit(*arguments, **keywords)
            self._telemetry._record(c.COMMIT, self._names, None, began)
            return committed


class AsyncConsumer(_TracedConsumer, monedula.AsyncConsumer):
    """A `monedula.AsyncConsumer` with a span for each batch of `poll` and `batches`, and for each `commit`.

    Arguments as `Consumer`.
    """

    if not TYPE_CHECKING:

        @wraps(monedula.AsyncConsumer.poll)
        def poll(self, *arguments, **keywords):
            return _received_async(self, super().poll(*arguments, **keywords))

        @wraps(monedula.AsyncConsumer.batches)
        def batches(self, *arguments, **keywords):
            return _AsyncBatches(self, super().batches(*arguments, **keywords))

        @wraps(monedula.AsyncConsumer.commit)
        def commit(self, *arguments, **keywords):
            return _committed_async(self, super().commit(*arguments, **keywords))


class ShareConsumer(_TracedShareConsumer, monedula.ShareConsumer):
    """A `monedula.ShareConsumer` with a span for each batch of `poll` and `batches`, and for each `commit`.

    Spans of processing and links as of `Consumer`; in `run`, `traced` wraps the handler.

    Args:
        config: as of `monedula.ShareConsumer`.
        *arguments: as of `monedula.ShareConsumer`.
        telemetry: how it is traced and measured; `Telemetry()` if left out.
        **settings: as of `monedula.ShareConsumer`.
    """

    if not TYPE_CHECKING:

        @wraps(monedula.ShareConsumer.poll)
        def poll(self, *arguments, **keywords):
            return _received(self, super().poll, *arguments, **keywords)

        @wraps(monedula.ShareConsumer.batches)
        def batches(self, *arguments, **keywords):
            return _traced_batches(self, super().batches(*arguments, **keywords))

        @wraps(monedula.ShareConsumer.records)
        def records(self, *arguments, **keywords):
            return monedula.ShareConsumer.records(_Untraced(self, super().batches), *arguments, **keywords)

        @wraps(monedula.ShareConsumer.commit)
        def commit(self, *arguments, **keywords):
            with _observed(self, c.COMMIT) as began:
                committed = super().commit(*arguments, **keywords)
            self._telemetry._record(c.COMMIT, self._names, None, began)
            return committed


class AsyncShareConsumer(_TracedShareConsumer, monedula.AsyncShareConsumer):
    """A `monedula.AsyncShareConsumer` with a span for each batch of `poll` and `batches`, and for each `commit`.

    Arguments as `ShareConsumer`.
    """

    if not TYPE_CHECKING:

        @wraps(monedula.AsyncShareConsumer.poll)
        def poll(self, *arguments, **keywords):
            return _received_async(self, super().poll(*arguments, **keywords))

        @wraps(monedula.AsyncShareConsumer.batches)
        def batches(self, *arguments, **keywords):
            return _AsyncBatches(self, super().batches(*arguments, **keywords))

        @wraps(monedula.AsyncShareConsumer.records)
        def records(self, *arguments, **keywords):
            return monedula.AsyncShareConsumer.records(_Untraced(self, super().batches), *arguments, **keywords)

        @wraps(monedula.AsyncShareConsumer.commit)
        def commit(self, *arguments, **keywords):
            return _committed_async(self, super().commit(*arguments, **keywords))


class _Untraced:
    """Consumer whose `batches()` makes no spans, for `records()`."""

    def __init__(self, consumer: Any, batches: Callable[..., Any]) -> None:
        self._consumer = consumer
        self.batches = batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


@contextmanager
def _observed(consumer: Any, operation: c.Operation) -> Iterator[Began]:
    """Record the failure of an operation; the end of a loop is none."""
    began = Began()
    try:
        yield began
    except (StopIteration, StopAsyncIteration):
        raise
    except BaseException as error:
        if operation is not c.POLL or not isinstance(error, WakeupError):
            consumer._telemetry._record(operation, consumer._names, error, began)
        raise


def _received(consumer: Any, take: Callable[..., Batch], *arguments: Any, **keywords: Any) -> Batch:
    with _observed(consumer, c.POLL) as began:
        batch = take(*arguments, **keywords)
    if batch:
        consumer._telemetry._received(consumer._names, batch, began)
    return batch


def _traced_batches(consumer: Any, batches: Iterator[Batch]) -> Iterator[Batch]:
    try:
        while True:
            try:
                batch = _received(consumer, batches.__next__)
            except StopIteration:
                return
            yield batch
    finally:
        batches.close()  # type: ignore[attr-defined]


async def _received_async(consumer: Any, taking: Coroutine[Any, Any, Batch]) -> Batch:
    with _observed(consumer, c.POLL) as began:
        batch = await taking
    if batch:
        consumer._telemetry._received(consumer._names, batch, began)
    return batch


async def _committed_async(consumer: Any, committing: Coroutine[Any, Any, Result]) -> Result:
    with _observed(consumer, c.COMMIT) as began:
        committed = await committing
    consumer._telemetry._record(c.COMMIT, consumer._names, None, began)
    return committed


class _AsyncBatches:
    """Iterator of `batches()` of a consumer for asyncio, with a span for each batch."""

    def __init__(self, consumer: Any, batches: AsyncIterator[Batch]) -> None:
        self._consumer = consumer
        self._batches = batches

    def __aiter__(self) -> Self:
        return self

    # Not a coroutine function, so that the calling task is the holder of the batch.
    def __anext__(self) -> Coroutine[Any, Any, Batch]:
        taking: Any = self._batches.__anext__()
        return _received_async(self._consumer, taking)
