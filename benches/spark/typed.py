"""Values as typed columns: our source's own, those of Spark's `from_json` and `from_avro`, and ready-made ones."""

import json
from dataclasses import replace
from pathlib import Path

import monedula
import pyarrow
from monedula.spark.source.worker import MAX_BYTES, MAX_ROWS
from pyarrow import ipc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import from_json

from benches.spark import arms
from benches.spark.arms import Arm, Place

FIELDS = "user BIGINT, event STRING, cents INT, item INT, at BIGINT"
"""Five of the seven fields that each value has."""

AVRO_TYPES = {"BIGINT": "long", "STRING": "string", "INT": "int"}
AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": name, "type": AVRO_TYPES[kind]} for name, kind in (field.split() for field in FIELDS.split(", "))
        ],
    }
)
AVRO_TOPIC = "avro"

CHECKS = ("count(*)", "sum(user)", "sum(crc32(event))", "sum(cents)", "sum(item)", "sum(at)")

CEILING = Arm("ceiling", schema=FIELDS)
FORMATS = {
    "typed": {
        "jvm": Arm("kafka"),
        "monedula_decoded": Arm("monedula", schema="value binary"),
        "monedula": Arm("monedula", {"value.format": "json", "value.flatten": "true"}, schema=FIELDS),
        "ceiling": CEILING,
    },
    "typed_avro": {
        "jvm": Arm("kafka"),
        "monedula_decoded": Arm("monedula", schema="value binary"),
        "monedula": Arm(
            "monedula", {"value.format": "avro", "value.schema": AVRO_SCHEMA, "value.flatten": "true"}, schema=FIELDS
        ),
        "ceiling": CEILING,
    },
}
"""The arms of each query: Spark's source and function, our source with Spark's function, ours alone, ready-made."""

ARMS = tuple(FORMATS["typed"])
_BY_SPARK = ("jvm", "monedula_decoded")


def frame(spark: SparkSession, query: str, name: str, place: Place, v1_sources: str) -> DataFrame:
    """The five columns of the whole topic, as the arm makes them. `place` names the folder of `prepare`."""
    read = arms.batch_frame(spark, FORMATS[query][name], place, v1_sources)
    if name not in _BY_SPARK:
        return read
    decoded: DataFrame = read.select(_decoded(query, read["value"]).alias("value")).select("value.*")
    return decoded


def _decoded(query: str, value: Column) -> Column:
    """A column of values by Spark's own function."""
    return from_json(value.cast("string"), FIELDS) if query == "typed" else from_avro(value, AVRO_SCHEMA)


def as_avro(place: Place, partitions: int) -> Place:
    """Write the topic's typed columns into `AVRO_TOPIC`, which exists, as bare Avro values. Where they are then."""
    value = monedula.Json(FIELDS, flatten=True)
    servers = {"bootstrap.servers": place.bootstrap}
    with monedula.Producer({**servers, "compression.type": place.dataset.codec}) as producer:
        for partition in range(partitions):
            for batch in monedula.read(servers, (place.dataset.topic, partition), columns=["value"], value=value):
                rows = pyarrow.record_batch(batch)
                rows = rows.append_column("partition", pyarrow.array([partition] * len(rows), pyarrow.int32()))
                producer.send_batch(rows, AVRO_TOPIC, value=monedula.Avro(AVRO_SCHEMA))
        producer.flush()
    with monedula.Admin(servers) as admin:
        found = admin.list_offsets({(AVRO_TOPIC, partition): "latest" for partition in range(partitions)})
    ends = {partition.partition: offset.offset or 0 for partition, offset in found.items()}
    return replace(place, dataset=replace(place.dataset, topic=AVRO_TOPIC), ends=ends)


def prepare(directory: Path, bootstrap: str, topic: str, partitions: int) -> None:
    """Write the topic's typed columns into files of Arrow batches, one for each partition."""
    directory.mkdir(parents=True)
    value = monedula.Json(FIELDS, flatten=True)
    for partition in range(partitions):
        stream = monedula.read(
            {"bootstrap.servers": bootstrap},
            (topic, partition),
            columns=["value"],
            value=value,
            max_rows=MAX_ROWS,
            max_bytes=MAX_BYTES,
        )
        batches = [pyarrow.record_batch(batch) for batch in stream]
        with ipc.new_file(str(directory / f"{partition}.arrow"), batches[0].schema) as file:
            for batch in batches:
                file.write_batch(batch)
