"""`Changes`: a topic in which later records replace or delete earlier ones of their key, and what is left of it."""

import json
from pathlib import Path
from random import Random
from typing import Any

import monedula

from tests.landing.orders import Orders, rows

KEYS = 40


class Changes(Orders):
    """A topic whose records have a key of few, each always in the same partition."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 3, seed: int = 1) -> None:
        super().__init__(bootstrap, topic)
        self._partitions = partitions
        self._odds = Random(seed)

    def send(self, count: int, **fields: Any) -> None:
        """Send more changes, deletions among them."""
        with monedula.Producer(self.settings) as producer:
            for number in range(self.count, self.count + count):
                key = self._odds.randrange(KEYS)
                value = None if self._odds.random() < 0.2 else json.dumps({"id": number, "amount": key, **fields})
                producer.send(self.topic, value, key=f"key-{key}", partition=key % self._partitions)
        self.count += count

    def put(self, key: str | None, value: Any, partition: int = 0, **options: Any) -> None:
        """Send one record: `None` deletes."""
        text = value if value is None or isinstance(value, bytes) else json.dumps(value)
        with monedula.Producer(self.settings) as producer:
            producer.send(self.topic, text, key=key, partition=partition, **options)

    def left(self) -> dict[bytes, int]:
        """The offset of the last record of each key that is not deleted."""
        found: dict[bytes, int | None] = {}
        with monedula.read(self.settings, self.topic) as stream:
            for batch in stream:
                for record in batch.records():
                    assert isinstance(record.key, bytes)
                    found[record.key] = None if record.value is None else record.offset
        return {key: offset for key, offset in found.items() if offset is not None}


def kept(path: Path | str) -> dict[bytes, int]:
    """The offset of the row of each key, in a table that has one of each."""
    table = rows(path)
    assert table["key"].n_unique() == table.height, "a key has several rows"
    return dict(zip(table["key"], table["_kafka"].struct.field("offset"), strict=True))
