"""What every peer sends: a pool of events, the same in every process, over and over.

3 M records made in advance would be most of a Python client's memory; a pool of 100,000, 10 MB, is not, and is far more
than what any codec looks back on.
"""

import json
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

POOL_RECORDS = 100_000
PARTITIONS = 4
EVENTS = ("view", "click", "basket", "order", "refund", "search")
COUNTRIES = ("cz", "de", "at", "pl", "sk", "fr", "nl", "se")
USERS = 2_000_000
FIRST_TIMESTAMP_MS = 1_790_000_000_000
RECORDS_PER_MS = 10
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "user", "type": "long"},
            {"name": "event", "type": {"type": "enum", "name": "Kind", "symbols": list(EVENTS)}},
            {"name": "cents", "type": "long"},
            {"name": "item", "type": ["null", "int"]},
            {"name": "from", "type": "string"},
            {"name": "at", "type": "long"},
            {"name": "ok", "type": "boolean"},
        ],
    }
)
"""Of the values as dicts, in Avro."""


@dataclass(frozen=True)
class Pool:
    """Keys and values; the value at an index belongs to the key there."""

    keys: list[bytes]
    values: list[bytes]

    @property
    def record_bytes(self) -> float:
        """Of key and value, on average."""
        return (sum(map(len, self.keys)) + sum(map(len, self.values))) / len(self.keys)

    def passes(self, records: int) -> Iterator[int]:
        """How many records of the pool to send, pass by pass."""
        for begin in range(0, records, len(self.keys)):
            yield min(len(self.keys), records - begin)

    def rows(self) -> list[dict[str, Any]]:
        """The values as dicts."""
        return [json.loads(value) for value in self.values]

    def table(self) -> Any:
        """As an Arrow record batch with the columns key and value."""
        import pyarrow

        columns = {
            "key": pyarrow.array(self.keys, pyarrow.binary()),
            "value": pyarrow.array(self.values, pyarrow.binary()),
        }
        return pyarrow.RecordBatch.from_pydict(columns)

    def sums(self, records: int) -> "Sums":
        """What a topic must hold once so many were sent."""
        sums = Sums()
        for count in self.passes(records):
            sums.add(self.keys[:count], self.values[:count])
        return sums


@dataclass
class Sums:
    """A count, and sums of CRC-32 that do not depend on the order, with each value bound to its key."""

    records: int = 0
    pairs: int = 0

    def add(self, keys: list[bytes], values: list[bytes]) -> None:
        """Take in records."""
        self.records += len(keys)
        self.pairs += sum(zlib.crc32(value, zlib.crc32(key)) for key, value in zip(keys, values, strict=True))


def pool(records: int = POOL_RECORDS) -> Pool:
    """An 8-byte key and about 99 bytes of JSON each, as in the consumer's benches."""
    draw = random.Random(42)
    keys, values = [], []
    for number in range(records):
        user = draw.randrange(USERS)
        keys.append(f"{user:08}".encode())
        at = FIRST_TIMESTAMP_MS + number // RECORDS_PER_MS
        values.append(
            f'{{"user":{user},"event":"{draw.choice(EVENTS)}","cents":{draw.randrange(100_000)}'
            f',"item":{draw.randrange(50_000)},"from":"{draw.choice(COUNTRIES)}","at":{at}'
            f',"ok":{"true" if draw.randrange(50) else "false"}}}'.encode()
        )
    return Pool(keys, values)
