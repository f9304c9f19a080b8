"""`Consumer.run` and `AsyncConsumer.run` behind one face, for tests of both."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import monedula
import pytest

from tests.groups.ground import PATIENCE_SECONDS, Ground

Handler = Callable[[Any], object]

FACES = pytest.mark.parametrize("face", ["sync", "async"])


def settings_for(ground: Ground, protocol: str, group: str, **more: Any) -> dict[str, Any]:
    """Settings of a member under a protocol."""
    settings = ground.settings(group, group_protocol=protocol, auto_commit_interval_ms=50, **more)
    if protocol == "consumer":
        del settings["heartbeat.interval.ms"]
    return settings


def keyed(ground: Ground, topic: str, keys: int, records: int, partition: int = 0) -> None:
    """Append records whose keys come in turn."""
    with monedula.Producer(bootstrap_servers=ground.bootstrap) as producer:
        for number in range(records):
            producer.send(topic, str(number), key=f"key {number % keys}", partition=partition)


class Runner:
    """Runs a handler in a thread of its own, with a consumer of either kind.

    A handler of an `AsyncConsumer` waits in a thread, so that the same handler does for both.

    Args:
        kind: `"sync"` or `"async"`.
        settings: of the consumer.
        topics: what it subscribes to.
        handler: the handler.
        run: arguments of `run`.
        subscribe: arguments of `subscribe`.
        consumer: arguments of the consumer.
        transaction: settings of the transactional producer that `run` is given.
        value: what that producer encodes values as.
    """

    classes: ClassVar[tuple[Any, Any]] = (monedula.Consumer, monedula.AsyncConsumer)
    """The consumers, synchronous and for asyncio."""

    def __init__(
        self,
        kind: str,
        settings: dict[str, Any],
        topics: Iterable[str] | str,
        handler: Handler,
        *,
        subscribe: dict[str, Any] | None = None,
        consumer: dict[str, Any] | None = None,
        transaction: dict[str, Any] | None = None,
        value: Any = None,
        **run: Any,
    ) -> None:
        self._transaction, self._value = transaction, value
        self.consumer: Any = None
        self.error: BaseException | None = None
        self.committed: dict[tuple[str, int], int] = {}
        self.metrics: dict[str, float] = {}
        self._settings = settings
        self._made = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        arguments = (topics, handler, subscribe or {}, consumer or {}, run)
        body = self._sync if kind == "sync" else lambda *given: asyncio.run(self._async(*given))
        self._thread = threading.Thread(target=self._keep, args=(body, arguments), daemon=True)
        self._thread.start()
        assert self._made.wait(PATIENCE_SECONDS)

    def metric(self, name: str) -> float:
        """One of its metrics, now; 0 before it runs."""
        assert self.consumer is not None
        return float(self.consumer.metrics().get(name, 0.0))

    def wakeup(self) -> None:
        """Wake it up."""
        assert self.consumer is not None
        self.consumer.wakeup()

    def cancel(self) -> None:
        """Cancel the task of an async run."""
        assert self.loop is not None
        assert self._task is not None
        self.loop.call_soon_threadsafe(self._task.cancel)

    def is_over(self) -> bool:
        """Whether the run has ended and the consumer is closed."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait for the end of the run, and raise its error."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the run hangs"
        if self.error is not None:
            raise self.error

    def _keep(self, body: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            body(*arguments)
        except BaseException as error:
            self.error = error
        finally:
            self._made.set()

    def _sync(self, topics: Any, handler: Handler, subscribe: Any, consumer: Any, run: Any) -> None:
        with self.classes[0](self._settings, **consumer) as made:
            made.subscribe(topics, **subscribe)
            self.consumer = made
            self._made.set()
            try:
                if self._transaction is None:
                    made.run(handler, **run)
                else:
                    with monedula.Producer(self._transaction, value=self._value) as producer:
                        made.run(handler, transaction=producer, **run)
            finally:
                self.metrics = made.metrics()
            if self.classes[0] is monedula.Consumer:
                self.committed = {partition: at.offset for partition, at in made.committed().items() if at is not None}

    async def _async(self, topics: Any, handler: Handler, subscribe: Any, consumer: Any, run: Any) -> None:
        async def awaited(given: Any) -> object:
            return await asyncio.get_running_loop().run_in_executor(None, handler, given)

        async def running(made: Any) -> None:
            if self._transaction is None:
                await made.run(awaited, **run)
                return
            async with monedula.AsyncProducer(self._transaction, value=self._value) as producer:
                await made.run(awaited, transaction=producer, **run)

        self.loop = asyncio.get_running_loop()
        self.loop.set_default_executor(ThreadPoolExecutor(128))
        async with self.classes[1](self._settings, **consumer) as made:
            made.subscribe(topics, **subscribe)
            self.consumer = made
            self._task = asyncio.create_task(running(made))
            self._made.set()
            try:
                await self._task
            finally:
                self.metrics = made.metrics()
            if self.classes[1] is monedula.AsyncConsumer:
                found = await made.committed()
                self.committed = {partition: at.offset for partition, at in found.items() if at is not None}
