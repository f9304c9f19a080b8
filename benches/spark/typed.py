"""JSON values as typed columns: our source's own, those of Spark's `from_json`, and ready-made ones."""

from pathlib import Path

import monedula
import pyarrow
from monedula.spark.worker import MAX_BYTES, MAX_ROWS
from pyarrow import ipc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import from_json

from benches.spark import arms
from benches.spark.arms import Arm, Place

FIELDS = "user BIGINT, event STRING, cents INT, item INT, at BIGINT"
"""Five of the seven fields that each value has."""

CHECKS = ("count(*)", "sum(user)", "sum(crc32(event))", "sum(cents)", "sum(item)", "sum(at)")

ARMS = {
    "jvm": Arm("kafka"),
    "monedula_from_json": Arm("monedula", schema="value binary"),
    "monedula": Arm("monedula", {"value.format": "json", "value.flatten": "true"}, schema=FIELDS),
    "ceiling": Arm("ceiling", schema=FIELDS),
}
_BY_SPARK = ("jvm", "monedula_from_json")


def frame(spark: SparkSession, name: str, place: Place, v1_sources: str) -> DataFrame:
    """The five columns of the whole topic, as the arm makes them. `place` names the folder of `prepare`."""
    read = arms.batch_frame(spark, ARMS[name], place, v1_sources)
    if name not in _BY_SPARK:
        return read
    decoded: DataFrame = read.select(from_json(read["value"].cast("string"), FIELDS).alias("value")).select("value.*")
    return decoded


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
