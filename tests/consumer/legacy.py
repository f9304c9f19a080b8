"""Messages of formats 0 and 1 as kafka-python's builder writes them, with the offsets that a broker gives them."""

import struct
from dataclasses import dataclass
from random import Random
from unittest.mock import patch

import lz4.frame
from kafka.record import legacy_records
from kafka.record.legacy_records import LegacyRecordBatchBuilder

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}

Row = tuple[int, int, int, bytes | None, bytes | None]
"""Offset, timestamp in ms, type of the timestamp, key and value."""


@dataclass(frozen=True)
class LegacySet:
    """Messages one behind the other, or compressed within one.

    Attributes:
        data: the bytes.
        first: the first offset that belongs to the set; it may be a gap.
        last: the offset of the last message.
        rows: what is to be read.
    """

    data: bytes
    first: int
    last: int
    rows: list[Row]


def lz4_with_wrong_checksum(data: bytes) -> bytes:
    """As clients before Kafka 0.10 compress (KAFKA-3160). That of kafka-python needs xxhash."""
    frame = bytearray(lz4.frame.compress(data, store_size=False))
    frame[6] ^= 0xFF
    return bytes(frame)


def legacy_set(
    random: Random, first: int, magic: int, codec: str, count: int | None = None, first_value: bytes | None = None
) -> LegacySet:
    """A set of some messages from offset `first` on, with gaps as compaction leaves them."""
    offsets = sorted(random.sample(range(first, first + 12), count or random.randint(1, 8)))
    is_compressed = codec != "none"
    builder = LegacyRecordBatchBuilder(magic, CODECS[codec], 1 << 20)
    rows: list[Row] = []
    for number, offset in enumerate(offsets):
        # The first is long enough for a batch of format 2 to be as long as the whole.
        value = random.choice((None, b"", random.randbytes(random.randrange(80))))
        value = value if number else first_value or random.randbytes(300)
        key = random.choice((None, b"", b"k%d" % random.randrange(9)))
        timestamp = random.randrange(1_700_000_000_000)
        builder.append(offset - offsets[0] if magic and is_compressed else offset, timestamp, key, value)
        rows.append((offset, timestamp if magic else -1, 0 if magic else -1, key, value))
    with patch.object(legacy_records, "lz4_encode_old_kafka", lz4_with_wrong_checksum):
        data = bytearray(builder.build())
    if is_compressed:
        # No CRC covers the offset: a broker sets it to that of the last message.
        data[:8] = struct.pack(">q", offsets[-1])
    return LegacySet(bytes(data), first, offsets[-1], rows)


def legacy_log(random: Random, sets: int) -> list[LegacySet]:
    """Sets of both formats and every codec, one behind the other."""
    log: list[LegacySet] = []
    for _ in range(sets):
        first = log[-1].last + 1 if log else 0
        log.append(legacy_set(random, first, random.randrange(2), random.choice(list(CODECS))))
    return log
