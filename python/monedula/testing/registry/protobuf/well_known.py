"""Google's own files, which schemas import without a reference: the names of their types."""

_FILES = {
    "google/protobuf/any.proto": "message Any { string type_url = 1; bytes value = 2; }",
    "google/protobuf/duration.proto": "message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/empty.proto": "message Empty {}",
    "google/protobuf/field_mask.proto": "message FieldMask { repeated string paths = 1; }",
    "google/protobuf/source_context.proto": "message SourceContext { string file_name = 1; }",
    "google/protobuf/struct.proto": (
        "message Struct { map<string, Value> fields = 1; } enum NullValue { NULL_VALUE = 0; } "
        "message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3; "
        "bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6; } } "
        "message ListValue { repeated Value values = 1; }"
    ),
    "google/protobuf/timestamp.proto": "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/wrappers.proto": " ".join(
        f"message {name}Value {{ {kind} value = 1; }}"
        for name, kind in (
            ("Double", "double"),
            ("Float", "float"),
            ("Int64", "int64"),
            ("UInt64", "uint64"),
            ("Int32", "int32"),
            ("UInt32", "uint32"),
            ("Bool", "bool"),
            ("String", "string"),
            ("Bytes", "bytes"),
        )
    ),
}

UNCHECKED = ("google/", "confluent/", "buf/")
"""Where further files that come with compilers stand: their types are not looked for."""


def text(name: str) -> str | None:
    """The text of a file, if it is one of these."""
    body = _FILES.get(name)
    return None if body is None else f'syntax = "proto3"; package google.protobuf; {body}'
