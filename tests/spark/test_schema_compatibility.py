"""Whether Avro schemas are compatible, compared with what Avro's own library says, which Spark has."""

import json
import random
from typing import TYPE_CHECKING, Any

from monedula.testing.registry.errors import ApiError
from monedula.testing.registry.schemas import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 1.5,
    "double": 2.5,
    "string": "d",
}


class Schemas:
    """Schemas out of few names, so that two of them are often about the same."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def some(self, depth: int, named: set[str]) -> Any:
        draw = self.draw
        kinds = ["primitive"] * 4 + ["enum", "fixed", "again"]
        kind = draw.choice(kinds if depth == 0 else [*kinds, "record", "record", "array", "map", "union", "union"])
        if kind == "again":
            return draw.choice(sorted(named)) if named else "int"
        if kind in ("enum", "fixed", "record"):
            name = draw.choice(
                [each for each in ("A", "B", "n.A", "C", "D", "E", "F", "G") if each not in named] or ["x"]
            )
            if name == "x":
                return "long"
            named.add(name)
            more = {"aliases": [draw.choice(["A", "n.A", "B"])]} if draw.random() < 0.2 else {}
            return self._named(kind, name, more, depth, named)
        if kind == "array":
            return {"type": "array", "items": self.some(depth - 1, named)}
        if kind == "map":
            return {"type": "map", "values": self.some(depth - 1, named)}
        if kind == "union":
            return [draw.choice(["null", "int"]), self.some(depth - 1, named)]
        return draw.choice(PRIMITIVES)

    def _named(self, kind: str, name: str, more: dict[str, Any], depth: int, named: set[str]) -> Any:
        draw = self.draw
        if kind == "fixed":
            return {"type": "fixed", "name": name, "size": draw.choice([1, 2]), **more}
        if kind == "enum":
            symbols = draw.sample("abc", draw.randint(1, 3))
            default = {"default": symbols[0]} if draw.random() < 0.3 else {}
            return {"type": "enum", "name": name, "symbols": symbols, **default, **more}
        fields = []
        for each in draw.sample("xyz", draw.randint(0, 3)):
            field: dict[str, Any] = {"name": each, "type": self.some(depth - 1, named)}
            if draw.random() < 0.4 and isinstance(field["type"], str) and field["type"] in DEFAULTS:
                field["default"] = DEFAULTS[field["type"]]
            if draw.random() < 0.1:
                field["aliases"] = [draw.choice([other for other in "xyzw" if other != each])]
            fields.append(field)
        return {"type": "record", "name": name, "fields": fields, **more}

    def changed(self, schema: Any) -> Any:
        """The schema with one thing changed somewhere."""
        draw = self.draw
        if isinstance(schema, list):
            position = draw.randrange(len(schema))
            return [*schema[:position], self.changed(schema[position]), *schema[position + 1 :]]
        if not isinstance(schema, dict) or draw.random() < 0.1:
            return self.some(1, set())
        if schema["type"] == "record" and schema["fields"]:
            position = draw.randrange(len(schema["fields"]))
            field = schema["fields"][position]
            rest = schema["fields"][:position] + schema["fields"][position + 1 :]
            if draw.random() < 0.3:
                return {**schema, "fields": rest}
            changed = {name: value for name, value in field.items() if name != "default"}
            return {**schema, "fields": [*rest, {**changed, "type": self.changed(field["type"])}]}
        for part in ("items", "values"):
            if part in schema:
                return {**schema, part: self.changed(schema[part])}
        if schema["type"] == "enum":
            return {**schema, "symbols": draw.sample("abcd", 3), "default": None}
        return {**schema, "name": draw.choice("AB")}


def test_schemas_are_as_compatible_as_avros_own_library_finds_them(spark: "SparkSession") -> None:
    avro = spark._jvm.org.apache.avro
    schemas = Schemas(1)
    known = {"COMPATIBLE": 0, "INCOMPATIBLE": 0}
    while sum(known.values()) < 1500:
        given = schemas.some(3, set())
        pair = given, schemas.changed(given)
        try:
            ours = [parse("AVRO", json.dumps(each), []) for each in pair]
        except ApiError:
            continue
        # The text that is kept is read by Java too.
        theirs = [avro.Schema.Parser().parse(each.canonical) for each in ours]
        for reader, writer in ((0, 1), (1, 0), (0, 0)):
            try:
                judged = avro.SchemaCompatibility.checkReaderWriterCompatibility(theirs[reader], theirs[writer])
                kind = str(judged.getType().toString())
            except Exception as error:  # py4j's, with the one of Java in it
                if "matches multiple fields" not in str(error):
                    raise
                kind = "INCOMPATIBLE"
            known[kind] += 1
            reasons = ours[reader].cannot_read(ours[writer])
            assert (kind == "COMPATIBLE") == (not reasons), (pair[reader], pair[writer], reasons)
    assert min(known.values()) > 200


def test_what_is_a_schema_and_its_text_are_as_in_avros_own_library(spark: "SparkSession") -> None:
    avro = spark._jvm.org.apache.avro
    schemas = Schemas(2)
    taken = 0
    for _ in range(600):
        text = json.dumps(schemas.changed(schemas.some(3, set())))
        try:
            ours = parse("AVRO", text, []).canonical
        except ApiError as error:
            # Java's takes names before they are defined, which the specification does not allow.
            if "is not defined" in str(error):
                continue
            ours = None
        try:
            theirs = str(avro.Schema.Parser().parse(text).toString())
        except Exception:  # py4j's, with the one of Java in it
            theirs = None
        assert ours == theirs, text
        taken += ours is not None
    assert taken > 300
