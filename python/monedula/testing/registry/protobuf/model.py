"""A `.proto` file as far as schemas are compared: packages, messages with their fields, and enums."""

from collections.abc import Iterator
from dataclasses import dataclass, field

TYPES = (
    "double",
    "float",
    "int64",
    "uint64",
    "int32",
    "fixed64",
    "fixed32",
    "bool",
    "string",
    "group",
    "message",
    "bytes",
    "uint32",
    "enum",
    "sfixed32",
    "sfixed64",
    "sint32",
    "sint64",
)
"""The types of fields, in the order of their numbers in descriptors, from 1."""

SCALARS = tuple(name for name in TYPES if name not in ("group", "message", "enum"))


class ProtoError(Exception):
    """A text is no `.proto` file."""


@dataclass(eq=False, slots=True)
class Field:
    """A field of a message.

    Attributes:
        type: the type as it is written; of a map that of its values.
        key: the type of a map's keys; empty if it is no map.
        label: `"optional"`, `"required"`, `"repeated"`, or nothing.
        oneof: the oneof in which it is; empty if in none.
        is_group: whether it is a group, which is written in another way than a message.
    """

    name: str
    number: int
    type: str
    label: str = ""
    key: str = ""
    oneof: str = ""
    is_group: bool = False


@dataclass(eq=False, slots=True)
class Enum:
    """An enum."""

    name: str
    values: list[tuple[str, int]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Message:
    """A message, with what is declared in it."""

    name: str
    fields: list[Field] = field(default_factory=list)
    messages: "list[Message]" = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    reserved: list[str] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class File:
    """A file."""

    syntax: str = "proto2"
    package: str = ""
    imports: list[tuple[str, str]] = field(default_factory=list)
    """Names, each with `"public "`, `"weak "` or nothing."""
    messages: list[Message] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    has_others: bool = False
    """Whether services or extensions are declared, of which no more is known."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is declared. A file that only imports publicly declares what it imports."""
        return not (self.messages or self.enums or self.imports or self.has_others)

    def types(self) -> Iterator[tuple[str, Message | Enum]]:
        """All messages and enums, by their names with the package and with what they are declared in."""
        yield from _types(self.package, self.messages, self.enums)


def _types(scope: str, messages: list[Message], enums: list[Enum]) -> Iterator[tuple[str, Message | Enum]]:
    for enum in enums:
        yield _joined(scope, enum.name), enum
    for message in messages:
        name = _joined(scope, message.name)
        yield name, message
        yield from _types(name, message.messages, message.enums)


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
