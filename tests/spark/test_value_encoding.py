"""What a sink with `value.format` finds out on the driver, without a session: schemas, and what is refused."""

import json
from collections.abc import Iterator
from uuid import UUID

import monedula
import pyarrow as pa
import pytest
from monedula import ConfigError
from monedula.spark.sink.sink import Sink
from monedula.testing import Broker, Registry
from pyspark.sql.types import ArrayType, LongType, StructField, StructType, VariantType

from tests.consumer.avro_values import field, record

ID = StructType([StructField("id", LongType())])
OLD = record(field("id", "long"), name="Order")
NEW = record(field("id", "long"), field("more", "int", default=1), name="Order")


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


def sink(schema: StructType = ID, **options: str) -> Sink:
    """A sink of values; an option `value_subject` is `value.subject`."""
    given = {name.replace("_", ".", 1): text for name, text in options.items()}
    return Sink({"kafka.bootstrap.servers": "localhost:1", "topic": "t", **given}, schema)


def test_a_version_of_a_subject_is_written_as_asked_for(registry: Registry) -> None:
    ids = [registry.register("orders", schema) for schema in (OLD, NEW)]
    options = {"kafka_schema.registry.url": registry.url, "value_format": "avro", "value_subject": "orders"}
    found = []
    for version in ({"value_version": "1"}, {"value_version": "2"}, {}):
        (written,) = sink(**options, **version).settings.written
        assert written.version is not None
        found.append((written.version[0], json.loads(written.version[1])))
    assert found == [(ids[0], OLD), (ids[1], NEW), (ids[1], NEW)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"value_format": "avro", "value_schema": json.dumps(OLD), "value_version": "1"}, r"without value\.schema"),
        ({"value_format": "json", "value_version": "1"}, r"'value\.version' is that of value\.subject"),
        ({"value_format": "avro", "value_subject": "s", "value_version": "new"}, r"value\.version.*whole number"),
        ({"value_format": "json", "value_framing": "confluent"}, r"confluent needs kafka\.schema\.registry\.url"),
        ({"value_format": "json", "value_framing": "glue"}, r"'value\.framing' is 'glue': expected bare or confluent"),
        (
            {"value_format": "protobuf", "value_schema": 'syntax = "proto3"; message A {} message B {}'},
            r"several messages; give value\.message, one of A, B",
        ),
        (
            {"value_format": "protobuf", "value_schema": 'syntax = "proto3"; import "b.proto"; message A { B b = 1; }'},
            "nowhere declared; give descriptors with the files that are imported: protoc --include_imports",
        ),
        (
            {"value_format": "avro", "value_schema": "order.avsc"},
            r"order\.avsc: No such file or directory; expected an Avro",
        ),
    ],
)
def test_options_that_cannot_be_met_are_refused_on_the_driver(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        sink(**options)


def test_a_variant_is_refused_as_a_sink_gets_its_inner_bytes() -> None:
    columns = StructType([StructField("id", LongType()), StructField("all", ArrayType(VariantType()))])
    with pytest.raises(ConfigError, match=r"value\.all\[\] is a variant.*to_json"):
        sink(columns, value_format="json")


@pytest.mark.parametrize("given", [{"value_schema": json.dumps(OLD)}, {"value_subject": "orders"}])
def test_a_task_writes_the_guid_of_the_drivers_schema_to_a_header(registry: Registry, given: dict[str, str]) -> None:
    registry.register("orders", OLD)
    options = {"kafka_schema.registry.url": registry.url, "value_format": "avro", "value_id.in.header": "true"}
    (written,) = sink(**options, **given).settings.written
    with Broker(topics={"t": 1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": registry.url}
        with monedula.Producer(settings) as producer:
            producer.send_batch(pa.table({"id": [7]}), "t", value=written.in_task().form()).result(30.0)
        with monedula.read(settings, "t", headers=True) as stream:
            (only,) = (each for batch in stream for each in batch.records())
    subject = "orders" if "value_subject" in given else "t-value"
    guid = registry.ask("GET", f"/subjects/{subject}/versions/latest")["guid"]
    assert only.headers == [("__value_schema_id", b"\x01" + UUID(guid).bytes)]
    assert only.value == b"\x0e"


def test_an_id_in_a_header_needs_a_registry() -> None:
    with pytest.raises(ConfigError, match=r"value\.id\.in\.header.*kafka\.schema\.registry\.url"):
        sink(value_format="json", **{"value_id.in.header": "true"})
