"""Conversion of Spark's DDL, `id bigint, tags array<string>`, to Arrow fields and back."""

import re
from typing import TYPE_CHECKING, Any

from monedula.errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

_TOKEN = re.compile(
    r"\s*(?:(?P<name>\w+)|`(?P<quoted>(?:[^`]|``)+)`"
    r"|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")|(?P<sign>[<>(),:]))"
)
_WORD = re.compile(r"\w*[^\W\d]\w*\Z")

MAX_DEPTH = 64
"""Limit on the nesting of types: the decoder's."""

_UNSUPPORTED = {
    **dict.fromkeys(("char", "varchar", "interval", "void", "time"), "use string"),
    "variant": "use string: it takes any value as its source text",
}

_ELSEWHERE = {
    **dict.fromkeys(("str", "text", "utf8", "large_string", "object", "json", "uuid"), "string"),
    **dict.fromkeys(("int64", "i64", "int8", "uint32", "serial"), "bigint"),
    **dict.fromkeys(("int32", "i32", "integer32", "number"), "int"),
    **dict.fromkeys(("float64", "f64", "double precision"), "double"),
    **dict.fromkeys(("float32", "f32"), "float"),
    **dict.fromkeys(("bool", "bit"), "boolean"),
    **dict.fromkeys(("bytes", "bytea", "blob"), "binary"),
    **dict.fromkeys(("datetime", "timestamptz", "datetime64"), "timestamp"),
    "list": "array<string>",
    "dict": "struct<name: string> or map<string, string>",
    "record": "struct<name: string>",
}
"""Types of Arrow, polars, Python and SQL databases, with their names in Spark's DDL."""


def _hint(word: str) -> str:
    return f"; Spark's DDL says {_ELSEWHERE[word]}" if word in _ELSEWHERE else ""


def scalar(word: str) -> "pa.DataType | None":
    """Return the Arrow type of a case-insensitive type name of Spark's DDL without arguments."""
    import pyarrow as pa

    types: dict[str, pa.DataType] = {
        "boolean": pa.bool_(),
        **dict.fromkeys(("tinyint", "byte"), pa.int8()),
        **dict.fromkeys(("smallint", "short"), pa.int16()),
        **dict.fromkeys(("int", "integer"), pa.int32()),
        **dict.fromkeys(("bigint", "long"), pa.int64()),
        **dict.fromkeys(("float", "real"), pa.float32()),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        **dict.fromkeys(("timestamp", "timestamp_ltz"), pa.timestamp("us", "UTC")),
        "timestamp_ntz": pa.timestamp("us"),
        **dict.fromkeys(("decimal", "dec", "numeric"), pa.decimal128(10, 0)),
    }
    return types.get(word.lower())


def map_of(value: Any, nullable: bool = True) -> "pa.DataType":
    """Return a map type from strings to values of this type."""
    import pyarrow as pa

    make: Any = pa.map_  # the stub does not know fields
    result: pa.DataType = make(pa.string(), pa.field("value", value, nullable))
    return result


def fields_of(text: str) -> "list[pa.Field[Any]]":
    """Parse DDL to fields: `a int, b struct<c: string> not null`, or `struct<...>` as a whole."""
    parser = _Parser(text)
    if parser.take_word("struct", before="<"):
        parser.need("<")
        fields = parser.fields("", ">")
        parser.need(">")
    else:
        fields = parser.fields("", None)
    parser.end()
    return fields


class _Parser:
    """Cursor over the tokens of a DDL text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at, end)
            if found is None:
                raise self._wrong(at, "no such character here")
            kind = found.lastgroup or ""
            self._tokens.append((kind, found.group(kind), found.start(kind)))
            at = found.end()
        self._index = 0
        self._depth = 0

    def _wrong(self, at: int, reason: str) -> ArgumentError:
        return ArgumentError(f"DDL at character {at + 1}, {self._text[at : at + 20]!r}: {reason}", argument="schema")

    def _peek(self) -> tuple[str, str, int]:
        return self._tokens[self._index] if self._index < len(self._tokens) else ("end", "", len(self._text))

    def _next(self) -> tuple[str, str, int]:
        token = self._peek()
        self._index += 1
        return token

    def _is(self, sign: str) -> bool:
        return self._peek()[:2] == ("sign", sign)

    def take(self, sign: str) -> bool:
        found = self._is(sign)
        self._index += found
        return found

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise self._wrong(self._peek()[2], f"expected {sign!r}")

    def take_word(self, word: str, before: str | None = None) -> bool:
        kind, value, _ = self._peek()
        found = kind == "name" and value.lower() == word
        if found and before is not None:
            following = self._tokens[self._index + 1 : self._index + 2]
            found = [token[:2] for token in following] == [("sign", before)]
        self._index += found
        return found

    def end(self) -> None:
        kind, _, at = self._peek()
        if kind != "end":
            raise self._wrong(at, "expected a comma or the end")

    def fields(self, path: str, close: str | None) -> "list[pa.Field[Any]]":
        fields: list[pa.Field[Any]] = []
        if (self._peek()[0] == "end") if close is None else self._is(close):
            return fields
        while True:
            fields.append(self._field(path))
            if not self.take(","):
                return fields

    def _field(self, path: str) -> "pa.Field[Any]":
        import pyarrow as pa

        kind, name, at = self._next()
        if kind == "quoted":
            name = name.replace("``", "`")
        elif kind != "name" or not _WORD.match(name):
            raise self._wrong(at, "expected the name of a field")
        self.take(":")
        data_type = self._type(f"{path}.{name}" if path else name)
        nullable = True
        if self.take_word("not"):
            if not self.take_word("null"):
                raise self._wrong(self._peek()[2], "expected NULL after NOT")
            nullable = False
        if self.take_word("comment") and self._next()[0] != "text":
            raise self._wrong(self._tokens[self._index - 1][2], "expected a text in quotes after COMMENT")
        return pa.field(name, data_type, nullable)

    def _type(self, path: str) -> "pa.DataType":
        import pyarrow as pa

        kind, word, at = self._next()
        if kind != "name":
            raise self._wrong(at, f"expected the type of {path}")
        word = word.lower()
        if word in ("array", "map", "struct"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise self._wrong(at, f"types are nested deeper than {MAX_DEPTH}")
            self.need("<")
            result = self._nested(word, path)
            self.need(">")
            self._depth -= 1
            return result
        if word in ("decimal", "dec", "numeric") and self.take("("):
            precision = self._whole(1, 38)
            scale = self._whole(0, precision) if self.take(",") else 0
            self.need(")")
            return pa.decimal128(precision, scale)
        found = scalar(word)
        if found is None:
            reason = _UNSUPPORTED.get(word, "there is no such type" + _hint(word))
            raise self._wrong(at, f"field {path}: {word}: {reason}")
        return found

    def _nested(self, word: str, path: str) -> "pa.DataType":
        import pyarrow as pa

        if word == "array":
            return pa.list_(pa.field("element", self._type(f"{path}[]")))
        if word == "struct":
            return pa.struct(self.fields(path, ">"))
        at = self._peek()[2]
        if self._type(f"{path}{{}}") != pa.string():
            raise self._wrong(at, f"field {path}: the keys of a map must be string, as those of JSON objects are")
        self.need(",")
        return map_of(self._type(f"{path}{{}}"))

    def _whole(self, least: int, most: int) -> int:
        kind, word, at = self._next()
        if kind != "name" or not word.isascii() or not word.isdigit() or not least <= int(word) <= most:
            raise self._wrong(at, f"expected a whole number from {least} to {most}")
        return int(word)


def ddl_of(schema: "pa.Schema | pa.StructType") -> str:
    """Write a schema as Spark's DDL: `id BIGINT, tags ARRAY<STRING>`.

    Args:
        schema: a schema of types that `schema_of` returns.
    """
    return ", ".join(f"{_name(field.name)} {type_text(field.type)}{_not_null(field)}" for field in schema)


def type_text(data_type: Any) -> str:
    """Return Spark's name of an Arrow type."""
    import pyarrow as pa

    if pa.types.is_struct(data_type):
        inner = (f"{_name(field.name)}: {type_text(field.type)}{_not_null(field)}" for field in data_type)
        return f"STRUCT<{', '.join(inner)}>"
    if pa.types.is_map(data_type):
        return f"MAP<{type_text(data_type.key_type)}, {type_text(data_type.item_type)}>"
    if pa.types.is_list(data_type):
        return f"ARRAY<{type_text(data_type.value_type)}>"
    if pa.types.is_decimal(data_type):
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    if pa.types.is_timestamp(data_type):
        return "TIMESTAMP" if data_type.tz else "TIMESTAMP_NTZ"
    words = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE")
    return next((word for word in words if scalar(word) == data_type), str(data_type))


def _name(name: str) -> str:
    return name if name.isascii() and _WORD.match(name) else "`" + name.replace("`", "``") + "`"


def _not_null(field: "pa.Field[Any]") -> str:
    return "" if field.nullable else " NOT NULL"
