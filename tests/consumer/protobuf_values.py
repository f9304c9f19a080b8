"""Messages of every kind of field, random values of them, and what Google's package makes of their bytes."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

# Their descriptors are in the pool only once they are imported.
from google.protobuf.wrappers_pb2 import Int32Value

SCALARS = [
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool"),
    *("string", "bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
]
_NUMBERS = {**{name: getattr(FieldDescriptor, f"TYPE_{name.upper()}") for name in [*SCALARS, "message", "enum"]}}
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class File:
    """A file while it is declared."""

    def __init__(self, name: str, syntax: str = "proto3") -> None:
        self.proto = descriptor_pb2.FileDescriptorProto(name=name, package="t", syntax=syntax)
        self.proto.dependency.extend(f"google/protobuf/{each}.proto" for each in ("duration", "timestamp", "wrappers"))
        each = self.proto.enum_type.add(name="Colour")
        for number, label in enumerate(("BLACK", "RED", "GREEN")):
            each.value.add(name=label, number=number)

    def message(self, name: str, fields: Mapping[str, str]) -> None:
        """Declare a message: its fields are texts such as `"repeated int32"` or `"map string .t.Item"`."""
        message = self.proto.message_type.add(name=name)
        for number, (field_name, text) in enumerate(fields.items(), 1):
            words = text.split()
            field = message.field.add(name=field_name, number=number if number < 10 else number * 7, label=1)
            if words[0] == "map":
                entry = message.nested_type.add(name=f"{field_name.title()}Entry")
                entry.options.map_entry = True
                _typed(entry.field.add(name="key", number=1, label=1), words[1])
                _typed(entry.field.add(name="value", number=2, label=1), words[2])
                words = ["repeated", f".t.{name}.{entry.name}"]
            _typed(field, words[-1])
            if words[0] == "repeated":
                field.label = 3
            if words[0] == "unpacked":
                field.label, field.options.packed = 3, False
            if words[0] == "required":
                field.label = 2
            if words[0] == "oneof":
                if not message.oneof_decl:
                    message.oneof_decl.add(name="which")
                field.oneof_index = 0
        for field in message.field:
            if fields[field.name].startswith("optional ") and self.proto.syntax == "proto3":
                field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def text(self) -> str:
        """The same as `.proto` text."""
        lines = [
            f'syntax = "{self.proto.syntax}"; // A comment; {{',
            "package t;",
            'import "a/that/is/not/given.proto";',
        ]
        lines += [f'import "{name}";' for name in self.proto.dependency]
        values = "".join(f"{value.name} = {value.number}; " for value in self.proto.enum_type[0].value)
        lines += [f"enum Colour {{ reserved 5 to 7; {values}}}"]
        for message in self.proto.message_type:
            entries = {f".t.{message.name}.{entry.name}": entry for entry in message.nested_type}
            fields = [(field, self._field_text(field, entries.get(field.type_name))) for field in message.field]
            plain = [text for field, text in fields if not self._is_of_oneof(field)]
            members = [text for field, text in fields if self._is_of_oneof(field)]
            oneof = ["oneof which {", *members, "}"] if members else []
            lines += [f"message {message.name} {{ /* {'{'} */", "reserved 3000, 3002 to max;", *plain, *oneof, "}"]
        return "\n".join([*lines, "service S { rpc Get(Item) returns (Item) { option deprecated = true; } }"])

    @staticmethod
    def _is_of_oneof(field: Any) -> bool:
        return field.HasField("oneof_index") and not field.proto3_optional

    def _field_text(self, field: Any, entry: Any) -> str:
        def kind(each: Any) -> str:
            return each.type_name.removeprefix(".t.") or next(name for name in SCALARS if _NUMBERS[name] == each.type)

        if entry is not None:
            return f"map<{kind(entry.field[0])}, {kind(entry.field[1])}> {field.name} = {field.number};"
        is_optional = field.proto3_optional or (self.proto.syntax == "proto2" and not self._is_of_oneof(field))
        label = {1: "optional " if is_optional else "", 2: "required ", 3: "repeated "}[field.label]
        packed = ' [packed = false, (x.y) = { z: "}];" }]' if field.options.HasField("packed") else ""
        return f"{label}{kind(field)} {field.name} = {field.number}{packed};"

    def build(self, *names: str) -> list[type[Message]]:
        """The classes of messages, as `protoc` would generate them."""
        pool = descriptor_pool.DescriptorPool()
        for module in (Duration, Timestamp, Int32Value):
            pool.AddSerializedFile(module.DESCRIPTOR.file.serialized_pb)
        pool.AddSerializedFile(self.proto.SerializeToString())
        found = [pool.FindMessageTypeByName(f"t.{name}") for name in names]
        return [message_factory.GetMessageClass(each) for each in found]


def _typed(field: Any, text: str) -> None:
    if text in SCALARS:
        field.type = _NUMBERS[text]
    else:
        field.type, field.type_name = _NUMBERS["enum" if text == ".t.Colour" else "message"], text


def fill(message: Any, chance: random.Random, depth: int = 0) -> None:
    """Give a message random values."""
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and chance.random() < 0.3 + depth * 0.2:
            continue
        held = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(chance.randrange(4)):
                key = _value(field.message_type.fields_by_name["key"], chance)
                value = field.message_type.fields_by_name["value"]
                if value.message_type is None:
                    held[key] = _value(value, chance)
                else:
                    fill(held[key], chance, depth + 1)
        elif field.is_repeated:
            for _ in range(chance.choice((0, 1, 2, 20))):
                if field.message_type is None:
                    held.append(_value(field, chance))
                else:
                    fill(held.add(), chance, depth + 1)
        elif field.message_type is None:
            setattr(message, field.name, _value(field, chance))
        else:
            held.SetInParent()
            fill(held, chance, depth + 1)
    # What such messages may have at most.
    if message.DESCRIPTOR.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        message.seconds, message.nanos = message.seconds % (1 << 35), message.nanos % 10**9


def _value(field: Any, chance: random.Random) -> Any:
    if field.enum_type is not None:
        return chance.choice([0, 1, 2] if field.enum_type.is_closed else [0, 1, 2, 7, -1])
    if field.cpp_type in _INTEGERS:
        low, high = _INTEGERS[field.cpp_type]
        small = max(low, -chance.randrange(200))
        return chance.choice([low, high, 0, small, chance.randrange(200), chance.randint(low, high)])
    if field.type == FieldDescriptor.TYPE_STRING:
        return "".join(chance.choices("aé€𝄞", k=chance.choice((0, 1, 5, 200))))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chance.randbytes(chance.choice((0, 1, 5, 200)))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return chance.random() < 0.5
    return chance.choice([0.0, -0.0, 1.5, -2.25, float("inf"), float(chance.randrange(1 << 20))])


def expected(message: Any) -> Any:
    """What a message is as a row."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        return _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    if name == "google.protobuf.Duration":
        return timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return message.value
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any) -> Any:
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        value = field.message_type.fields_by_name["value"]
        return {key: _one(value, held[key]) for key in held}
    if field.is_repeated:
        return [_one(field, each) for each in held]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one(field, held)


def _one(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value if field.message_type is None else expected(value)
