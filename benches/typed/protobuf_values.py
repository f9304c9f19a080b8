"""Records per second from Protobuf values in Confluent's framing to typed Arrow columns, and other ways to them."""

import struct
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # so that `python benches/typed/protobuf_values.py` works as well as `python -m`

from benches.typed.reading import RAW, Result, compare, consume, event, raw, read  # noqa: E402

FRAME = struct.pack(">bI", 0, 1) + b"\0"
MOST_BYTES = 1 << 16
"""More than a value has: without an end, pyarrow 26 fails with "Negative buffer resize"."""
SCHEMA = """syntax = "proto3";
message Event {
  int64 id = 1;
  string user = 2;
  double amount = 3;
  string city = 4;
  string session = 5;
}"""


@cache
def message() -> Any:
    """The generated class of Google's package, without protoc."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", syntax="proto3")
    described = file.message_type.add(name="Event")
    types = {"id": kinds.TYPE_INT64, "amount": kinds.TYPE_DOUBLE}
    for number, name in enumerate(("id", "user", "amount", "city", "session"), 1):
        described.field.add(
            name=name, number=number, type=types.get(name, kinds.TYPE_STRING), label=kinds.LABEL_OPTIONAL
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Event"))


def value(number: int) -> bytes:
    """About 50 bytes of Protobuf behind the frame."""
    encoded: bytes = message()(**event(number)).SerializeToString()
    return FRAME + encoded


def typed(bootstrap: str, _: int) -> Result:
    """Our typed columns."""
    import monedula
    import pyarrow as pa

    spec = monedula.Protobuf(SCHEMA, framing="confluent", flatten=True)
    return read(bootstrap, pa.record_batch, columns=["value"], value=spec)


def ptars(bootstrap: str, _: int) -> Result:
    """Our binary column without the frames, and ptars' decoder of an array."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from ptars import HandlerPool

    handler = HandlerPool([message().DESCRIPTOR.file]).get_for_message(message().DESCRIPTOR)

    def into(batch: Any) -> Any:
        return handler.array_to_record_batch(pc.binary_slice(pa.record_batch(batch)["value"], len(FRAME), MOST_BYTES))

    return read(bootstrap, into, columns=["value"])


def confluent(bootstrap: str, records: int) -> Result:
    """confluent-kafka's `consume`, its ProtobufDeserializer for each value, pyarrow."""
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    decode = ProtobufDeserializer(message(), {"use.deprecated.format": False})
    context = SerializationContext("orders", MessageField.VALUE)

    def decoded(raw_value: bytes) -> dict[str, Any]:
        found: Any = decode(raw_value, context)
        return {
            "id": found.id,
            "user": found.user,
            "amount": found.amount,
            "city": found.city,
            "session": found.session,
        }

    return consume(bootstrap, records, decoded)


READERS: dict[str, Callable[[str, int], Result]] = {
    "typed columns": typed,
    RAW: raw,
    "binary column + ptars": ptars,
    "confluent-kafka + ProtobufDeserializer + pyarrow": confluent,
}

if __name__ == "__main__":
    compare(__file__, READERS, value, __doc__)
