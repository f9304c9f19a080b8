"""From the body of a request to a schema that was understood."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from monedula._monedula import ParsedProtobuf
from monedula.errors import ArgumentError
from monedula.testing.registry import json_schema
from monedula.testing.registry.avro import AvroSchema
from monedula.testing.registry.definition import Definition, Parsed, Reference, kind_of, references_of
from monedula.testing.registry.errors import ApiError, invalid_schema
from monedula.testing.registry.store import Store

_PARSERS: dict[str, Callable[[str, Sequence[tuple[str, str]]], Parsed]] = {
    "AVRO": AvroSchema,
    "JSON": json_schema.parse,
    "PROTOBUF": ParsedProtobuf,
}

MAX_REFERENCES = 1_000


def define(store: Store, subject: str, body: Mapping[str, Any], *, normalize: bool = False) -> Definition:
    """The schema of a request's body, with what it refers to.

    Args:
        store: where it finds that.
        subject: the subject for which it is; references mean its context.
        body: the body of the request.
        normalize: whether schemas that say the same in another order are the same.
    """
    text = body.get("schema")
    if not isinstance(text, str):
        raise invalid_schema("Empty schema")
    kind, references = kind_of(body), references_of(body)
    try:
        read = parsed(store, subject, kind, text, references)
        extra = {name: body[name] for name in ("metadata", "ruleSet") if body.get(name)}
        for name, value in extra.items():
            if not isinstance(value, dict):
                raise ApiError(422, f"{name} is a JSON object; given: {json.dumps(value)[:200]}")
        if not isinstance(extra.get("metadata", {}).get("properties") or {}, dict):
            raise ApiError(422, "properties of metadata is a JSON object")
        if normalize:
            references = tuple(sorted(set(references), key=lambda each: (each.name, each.subject, each.version)))
        definition = Definition(kind, read.normalized() if normalize else read.canonical, references, extra, read)
        json.dumps([definition.to_json(), text], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # Half of a pair could neither be answered nor written to a file.
        raise invalid_schema("it has half of a surrogate pair, which is no character") from None
    return definition


def parsed(store: Store, subject: str, kind: str, text: str, references: Sequence[Reference]) -> Parsed:
    """Parse a text, with the schemas that it refers to."""
    return parse(kind, text, referred_texts(store, subject, references))


def parse(kind: str, text: str, references: Sequence[tuple[str, str]]) -> Parsed:
    """The schema of a text.

    Args:
        kind: one of `KINDS`.
        text: the text.
        references: names and texts of what it refers to, each behind what that refers to itself.
    """
    try:
        return _PARSERS[kind](text, references)
    except ArgumentError as error:
        raise invalid_schema(str(error)) from None


def referred_texts(store: Store, subject: str, references: Sequence[Reference]) -> list[tuple[str, str]]:
    """The names and texts of what references mean, each behind what it refers to itself, none twice."""
    found: dict[tuple[str, int], tuple[str, str]] = {}

    def add(subject: str, references: Sequence[Reference]) -> None:
        for reference in references:
            try:
                version = store.referred(subject, reference)
            except ApiError:
                told = json.dumps(reference.to_json())
                raise invalid_schema(f"No schema reference found for subject: {told}") from None
            if (version.subject, version.number) in found:
                continue
            if len(found) >= MAX_REFERENCES:
                raise invalid_schema(f"it refers to more than {MAX_REFERENCES} schemas")
            add(version.subject, version.definition.references)
            found[version.subject, version.number] = (reference.name, version.definition.text)

    add(subject, references)
    return list(found.values())
