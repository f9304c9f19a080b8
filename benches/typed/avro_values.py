"""Records per second from Avro values in Confluent's framing to typed Arrow columns, and other ways to them."""

import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # so that `python benches/typed/avro_values.py` works as well as `python -m`

from benches.typed.reading import RAW, Result, compare, consume, event, raw, read  # noqa: E402

ID = 1
FRAME = struct.pack(">bI", 0, ID)
MOST_BYTES = 1 << 16
"""More than a value has: without an end, pyarrow 26 fails with "Negative buffer resize"."""
SCHEMA = """{"type": "record", "name": "Event", "fields": [
  {"name": "id", "type": "long"},
  {"name": "user", "type": "string"},
  {"name": "amount", "type": "double"},
  {"name": "city", "type": "string"},
  {"name": "session", "type": "string"}
]}"""


def _long(number: int) -> bytes:
    encoded, zigzag = bytearray(), number << 1
    while zigzag >= 0x80:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*encoded, zigzag])


def value(number: int) -> bytes:
    """About 45 bytes of Avro behind the frame."""
    fields = event(number)
    texts = [_long(len(fields[name])) + fields[name].encode() for name in ("user", "city", "session")]
    amount = struct.pack("<d", fields["amount"])
    return b"".join((FRAME, _long(fields["id"]), texts[0], amount, *texts[1:]))


def typed(bootstrap: str, _: int) -> Result:
    """Our typed columns."""
    import monedula
    import pyarrow as pa

    spec = monedula.Avro(SCHEMA, schemas={ID: SCHEMA}, flatten=True)
    return read(bootstrap, pa.record_batch, columns=["value"], value=spec)


def pyruhvro(bootstrap: str, _: int) -> Result:
    """Our binary column without the frames, and pyruhvro's decoder, which takes a list of bytes, on all cores."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyruhvro as peer

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def into(batch: Any) -> Any:
        values = pc.binary_slice(pa.record_batch(batch)["value"], len(FRAME), MOST_BYTES).to_pylist()
        return pa.Table.from_batches(peer.deserialize_array_threaded(values, SCHEMA, cores))

    return read(bootstrap, into, columns=["value"])


def confluent(bootstrap: str, records: int) -> Result:
    """confluent-kafka's `consume`, its AvroDeserializer for each value, pyarrow."""
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    if registry.register_schema("orders-value", Schema(SCHEMA, "AVRO")) != ID:
        sys.exit("the mock registry gave another id")
    decode, context = AvroDeserializer(registry, SCHEMA), SerializationContext("orders", MessageField.VALUE)
    return consume(bootstrap, records, lambda raw_value: decode(raw_value, context))


READERS: dict[str, Callable[[str, int], Result]] = {
    "typed columns": typed,
    RAW: raw,
    "binary column + pyruhvro": pyruhvro,
    "confluent-kafka + AvroDeserializer + pyarrow": confluent,
}

if __name__ == "__main__":
    compare(__file__, READERS, value, __doc__)
