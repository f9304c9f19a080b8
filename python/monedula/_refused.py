"""Records that cannot be decoded and have a dead-letter topic: they are written before their batch is returned."""

import threading
from typing import TYPE_CHECKING, cast

from monedula.errors import DecodeError

if TYPE_CHECKING:
    from monedula._consumer_base import ConsumerBase
    from monedula._monedula import Batch, SendFuture
    from monedula.aio_producer import AsyncProducer
    from monedula.config import Settings
    from monedula.producer import Producer
    from monedula.typed import Json


class RefusedRecords:
    """Where the records of a consumer go that cannot be decoded. It makes its producer for the first of them.

    Args:
        consumer: the consumer.
        key: how its keys are decoded.
        value: how its values are decoded.
    """

    def __init__(self, consumer: "ConsumerBase", key: "Json | None", value: "Json | None") -> None:
        self._consumer = consumer
        given = {"key": key, "value": value}
        self.decodes = key is not None or value is not None
        self._topics = {name: spec.dead_letter for name, spec in given.items() if spec is not None and spec.dead_letter}
        self._group = next((value for key, value in consumer._settings if key.replace("_", ".") == "group.id"), "")
        self.producer: Producer | AsyncProducer | None = None
        self.of_task: dict[int, Batch] = {}
        """By holder, a batch whose refused records are not acknowledged yet. It is not returned before they are."""
        self._of_thread = threading.local()

    @property
    def of_thread(self) -> "Batch | None":
        """The same, of the current thread. It goes with the thread, and then no rebalance waits for it."""
        batch: Batch | None = getattr(self._of_thread, "batch", None)
        return batch

    @of_thread.setter
    def of_thread(self, batch: "Batch | None") -> None:
        self._of_thread.batch = batch

    def send(self, batch: "Batch") -> "list[SendFuture]":
        """Write the refused records of a batch. They are there once all futures have succeeded."""
        refused = batch._refused()
        if refused is None:
            return []
        from monedula.running.dead_letters import DeadLetters

        rows, causes = refused
        futures = []
        for record, (column, path, reason) in zip(rows.records(), causes, strict=True):
            where = f"{record.topic} [{record.partition}] at offset {record.offset}"
            fault = f"{path}: {reason}" if path else reason
            error = DecodeError(
                f"{where}: the {column} cannot be decoded: {fault}",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                column=column,
                path=path,
                reason=reason,
            )
            letters = DeadLetters(self._open(), self._topics[column], self._group, is_own=True)
            futures.append(letters.put_aside(record, error, attempts=1))
        return futures

    def _open(self) -> "Producer | AsyncProducer":
        if self.producer is None:
            from monedula.aio_producer import AsyncProducer
            from monedula.producer import Producer
            from monedula.running.dead_letters import producer_settings

            settings = cast("Settings", producer_settings(self._consumer._settings))
            self.producer = (AsyncProducer if self._consumer._awaits else Producer)(settings)
        return self.producer
