"""Whether a reader's schema can read what a writer's has written, by the rules of Avro's `SchemaCompatibility`."""

import json
from collections.abc import Iterator

from monedula.testing.registry.avro.schema import MISSING, Field, Schema

_PROMOTED = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}


def differences(reader: Schema, writer: Schema) -> list[str]:
    """Why values of the writer's schema cannot be read with the reader's, each with its place; nothing if they can."""
    return list(_Comparison().differences(reader, writer, ""))


class _Comparison:
    """What is being compared counts as readable: a type in itself adds nothing to why it is not."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, int], bool] = {}

    def readable(self, reader: Schema, writer: Schema) -> bool:
        return not any(True for _ in self.differences(reader, writer, ""))

    def differences(self, reader: Schema, writer: Schema, path: str) -> Iterator[str]:
        pair = (id(reader), id(writer))
        if pair in self.seen:
            if not self.seen[pair]:
                yield _told("TYPE_MISMATCH", path, f"{_name(reader)} cannot read {_name(writer)}", _name(writer))
            return
        self.seen[pair] = True
        found = list(self._found(reader, writer, path))
        self.seen[pair] = not found
        yield from found

    def _found(self, reader: Schema, writer: Schema, path: str) -> Iterator[str]:
        if reader.type != writer.type:
            yield from self._of_two_types(reader, writer, path)
            return
        match reader.type:
            case "array":
                yield from self.differences(_inner(reader), _inner(writer), f"{path}/items")
            case "map":
                yield from self.differences(_inner(reader), _inner(writer), f"{path}/values")
            case "union":
                yield from self._branches(reader, writer, path)
            case "fixed":
                yield from _named(reader, writer, path)
                if reader.size != writer.size:
                    text = f"the new size of {reader.name} is {reader.size}, where {writer.size} was written"
                    yield _told("FIXED_SIZE_MISMATCH", f"{path}/size", text, f"{reader.size}, {writer.size}")
            case "enum":
                yield from _named(reader, writer, path)
                missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
                if missing and reader.default is None:
                    text = f"the enum {reader.name} lacks symbols that may have been written, and has no default"
                    yield _told("MISSING_ENUM_SYMBOLS", f"{path}/symbols", text, ", ".join(missing))
            case "record":
                yield from _named(reader, writer, path)
                for index, field in enumerate(reader.fields):
                    yield from self._field(field, writer, f"{path}/fields/{index}")

    def _of_two_types(self, reader: Schema, writer: Schema, path: str) -> Iterator[str]:
        if writer.type == "union":
            for branch in writer.branches:
                yield from self.differences(reader, branch, path)
        elif reader.type == "union":
            if not any(self.readable(branch, writer) for branch in reader.branches):
                yield _lacks(reader, writer, path)
        elif writer.type not in _PROMOTED.get(reader.type, set()):
            text = f"{_name(reader)} is expected, where {_name(writer)} was written"
            yield _told("TYPE_MISMATCH", path, text, f"reader type: {reader.type}, writer type: {writer.type}")

    def _branches(self, reader: Schema, writer: Schema, path: str) -> Iterator[str]:
        for index, branch in enumerate(writer.branches):
            if not any(self.readable(each, branch) for each in reader.branches):
                yield _lacks(reader, branch, f"{path}/{index}")

    def _field(self, field: Field, writer: Schema, path: str) -> Iterator[str]:
        written = [each for each in writer.fields if each.name in (field.name, *field.aliases)]
        if len(written) > 1:
            text = f"several fields that were written are {field.name!r}, by its name and aliases"
            yield _told("NAME_MISMATCH", f"{path}/aliases", text, ", ".join(each.name for each in written))
        elif written:
            yield from self.differences(field.schema, written[0].schema, f"{path}/type")
        elif field.default is not MISSING:
            return
        elif field.schema.type == "enum" and field.schema.default is not None:
            # Java compares the enum with the record then.
            yield from self.differences(field.schema, writer, f"{path}/type")
        else:
            text = f"the field {field.name!r} has no default, and may be missing in what was written"
            yield _told("READER_FIELD_MISSING_DEFAULT_VALUE", path, text, field.name)


def _named(reader: Schema, writer: Schema, path: str) -> Iterator[str]:
    if reader.simple_name != writer.simple_name and writer.name not in reader.aliases:
        text = f"{reader.name} is expected, where {writer.name} was written"
        yield _told("NAME_MISMATCH", f"{path}/name", text, f"expected: {writer.name}")


def _lacks(reader: Schema, written: Schema, path: str) -> str:
    branches = json.dumps([_name(branch) for branch in reader.branches])
    text = f"the union {branches} has no branch for {_name(written)}, which may have been written"
    return _told("MISSING_UNION_BRANCH", path, text, f"reader union lacking writer type: {written.type.upper()}")


def _told(kind: str, path: str, text: str, more: str) -> str:
    return f"{{errorType:'{kind}', description:'{text}, at path {path or '/'}', additionalInfo:'{more}'}}"


def _name(schema: Schema) -> str:
    return schema.name or schema.type


def _inner(schema: Schema) -> Schema:
    assert schema.inner is not None
    return schema.inner
