"""Avro of Apicurio's and AWS Glue's own serializers, and theirs reading monedula's: generated schemas and values."""

import io
import json
from itertools import count
from typing import Any
from uuid import UUID

import fastavro
import monedula
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monedula import Avro
from monedula.formats._typed import Typed
from monedula.testing import Broker

from tests.consumer.avro_values import records, written
from tests.consumer.test_avro_values import decoded
from tests.consumer.test_schema_registry import NEWER, ORDER, order
from tests.kafka.serdes import Apicurio, Glue, Schema, Serdes, Written

pytestmark = pytest.mark.jvm

GENERATED = settings(max_examples=60, deadline=None, derandomize=True)
TOPICS = count(1)


@st.composite
def rows(draw: st.DrawFn) -> tuple[dict[str, Any], list[bytes]]:
    """A record's schema, which Glue's serializers want, and bare values of it."""
    schema, values = draw(records([], 0))
    return schema, [written(schema, value) for value in draw(st.lists(values, min_size=1, max_size=4))]


APICURIO = st.builds(
    Apicurio,
    content_id=st.integers(1, 2**31 - 1),
    global_id=st.integers(1, 2**31 - 1),
    use_id=st.sampled_from(["contentId", "globalId"]),
    id_bytes=st.sampled_from([4, 8]),
    in_headers=st.booleans(),
    is_key=st.booleans(),
)
GLUE = st.builds(Glue, version=st.uuids(), zlib=st.booleans())


def of(schema: dict[str, Any]) -> Schema:
    return Schema("AVRO", json.dumps(schema))


def named(serde: Apicurio) -> int:
    """The id that a serializer writes."""
    return serde.content_id if serde.use_id == "contentId" else serde.global_id


def read(broker: Broker, values: list[Written], typed: Typed, column: str = "value") -> list[Any]:
    """What is read of records with these values, or keys."""
    topic = f"serdes-{next(TOPICS)}"
    broker.create_topic(topic, 1)
    with monedula.Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for each in values:
            key, value = (each.value, None) if column == "key" else (None, each.value)
            producer.send(topic, value, key=key, headers=each.headers)
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, topic, **typed_as(column, typed)) as stream:
        found: list[Any] = stream.to_pyarrow()[column].to_pylist(maps_as_pydicts="strict")
    return found


def typed_as(column: str, typed: Typed) -> dict[str, Any]:
    return {column: typed}


def by_fastavro(schema: dict[str, Any], values: list[bytes | str]) -> list[Any]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    return [fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in values if isinstance(each, bytes)]


@GENERATED
@given(rows(), APICURIO)
def test_what_apicurio_writes_is_read(
    serdes: Serdes, broker: Broker, made: tuple[dict[str, Any], list[bytes]], serde: Apicurio
) -> None:
    schema, bare = made
    values = serdes.write(serde, of(schema), bare)
    typed = Avro(schemas={named(serde): schema}, framing="apicurio")
    column = "key" if serde.is_key else "value"
    assert read(broker, values, typed, column) == decoded(Avro(schema), [*bare])


@GENERATED
@given(rows(), GLUE)
def test_what_glue_writes_is_read(
    serdes: Serdes, broker: Broker, made: tuple[dict[str, Any], list[bytes]], serde: Glue
) -> None:
    schema, bare = made
    values = serdes.write(serde, of(schema), bare)
    typed = Avro(schemas={str(serde.version): schema}, framing="glue")
    assert read(broker, values, typed) == decoded(Avro(schema), [*bare])


@GENERATED
@given(rows(), st.integers(1, 2**31 - 1))
def test_apicurio_reads_what_is_written_with_an_id_of_four_bytes(
    serdes: Serdes, made: tuple[dict[str, Any], list[bytes]], number: int
) -> None:
    schema, bare = made
    table = pa.table(Avro(schema).spec.decode(bare))
    values = [Written(value) for value in Avro(schema, schemas={number: schema}).spec.encode(table) if value]
    serde = Apicurio(content_id=number, global_id=0, use_id="contentId", id_bytes=4)
    assert by_fastavro(schema, serdes.read(serde, of(schema), values)) == by_fastavro(schema, [*bare])


def test_values_of_several_schemas_and_settings_are_rows_of_one_column(serdes: Serdes, broker: Broker) -> None:
    newer = {**order(2), "amount": 2.0}
    old, new = [written(ORDER, order(1))], [written(NEWER, newer)]
    values = [
        *serdes.write(Apicurio(7, 70), of(ORDER), old),
        *serdes.write(Apicurio(9, 90, "contentId"), of(NEWER), new),
        *serdes.write(Apicurio(9, 90, "contentId", id_bytes=4), of(NEWER), new),
        *serdes.write(Apicurio(7, 70, in_headers=True), of(ORDER), old),
        *serdes.write(Apicurio(9, 1 << 40, in_headers=True), of(NEWER), new),
    ]
    typed = Avro(ORDER, schemas={70: ORDER, 9: NEWER, 1 << 40: NEWER}, framing="apicurio")
    assert [row["id"] for row in read(broker, values, typed)] == [1, 2, 2, 1, 2]


def test_avro_in_apicurios_json_is_refused(serdes: Serdes, broker: Broker) -> None:
    serde = Apicurio(7, 70, in_headers=True, encoding="JSON")
    values = serdes.write(serde, of(ORDER), [written(ORDER, order(1))])
    with pytest.raises(monedula.DecodeError, match="the value is Avro's JSON"):
        read(broker, values, Avro(schemas={70: ORDER}, framing="apicurio"))


def test_the_deserializers_read_their_own_values(serdes: Serdes) -> None:
    bare = [written(ORDER, order(number)) for number in range(3)]
    every: list[Apicurio | Glue] = [Apicurio(7, 70), Apicurio(7, 70, in_headers=True), Glue(UUID(int=7), zlib=True)]
    for serde in every:
        assert serdes.read(serde, of(ORDER), serdes.write(serde, of(ORDER), bare)) == bare
    other = serdes.read(Glue(UUID(int=8)), of(ORDER), serdes.write(Glue(UUID(int=7)), of(ORDER), bare))
    assert all(isinstance(each, str) and "getSchemaVersion" in each for each in other)
