"""The serdes of Apicurio's registry and of AWS Glue, in a JVM: what they write, and how they read."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from tests.kafka import jars, prepared
from tests.kafka.helper_process import HelperProcess

SOURCE = Path(__file__).with_name("Serdes.java")

Format = Literal["AVRO", "PROTOBUF", "JSON"]


@dataclass(frozen=True)
class Written:
    """A value as a serializer writes it."""

    value: bytes
    headers: list[tuple[str, bytes]] = field(default_factory=list)


@dataclass(frozen=True)
class Schema:
    """The schema that a serde works with.

    Attributes:
        format: its kind.
        text: as the registry has it.
        files: of Protobuf, the descriptors of its files, each behind those that it imports.
        message: of Protobuf, the message by its name in the file.
    """

    format: Format
    text: str
    files: tuple[bytes, ...] = ()
    message: str = ""

    def fields(self) -> dict[str, Any]:
        """What a command says of it."""
        files = [base64.b64encode(each).decode() for each in self.files]
        return {"format": self.format, "schema": self.text, "files": files, "message": self.message}


@dataclass(frozen=True)
class Apicurio:
    """How Apicurio's serdes are configured.

    Attributes:
        content_id: of the schema.
        global_id: of the schema.
        use_id: which of them names it.
        id_bytes: 8, or 4 as of `Legacy4ByteIdHandler`.
        in_headers: whether it stands in a header (`apicurio.registry.headers.enabled`).
        is_key: whether it is a key that is written.
        encoding: of Avro, `BINARY` or `JSON`.
    """

    content_id: int
    global_id: int
    use_id: Literal["contentId", "globalId"] = "globalId"
    id_bytes: Literal[4, 8] = 8
    in_headers: bool = False
    is_key: bool = False
    encoding: Literal["BINARY", "JSON"] = "BINARY"

    def fields(self) -> dict[str, Any]:
        """What a command says of it."""
        return {"serde": "apicurio", **self.__dict__}


@dataclass(frozen=True)
class Glue:
    """How AWS Glue's serdes are configured: the schema's version, and whether values are compressed."""

    version: UUID
    zlib: bool = False

    def fields(self) -> dict[str, Any]:
        """What a command says of it."""
        return {"serde": "glue", "version": str(self.version), "zlib": self.zlib}


class Serdes(HelperProcess):
    """The JVM with them."""

    def __init__(self) -> None:
        super().__init__("")

    def write(self, serde: Apicurio | Glue, schema: Schema, values: Iterable[bytes]) -> list[Written]:
        """What the serializer makes of bare values.

        Raises:
            AssertionError: it refuses one.
        """
        made = self._coded("write", serde, schema, [Written(value) for value in values])
        errors = [each["error"] for each in made if "error" in each]
        assert not errors, errors
        return [
            Written(_bytes(each["value"]), [(name, _bytes(value)) for name, value in each["headers"]]) for each in made
        ]

    def read(self, serde: Apicurio | Glue, schema: Schema, values: Iterable[Written]) -> list[bytes | str]:
        """What the deserializer makes of values, each bare again, or its error."""
        made = self._coded("read", serde, schema, values)
        return [each["error"] if "error" in each else _bytes(each["value"]) for each in made]

    def _coded(
        self, command: str, serde: Apicurio | Glue, schema: Schema, values: Iterable[Written]
    ) -> list[dict[str, Any]]:
        given = [
            {"value": _text(each.value), "headers": [[name, _text(value)] for name, value in each.headers]}
            for each in values
        ]
        made: list[dict[str, Any]] = self.run(command, {**serde.fields(), **schema.fields(), "values": given})
        return made

    def _program(self) -> list[str]:
        return ["-cp", prepared.compiled(SOURCE, jars.serdes()), "Serdes"]


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
