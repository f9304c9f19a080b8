"""Protobuf in the registry: what is a schema, how it is written, and what may follow what."""

import base64
from typing import Any

import pytest
from google.protobuf import any_pb2, descriptor_pb2, struct_pb2, type_pb2, wrappers_pb2
from monedula.testing.registry.errors import ApiError
from monedula.testing.registry.schemas import parse

ITEM = 'syntax = "proto3"; package shop; message Item { int64 id = 1; }'


def read(text: str, *references: tuple[str, str]) -> Any:
    return parse("PROTOBUF", text, references)


def message(fields: str, syntax: str = "proto3", package: str = "p") -> str:
    return f'syntax = "{syntax}"; package {package}; message M {{ {fields} }}'


FITTING = {
    "a field more": ("int32 a = 1;", "int32 a = 1; string b = 2;"),
    "a field less": ("int32 a = 1; string b = 2;", "int32 a = 1;"),
    "another name": ("int32 a = 1;", "int32 z = 1;"),
    "numbers that are written alike": ("int32 a = 1; bool b = 2;", "uint64 a = 1; int64 b = 2;"),
    "zigzag numbers": ("sint32 a = 1;", "sint64 a = 1;"),
    "text to bytes": ("string a = 1;", "bytes a = 1;"),
    "fixed numbers": ("fixed32 a = 1; sfixed64 b = 2;", "sfixed32 a = 1; fixed64 b = 2;"),
    "an enum to a number": ("E a = 1; enum E { X = 0; }", "int32 a = 1; enum E { X = 0; Y = 1; }"),
    "an enum is gone": ("E a = 1; enum E { X = 0; }", "int32 a = 1;"),
    "a message more": ("int32 a = 1;", "int32 a = 1; message N {}"),
    "one field into a new oneof": ("int32 a = 1;", "oneof o { int32 a = 1; string b = 2; }"),
    "a oneof has more": ("oneof o { int32 a = 1; }", "oneof o { int32 a = 1; int32 b = 2; }"),
    "a oneof is gone": ("oneof o { int32 a = 1; int32 b = 2; }", "int32 a = 1; int32 b = 2;"),
    "a map": ("map<string, int32> a = 1;", "map<bytes_, int64> a = 1;".replace("bytes_", "string")),
    "well known": ("google.protobuf.Timestamp a = 1;", "google.protobuf.Timestamp a = 1;"),
}

BREAKING = {
    "another kind of number": ("int32 a = 1;", "sint32 a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    "number to text": ("int32 a = 1;", "string a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    "float to double": ("float a = 1;", "double a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    "enum to text": ("E a = 1; enum E { X = 0; }", "string a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    "number to message": ("int32 a = 1; message N {}", "N a = 1; message N {}", "FIELD_KIND_CHANGED"),
    "map to list": ("map<string, int32> a = 1;", "repeated int32 a = 1;", "FIELD_KIND_CHANGED"),
    "other keys": ("map<string, int32> a = 1;", "map<int32, int32> a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    "other values": ("map<string, int32> a = 1;", "map<string, string> a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    "another message": (
        "N a = 1; message N {} message O {}",
        "O a = 1; message N {} message O {}",
        "FIELD_NAMED_TYPE_CHANGED",
    ),
    "a message is gone": ("int32 a = 1; message N {}", "int32 a = 1;", "MESSAGE_REMOVED"),
    "a field of a message within": (
        "N a = 1; message N { int32 b = 1; }",
        "N a = 1; message N { string b = 1; }",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    "two fields into a oneof": (
        "int32 a = 1; int32 b = 2;",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
    ),
    "a field into an old oneof": (
        "int32 a = 1; oneof o { int32 b = 2; }",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "FIELD_MOVED_TO_EXISTING_ONEOF",
    ),
    "a oneof has less": ("oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; }", "ONEOF_FIELD_REMOVED"),
    "a type in a renamed oneof": ("oneof o { int32 a = 1; }", "oneof z { string a = 1; }", "FIELD_SCALAR_KIND_CHANGED"),
}


def imported(fields: str) -> str:
    return f'import "google/protobuf/timestamp.proto"; {message(fields)}'


@pytest.mark.parametrize("case", FITTING)
def test_what_fits(case: str) -> None:
    original, update = FITTING[case]
    assert read(imported(update)).cannot_read(read(imported(original))) == []


@pytest.mark.parametrize("case", BREAKING)
def test_what_breaks_is_named(case: str) -> None:
    original, update, kind = BREAKING[case]
    reasons = read(message(update)).cannot_read(read(message(original)))
    assert any(reason.startswith(f"{{errorType:'{kind}'") for reason in reasons), reasons


def test_required_fields_are_neither_added_nor_removed() -> None:
    one, two = (read(message(f"optional int32 a = 1; {more}", "proto2")) for more in ("", "required int32 b = 2;"))
    assert "REQUIRED_FIELD_ADDED" in two.cannot_read(one)[0]
    assert "REQUIRED_FIELD_REMOVED" in one.cannot_read(two)[0]


def test_another_package_breaks() -> None:
    one, two = read(message("int32 a = 1;")), read(message("int32 a = 1;", package="q"))
    assert "PACKAGE_CHANGED" in two.cannot_read(one)[0]


def test_what_is_imported_is_compared_too() -> None:
    text = 'syntax = "proto3"; import "item.proto"; message Line { shop.Item item = 1; }'
    old = read(text, ("item.proto", ITEM))
    assert read(text, ("item.proto", ITEM.replace("int64", "int32"))).cannot_read(old) == []
    reasons = read(text, ("item.proto", ITEM.replace("int64", "string"))).cannot_read(old)
    assert [reason[12:37] for reason in reasons] == ["FIELD_SCALAR_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED'"[:25]]


def test_a_message_in_itself_ends() -> None:
    one, two = (read(message(f"M next = 1; {kind} v = 2;")) for kind in ("int32", "string"))
    assert one.cannot_read(one) == []
    assert len(two.cannot_read(one)) == 1


def test_equal_schemas_have_one_text() -> None:
    given = """
        // a comment
        syntax = 'proto3'; package p;
        option (custom) = { a: 1, b: "x;{" };
        message M { /* another */ map < string , int32 > a=1 [ deprecated = true ]; reserved 5 to 7 ;
          oneof o { N b = 2; } message N { optional bytes c = 1; } ; enum E { X = 0 ; Y = - 1; } }
        service S { rpc Get (M) returns (stream M) ; }
    """
    text = read(given).canonical
    assert text == (
        "syntax = 'proto3';\n"
        "package p;\n"
        'option (custom) = { a : 1, b : "x;{" };\n'
        "message M {\n"
        "  map<string, int32> a = 1 [deprecated = true];\n"
        "  reserved 5 to 7;\n"
        "  oneof o {\n"
        "    N b = 2;\n"
        "  }\n"
        "  message N {\n"
        "    optional bytes c = 1;\n"
        "  }\n"
        "  enum E {\n"
        "    X = 0;\n"
        "    Y = -1;\n"
        "  }\n"
        "}\n"
        "service S {\n"
        "  rpc Get (M) returns (stream M);\n"
        "}\n"
    )
    assert read(text).canonical == text


def without_options(file: Any) -> Any:
    """What messages are made of, with the name that clients give to what they were answered."""

    def strip(message: Any) -> None:
        del message.reserved_range[:], message.reserved_name[:], message.extension_range[:]
        is_entry = message.options.map_entry
        message.ClearField("options")
        if is_entry:
            message.options.map_entry = True
        for field in message.field:
            for name in ("options", "json_name", "default_value"):
                field.ClearField(name)
        for enum in message.enum_type:
            strip_enum(enum)
        for nested in message.nested_type:
            strip(nested)
        # Maps' entries stand behind the others.
        message.nested_type.sort(key=lambda nested: nested.options.map_entry)

    def strip_enum(enum: Any) -> None:
        allows = enum.options.allow_alias
        for name in ("options", "reserved_range", "reserved_name"):
            enum.ClearField(name)
        if allows:
            enum.options.allow_alias = True
        for value in enum.value:
            value.ClearField("options")

    stripped = type(file)()
    stripped.CopyFrom(file)
    stripped.name = "default"
    stripped.ClearField("options")
    for message in stripped.message_type:
        strip(message)
    for enum in stripped.enum_type:
        strip_enum(enum)
    if stripped.syntax == "proto2":
        stripped.ClearField("syntax")
    return stripped


def test_optional_fields_oneofs_and_groups_are_described() -> None:
    text = message("optional int32 a = 1; oneof o { string b = 2; E c = 3; } enum E { X = 0; } optional M d = 4;")
    made = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(read(text).formatted("serialized")))
    told = [(field.name, field.oneof_index, field.proto3_optional) for field in made.message_type[0].field]
    assert told == [("a", 1, True), ("b", 0, False), ("c", 0, False), ("d", 2, True)]
    assert [oneof.name for oneof in made.message_type[0].oneof_decl] == ["o", "_a", "_d"]
    assert [field.type_name for field in made.message_type[0].field] == ["", "", ".p.M.E", ".p.M"]
    group = read(message("optional group G = 1 { optional int32 a = 1; }", "proto2"))
    described = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(group.formatted("serialized")))
    (field,) = described.message_type[0].field
    assert (field.name, field.type, field.type_name) == ("g", field.TYPE_GROUP, ".p.M.G")
    plain = read(message("optional G g = 1; message G { optional int32 a = 1; }", "proto2"))
    assert "FIELD_KIND_CHANGED" in plain.cannot_read(group)[0]


@pytest.mark.parametrize("module", [any_pb2, descriptor_pb2, struct_pb2, type_pb2, wrappers_pb2])
def test_a_descriptor_in_base64_is_read_as_its_text(module: Any) -> None:
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    given = base64.b64encode(file.SerializeToString()).decode()
    schema = read(given)
    assert schema.formatted("serialized") == given
    assert schema.formatted("other") is None
    again = read(schema.canonical)
    assert again.canonical == schema.canonical
    assert again.cannot_read(schema) == schema.cannot_read(again) == []
    made = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(again.formatted("serialized")))
    assert made == without_options(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("message M {", "ends too early"),
        ('syntax = "proto4";', 'no syntax "proto4"'),
        ('syntax = "proto3";', "nothing is declared"),
        ('syntax = "proto3"; option java_package = "p";', "nothing is declared"),
        ("message M { int32 a = 1; }", "neither optional, required nor repeated"),
        (message("int32 a = 1; int32 b = 1;"), "'a' and 'b' of 'M' have one number"),
        (message("int32 a = 1; int32 a = 2;"), "two fields 'a'"),
        (message("int32 a = 0;"), "has the number 0"),
        (message("int32 a = 19000;"), "has the number 19000"),
        (message("int32 a = x;"), 'expected a whole number, and not "x"'),
        ("message M {} message M {}", "'M' is declared twice in the file"),
        ("package p; message M {} enum M { A = 0; }", "'M' is declared twice in 'p'"),
        (message("message N {} int32 n = 1; message N {}"), "'N' is declared twice in 'p.M'"),
        (message("int32 N = 1; enum N { A = 0; }"), "'N' is declared twice in 'p.M'"),
        (message("Other a = 1;"), "has the type 'Other', which is not there"),
        (message("map<float, int32> a = 1;"), "no type of a map's keys"),
        (message("enum E { X = 1; }"), "is not 0"),
        (message("enum E { }"), "has no value"),
        (message("int32 a = 1;") + ' import "x.proto";', "imports 'x.proto', which is none of its references"),
        ("message M { $ }", 'line 1: expected a name, and not "\\$"'),
        ("Zm9vYmFyYmF6cXV4", "is that of no FileDescriptorProto"),
    ],
)
def test_what_is_no_schema_is_refused(text: str, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        read(text)
    assert refused.value.code == 42201


OPTIONS = 'import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions { string pii = 50001; }'


@pytest.mark.parametrize(
    "text",
    [
        f'syntax = "proto3"; {OPTIONS}',
        'syntax = "proto2"; extend Item { optional int32 more = 100; } import "item.proto";',
        'syntax = "proto3"; package all; import public "item.proto";',
        'syntax = "proto3"; import "item.proto"; service Shop { rpc Get (shop.Item) returns (shop.Item); }',
    ],
)
def test_a_file_without_types_of_its_own_is_a_schema(text: str) -> None:
    schema = read(text, ("item.proto", ITEM))
    assert read(schema.canonical, ("item.proto", ITEM)).canonical == schema.canonical
    assert schema.cannot_read(schema) == []


def test_what_is_imported_publicly_is_a_type_of_whoever_imports_it() -> None:
    middle = 'syntax = "proto3"; import public "item.proto";'
    references = (("item.proto", ITEM), ("all.proto", middle))
    order = 'syntax = "proto3"; package shop; import "all.proto"; message Order { repeated shop.Item items = 1; }'
    assert read(order, *references).canonical.startswith('syntax = "proto3";')
