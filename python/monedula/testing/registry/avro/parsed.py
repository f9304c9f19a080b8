"""A schema of Avro as the registry asks it."""

from collections.abc import Sequence

from monedula.testing.registry.avro.compatibility import differences
from monedula.testing.registry.avro.schema import AvroError, Reader, Schema
from monedula.testing.registry.avro.text import canonical
from monedula.testing.registry.errors import invalid_schema


class AvroSchema:
    """See `monedula.testing.registry.definition.Parsed`."""

    def __init__(self, schema: Schema, referred: frozenset[str] = frozenset()) -> None:
        self.schema = schema
        self.canonical = canonical(schema, referred)
        self._referred = referred

    def cannot_read(self, writer: "AvroSchema") -> list[str]:
        """Why values of a writer's schema cannot be read with this one."""
        return differences(self.schema, writer.schema)

    def normalized(self) -> str:
        """The text with its properties in order."""
        return canonical(self.schema, self._referred, normalized=True)


def parse(text: str, references: Sequence[tuple[str, str]]) -> AvroSchema:
    """The schema of a text.

    Args:
        text: the text.
        references: names and texts of what it refers to, each behind what that refers to itself.

    Raises:
        ApiError: the text is no schema.
    """
    reader = Reader()
    try:
        for name, referred in references:
            try:
                reader.read(referred)
            except AvroError as error:
                raise AvroError(f"the reference {name!r}: {error}") from None
        named = frozenset(reader.named)
        return AvroSchema(reader.read(text), named)
    except AvroError as error:
        raise invalid_schema(str(error)) from None
    except RecursionError:
        raise invalid_schema("types are nested too deep") from None
