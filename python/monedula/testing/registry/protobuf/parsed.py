"""A Protobuf schema as the registry asks it."""

import base64
from collections import Counter
from collections.abc import Iterator, Sequence

from monedula.testing.registry.errors import invalid_schema
from monedula.testing.registry.protobuf import descriptor, well_known
from monedula.testing.registry.protobuf.differences import Types, differences
from monedula.testing.registry.protobuf.model import SCALARS, Enum, Field, File, Message, ProtoError
from monedula.testing.registry.protobuf.serialized import serialized
from monedula.testing.registry.protobuf.text import Parser, canonical, tokens_of


class ProtobufSchema:
    """See `monedula.testing.registry.definition.Parsed`."""

    def __init__(self, text: str, types: Types, given: str | None) -> None:
        self.canonical = text
        self.types = types
        self._serialized = given

    def cannot_read(self, writer: "ProtobufSchema") -> list[str]:
        """Why messages of a writer's schema cannot be read with this one."""
        return differences(writer.types, self.types)

    def normalized(self) -> str:
        """The text, which has one form in any case."""
        return self.canonical

    def formatted(self, name: str) -> str | None:
        """The schema as `serialized` descriptor in base64: the one that was registered, or what the text says."""
        if name != "serialized":
            return None
        return self._serialized or serialized(self.types)


def parse(text: str, references: Sequence[tuple[str, str]]) -> ProtobufSchema:
    """The schema of a text, or of a `FileDescriptorProto` in base64.

    Args:
        text: the text.
        references: names and texts of what it imports, each behind what that imports itself.

    Raises:
        ApiError: the text is no schema.
    """
    try:
        imported = {}
        for name, referred in references:
            imported[name] = Parser(tokens_of(referred)).read()
        if not text.strip():
            raise ProtoError("the schema is empty")
        described = descriptor.from_base64(text)
        tokens = tokens_of(text if described is None else descriptor.text_of(described))
        file = Parser(tokens).read()
        if file.is_empty:
            raise ProtoError("nothing is declared in it")
        types = Types(file, list(_imports(file, imported, set())))
        _check_names(file)
        _check_types(file, types)
    except ProtoError as error:
        raise invalid_schema(str(error)) from None
    given = None if described is None else base64.b64encode(base64.b64decode("".join(text.split()))).decode()
    return ProtobufSchema(canonical(tokens), types, given)


def _imports(file: File, given: dict[str, File], seen: set[str]) -> Iterator[File]:
    for name, _ in file.imports:
        if name in seen:
            continue
        seen.add(name)
        known = well_known.text(name)
        found = given.get(name) or (Parser(tokens_of(known)).read() if known else None)
        if found is not None:
            yield from _imports(found, given, seen)
            yield found
        elif not name.startswith(well_known.UNCHECKED):
            raise ProtoError(f"it imports {name!r}, which is none of its references")


def _check_names(file: File) -> None:
    """Refuse what is declared twice, as compilers do.

    Raises:
        ProtoError: if there is such.
    """
    for scope, names in _names(file):
        counts = Counter(names)
        if twice := next((name for name in names if counts[name] > 1), None):
            raise ProtoError(f"{twice!r} is declared twice in {scope}")


def _names(file: File) -> Iterator[tuple[str, list[str]]]:
    """The names that are declared in each place."""
    place = repr(file.package) if file.package else "the file"
    yield place, [*_named(file.messages), *_named(file.enums)]
    for scope, declared in file.types():
        if isinstance(declared, Message):
            yield repr(scope), [*_named(declared.fields), *_named(declared.messages), *_named(declared.enums)]


def _named(parts: Sequence[Field] | Sequence[Message] | Sequence[Enum]) -> Iterator[str]:
    return (each.name for each in parts)


def _check_types(file: File, types: Types) -> None:
    is_unchecked = any(name.startswith(well_known.UNCHECKED) and not well_known.text(name) for name, _ in file.imports)
    for scope, declared in file.types():
        if not isinstance(declared, Message):
            continue
        for field in declared.fields:
            if field.type not in SCALARS and types.find(field.type, scope) is None and not is_unchecked:
                raise ProtoError(
                    f"the field {field.name!r} of {scope!r} has the type {field.type!r}, which is not there"
                )
