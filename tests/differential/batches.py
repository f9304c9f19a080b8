"""Record batches made and read in plain Python, so that a mistake of our codec does not hide here."""

import base64
import gzip
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Literal

OVERHEAD_BYTES = 61
ATTRIBUTES_AT = 21
TRANSACTIONAL = 0x10
CONTROL = 0x20
GZIP = 1
LOG_APPEND_TIME = 0x08
MARKERS = {0: "abort", 1: "commit"}

Record = tuple[str | None, str | None]


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def batch(
    *records: Record,
    base_offset: int = 0,
    leader_epoch: int = -1,
    magic: int = 2,
    timestamps: Sequence[int] | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    codec: Literal[None, "gzip"] = None,
    attributes: int = 0,
    count: int | None = None,
    last_offset_delta: int | None = None,
    crc: int | None = None,
) -> str:
    """A batch as base64, which is how records stand in JSON.

    Args:
        records: key and value of each, as text; the default is one record.
        base_offset: that of the header; a broker sets its own.
        leader_epoch: that of the header.
        magic: the header's; batches are made as 2.
        timestamps: of the records, 1000 and on by default.
        producer_id: of an idempotent producer.
        producer_epoch: of the same.
        sequence: of the first record.
        transactional: whether it belongs to a transaction.
        codec: of the records.
        attributes: more bits.
        count: the record count in the header; the real one by default.
        last_offset_delta: that of the header; the real one by default.
        crc: the CRC in the header; the real one by default.
    """
    given = records or (("key", "value"),)
    times = list(timestamps or range(1000, 1000 + len(given)))
    payload = b"".join(_record(index, times[index] - times[0], *record) for index, record in enumerate(given))
    if codec == "gzip":
        payload = gzip.compress(payload, mtime=0)
    bits = attributes | (GZIP if codec else 0) | (TRANSACTIONAL if transactional else 0)
    told_count = len(given) if count is None else count
    told_last = len(given) - 1 if last_offset_delta is None else last_offset_delta
    body = struct.pack(
        ">hiqqqhii", bits, told_last, times[0], max(times), producer_id, producer_epoch, sequence, told_count
    )
    body += payload
    checked = crc32c(body) if crc is None else crc
    head = struct.pack(">qiibI", base_offset, 9 + len(body), leader_epoch, magic, checked)
    return base64.b64encode(head + body).decode()


def joined(*batches: str) -> str:
    """Several batches as one piece of records."""
    return base64.b64encode(b"".join(base64.b64decode(part) for part in batches)).decode()


def decoded(records: str) -> list[dict[str, Any]]:
    """Batches in comparable form: header, records, and the rest of a truncated one."""
    data = base64.b64decode(records)
    found: list[dict[str, Any]] = []
    at = 0
    while len(data) - at >= OVERHEAD_BYTES:
        base_offset, length, leader_epoch, magic, crc = struct.unpack_from(">qiibI", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        body = data[at + ATTRIBUTES_AT : end]
        bits, last, first_time, max_time, producer, epoch, sequence, count = struct.unpack_from(">hiqqqhii", body)
        payload = body[40:]
        if bits & 7 == GZIP:
            payload = gzip.decompress(payload)
        found.append(
            {
                "baseOffset": base_offset,
                "leaderEpoch": leader_epoch,
                "magic": magic,
                "crcHolds": crc == crc32c(body),
                "attributes": bits,
                "lastOffsetDelta": last,
                "firstTimestamp": first_time,
                "maxTimestamp": max_time,
                "producerId": producer,
                "producerEpoch": epoch,
                "sequence": sequence,
                "records": list(_records(payload, count, bool(bits & CONTROL))),
            }
        )
        at = end
    if at < len(data):
        found.append({"cutBytes": len(data) - at})
    return found


def _record(index: int, time_delta: int, key: str | None, value: str | None) -> bytes:
    body = b"\0" + _varint(time_delta) + _varint(index) + _counted(key) + _counted(value) + _varint(0)
    return _varint(len(body)) + body


def _counted(text: str | None) -> bytes:
    if text is None:
        return _varint(-1)
    data = text.encode()
    return _varint(len(data)) + data


def _varint(value: int) -> bytes:
    bits = (value << 1) ^ (value >> 63)
    out = bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
    return bytes(out)


def _records(payload: bytes, count: int, control: bool) -> Iterator[dict[str, Any]]:
    at = 0

    def varint() -> int:
        nonlocal at
        bits = shift = 0
        while True:
            byte = payload[at]
            at += 1
            bits |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (bits >> 1) ^ -(bits & 1)

    def counted() -> bytes | None:
        nonlocal at
        length = varint()
        if length < 0:
            return None
        at += length
        return payload[at - length : at]

    for _ in range(count):
        varint()
        at += 1
        time_delta, offset_delta = varint(), varint()
        key, value = counted(), counted()
        headers = [(counted() or b"", counted() or b"") for _ in range(varint())]
        told: dict[str, Any] = {"timestampDelta": time_delta, "offsetDelta": offset_delta}
        if control and key is not None and value is not None:
            told["marker"] = MARKERS.get(struct.unpack_from(">hh", key)[1])
            told["coordinatorEpoch"] = struct.unpack_from(">hi", value)[1]
        else:
            told["key"] = None if key is None else key.decode()
            told["value"] = None if value is None else value.decode()
        if headers:
            told["headers"] = [(name.decode(), text.decode()) for name, text in headers]
        yield told
