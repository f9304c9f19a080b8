"""A schema as the registry keeps it, with what makes two of them one and the same."""

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from monedula.testing.registry.errors import ApiError, invalid_schema

KINDS = ("JSON", "PROTOBUF", "AVRO")


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema's name for a version of a subject."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        """As Confluent's API has it."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


class Parsed(Protocol):
    """A schema that was understood."""

    @property
    def canonical(self) -> str:
        """A text that is the same for equal schemas."""

    def cannot_read(self, writer: Any) -> list[str]:
        """Why values of a writer's schema, of the same kind, cannot be read with this one; nothing if they can be."""

    def normalized(self) -> str:
        """A text that is the same for schemas that say the same in another order."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A schema that is to be registered, or was.

    Attributes:
        kind: `"AVRO"`, `"PROTOBUF"` or `"JSON"`.
        text: its canonical text.
        references: what it refers to, by names.
        extra: `metadata` and `ruleSet`, which are kept and returned, and are part of what the schema is.
        parsed: what was understood.
    """

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    parsed: Any = field(default=None, compare=False, repr=False)

    @property
    def identity(self) -> str:
        """Equal for what gets the same id."""
        references = [reference.to_json() for reference in self.references]
        return json.dumps([self.kind, self.text, references, self.extra], sort_keys=True)

    @property
    def guid(self) -> str:
        """The same in every context and registry."""
        return str(uuid.UUID(bytes=hashlib.md5(self.identity.encode(), usedforsecurity=False).digest()))

    def to_json(self) -> dict[str, Any]:
        """As Confluent's API has it: of Avro the kind is left out."""
        told: dict[str, Any] = {} if self.kind == "AVRO" else {"schemaType": self.kind}
        if self.references:
            told["references"] = [reference.to_json() for reference in self.references]
        return {**told, **self.extra, "schema": self.text}


def references_of(body: Mapping[str, Any]) -> tuple[Reference, ...]:
    """The references of a request."""
    given = body.get("references") or []
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise invalid_schema("references is a list of objects with name, subject and version")
    references = []
    for each in given:
        values = [each.get(name) for name in ("name", "subject", "version")] if isinstance(each, dict) else []
        match values:
            case [str(name), str(subject), int(version)]:
                references.append(Reference(name, subject, version))
            case _:
                raise invalid_schema(f"a reference has a name, a subject and a version; given: {json.dumps(each)}")
    return tuple(references)


def kind_of(body: Mapping[str, Any]) -> str:
    """The kind of the schema of a request: Avro if it has none."""
    kind = body.get("schemaType") or "AVRO"
    if kind not in KINDS:
        raise ApiError(422, f"Invalid schema type {kind}")
    return str(kind)
