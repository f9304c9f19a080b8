"""`infer`: the schema of a topic's values from records at both ends of each partition."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from monedula.config import Settings
from monedula.errors import ArgumentError, NoSchemaError
from monedula.formats.schemas.ddl import ddl_of, type_text
from monedula.formats.schemas.inference import Inference
from monedula.formats.schemas.spark_json import json_of
from monedula.reading.read import read

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_RECORDS = 1000


class BadRecord(NamedTuple):
    """A record whose value is no JSON object."""

    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True)
class InferredSchema:
    """The result of `infer`.

    The schema is pinned: records that arrive later do not change it. `str()` returns its DDL, from which `schema_of`
    makes the same schema.

    Attributes:
        schema: the schema, with fields in the order of their names.
        records: number of records that were examined.
        tombstones: number of records without a value.
        bad: number of records that are no JSON objects. They do not change the schema.
        first_bad: the first of these, or `None`.
    """

    schema: "pa.Schema"
    records: int
    tombstones: int = 0
    bad: int = 0
    first_bad: BadRecord | None = field(default=None)

    @property
    def ddl(self) -> str:
        """The schema as Spark's DDL."""
        return ddl_of(self.schema)

    @property
    def json(self) -> dict[str, object]:
        """The schema as the JSON of Spark's `StructType`."""
        return json_of(self.schema)

    def fields(self) -> list[tuple[str, str]]:
        """Every field with its type in Spark's words, nested ones by path: `items[].price`."""
        return list(_rows("", self.schema))

    def __str__(self) -> str:
        return self.ddl

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()


def infer(
    config: Settings,
    topics: str | tuple[str, int] | Iterable[str] | Iterable[tuple[str, int]],
    *,
    records: int = SAMPLE_RECORDS,
    of: Literal["key", "value"] = "value",
    primitives_as_string: bool = False,
    prefers_decimal: bool = False,
) -> InferredSchema:
    """Infer the schema of JSON records by Spark's rules, from the first and the last records of each partition.

    Args:
        config: settings, as for `Consumer`.
        topics: one topic, several topics, or `(topic, partition)` pairs.
        records: how many offsets to look at in each partition, half of them at each end.
        of: `"value"`, or `"key"` for the schema of keys.
        primitives_as_string: whether numbers and booleans are strings.
        prefers_decimal: whether numbers with a fraction, and texts that are numbers, are decimals if 38 digits hold
            them.

    Returns:
        the schema, and how many records it is from.

    Raises:
        ArgumentError: if an argument is invalid.
        NoSchemaError: if no record is a JSON object with fields.
        UnknownTopicError: if a topic or partition does not exist.
    """
    try:
        if isinstance(records, bool) or not isinstance(records, int) or records < 1:
            raise ArgumentError.of("records", records, "expected a whole number from 1 on")
        if of not in ("key", "value"):
            raise ArgumentError.of("of", of, "expected 'key' or 'value'")
        inference = Inference(primitives_as_string=primitives_as_string, prefers_decimal=prefers_decimal)
        tombstones, first_bad = 0, None
        for topic, partition, offset, text in _sample(config, topics, records, of):
            if text is None:
                tombstones += 1
                continue
            reason = inference.add(text)
            if reason is not None and first_bad is None:
                first_bad = BadRecord(topic, partition, offset, reason)
    finally:
        del config  # keeps passwords out of tracebacks that show locals
    try:
        schema = inference.schema()
    except NoSchemaError as error:
        where = "" if first_bad is None else f"; the first bad one is {first_bad.topic}[{first_bad.partition}] at "
        detail = "" if first_bad is None else f"offset {first_bad.offset}: {first_bad.reason}"
        raise NoSchemaError(f"{error}{where}{detail}") from None
    return InferredSchema(schema, inference.records + tombstones, tombstones, inference.bad, first_bad)


def _sample(
    config: Settings, topics: "str | tuple[str, int] | Iterable[str] | Iterable[tuple[str, int]]", records: int, of: str
) -> Iterator[tuple[str, int, int, bytes | None]]:
    """Yield records at both ends: topic, partition, offset and text."""
    with read(config, topics, columns=["offset"]) as whole:
        ranges = dict(whole.ranges)
    ends: list[dict[tuple[str, int], tuple[int, int]]] = [{}, {}]
    for partition, (start, end) in ranges.items():
        middle = min(start + (records + 1) // 2, end)
        ends[0][partition] = (start, middle)
        ends[1][partition] = (max(middle, end - records // 2), end)
    columns = ["topic", "partition", "offset", of]
    for part in ends:
        wanted = {partition: bounds for partition, bounds in part.items() if bounds[0] < bounds[1]}
        if not wanted:
            continue
        first = {partition: bounds[0] for partition, bounds in wanted.items()}
        last = {partition: bounds[1] for partition, bounds in wanted.items()}
        with read(config, list(wanted), start=first, end=last, columns=columns) as stream:
            for batch in stream:
                table = batch.to_pyarrow()
                yield from zip(*(table[name].to_pylist() for name in columns), strict=True)


def _rows(path: str, fields: "Iterable[pa.Field[Any]]") -> Iterator[tuple[str, str]]:
    import pyarrow as pa

    for each in fields:
        below, kind = f"{path}{each.name}", each.type
        suffix = ""
        while pa.types.is_list(kind):
            kind, suffix = kind.value_type, suffix + "[]"
        if not pa.types.is_struct(kind):
            yield below, type_text(each.type)
        else:
            yield from _rows(f"{below}{suffix}.", kind)
