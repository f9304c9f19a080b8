"""Whether messages of one schema can be read with another, by the rules of Confluent's registry."""

from collections.abc import Iterator, Mapping, Sequence

from monedula.testing.registry.protobuf.model import SCALARS, Enum, Field, File, Message

Difference = tuple[str, str, str]

_GROUPS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "a number"),
    **dict.fromkeys(("sint32", "sint64"), "a signed number"),
    **dict.fromkeys(("string", "bytes"), "a text or bytes"),
    **dict.fromkeys(("fixed32", "sfixed32"), "a number of four bytes"),
    **dict.fromkeys(("fixed64", "sfixed64"), "a number of eight bytes"),
}
"""Scalars that are written alike."""


class Types:
    """The types of a file and of all that it imports, by their full names."""

    def __init__(self, file: File, imported: Sequence[File]) -> None:
        self.file = file
        self.all: dict[str, tuple[Message | Enum, File]] = {}
        for each in (*imported, file):
            for name, declared in each.types():
                self.all[name] = (declared, each)

    def find(self, name: str, scope: str) -> tuple[str, Message | Enum, File] | None:
        """The type that a name means within a scope: the nearest, as in C++."""
        if name.startswith("."):
            found = self.all.get(name[1:])
            return None if found is None else (name[1:], *found)
        parts = scope.split(".") if scope else []
        for length in range(len(parts), -1, -1):
            full = ".".join([*parts[:length], name])
            if full in self.all:
                return full, *self.all[full]
        return None


def differences(original: Types, update: Types) -> list[str]:
    """Why messages of the original cannot be read with the update, each with its place."""
    comparison = _Comparison(original, update)
    return [
        f"{{errorType:'{kind}', description:'{text}, at path {path}'}}" for kind, path, text in comparison.of_files()
    ]


class _Comparison:
    def __init__(self, original: Types, update: Types) -> None:
        self.original, self.update = original, update
        self.seen: set[tuple[int, int]] = set()

    def of_files(self) -> Iterator[Difference]:
        old, new = self.original.file, self.update.file
        if old.package != new.package:
            yield "PACKAGE_CHANGED", "#/", f"the package {old.package!r} has become {new.package!r}"
        yield from self._of_messages(old.messages, new.messages, old.package, new.package, "#/")

    def _of_messages(
        self, old: Sequence[Message], new: Sequence[Message], was: str, now: str, path: str
    ) -> Iterator[Difference]:
        by_name = {message.name: message for message in new}
        for message in old:
            where = f"{path}{message.name}/"
            if message.name not in by_name:
                yield "MESSAGE_REMOVED", where, f"the message {message.name!r} is gone"
            else:
                scopes = _joined(was, message.name), _joined(now, message.name)
                yield from self._of_message(message, by_name[message.name], *scopes, where)

    def _of_message(self, old: Message, new: Message, was: str, now: str, path: str) -> Iterator[Difference]:
        if (id(old), id(new)) in self.seen:
            return
        self.seen.add((id(old), id(new)))
        before = {field.number: field for field in old.fields}
        after = {field.number: field for field in new.fields}
        yield from _of_oneofs(before, after, path)
        for number, field in before.items():
            if number in after:
                yield from self._of_field(field, after[number], was, now, f"{path}{number}")
            elif field.label == "required":
                yield "REQUIRED_FIELD_REMOVED", f"{path}{number}", f"the required field {field.name!r} is gone"
            elif field.oneof and any(each.oneof == field.oneof for each in new.fields):
                text = f"the field {field.name!r} of the oneof {field.oneof!r} is gone"
                yield "ONEOF_FIELD_REMOVED", f"{path}{field.oneof}/{number}", text
        for number, field in after.items():
            if number not in before and field.label == "required":
                text = f"the field {field.name!r} is required, and missing in what was written"
                yield "REQUIRED_FIELD_ADDED", f"{path}{number}", text
        yield from self._of_messages(old.messages, new.messages, was, now, path)

    def _of_field(self, old: Field, new: Field, was: str, now: str, path: str) -> Iterator[Difference]:
        if bool(old.key) != bool(new.key):
            text = f"{_type_of(old)} has become {_type_of(new)}"
            yield "FIELD_KIND_CHANGED", path, text
            return
        if old.key and _GROUPS.get(old.key) != _GROUPS.get(new.key):
            yield "FIELD_SCALAR_KIND_CHANGED", path, f"keys of type {old.key} have become {new.key}"
        before = None if old.type in SCALARS else self.original.find(old.type, was)
        after = None if new.type in SCALARS else self.update.find(new.type, now)
        kinds = _kind(old, before), _kind(new, after)
        if kinds[0] != kinds[1]:
            is_kind = not {"a message", "a group"}.isdisjoint(kinds)
            kind = "FIELD_KIND_CHANGED" if is_kind else "FIELD_SCALAR_KIND_CHANGED"
            yield kind, path, f"{old.type} has become {new.type}, which is written in another way"
        elif before is not None and after is not None and isinstance(before[1], Message):
            yield from self._of_message_types(before, after, path)

    def _of_message_types(
        self,
        before: tuple[str, Message | Enum, File],
        after: tuple[str, Message | Enum, File],
        path: str,
    ) -> Iterator[Difference]:
        (old_name, old, old_file), (new_name, new, new_file) = before, after
        if _local(old_name, old_file) != _local(new_name, new_file):
            yield "FIELD_NAMED_TYPE_CHANGED", path, f"the message {old_name} has become {new_name}"
        elif isinstance(old, Message) and isinstance(new, Message):
            # Those of the files themselves are compared there.
            is_own = old_file is self.original.file and new_file is self.update.file
            inner = [] if is_own else list(self._of_message(old, new, old_name, new_name, f"{path}/"))
            yield from inner
            if inner:
                yield "FIELD_NAMED_TYPE_CHANGED", path, f"the message {old_name} cannot be read any more"


def _of_oneofs(before: Mapping[int, Field], after: Mapping[int, Field], path: str) -> Iterator[Difference]:
    oneofs = {field.oneof for field in after.values() if field.oneof}
    for oneof in sorted(oneofs):
        within = [before[number] for number, field in after.items() if field.oneof == oneof and number in before]
        moved = [field.name for field in within if not field.oneof]
        if len(moved) > 1:
            text = f"{', '.join(moved)} have moved into the oneof {oneof!r}: of these only one can be set"
            yield "MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}{oneof}", text
        elif moved and len(within) > 1:
            text = f"{moved[0]!r} has moved into the oneof {oneof!r}, which had fields before"
            yield "FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}{oneof}", text


def _kind(field: Field, found: tuple[str, Message | Enum, File] | None) -> str:
    if field.type in SCALARS:
        return _GROUPS.get(field.type, field.type)
    if field.is_group:
        return "a group"
    return "a number" if found is not None and isinstance(found[1], Enum) else "a message"


def _local(name: str, file: File) -> str:
    return name.removeprefix(f"{file.package}.") if file.package else name


def _type_of(field: Field) -> str:
    return f"map<{field.key}, {field.type}>" if field.key else field.type


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
