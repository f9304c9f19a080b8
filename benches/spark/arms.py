"""What is compared: each arm reads or writes the same records, through another format or with other settings."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benches.data import Dataset

V1_SOURCES = "spark.sql.sources.useV1SourceList"
LARGE_FETCHES = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}


@dataclass(frozen=True)
class Arm:
    """One way to read the topic.

    Attributes:
        source: Spark's name of the format.
        options: on top of those that say what to read.
        schema: in place of the source's own.
        is_v2: batch queries go by Spark's data source API V2; the JVM's connector takes V1 by default.
    """

    source: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    is_v2: bool = False


BATCH = {
    "jvm": Arm("kafka"),
    "jvm_v2": Arm("kafka", is_v2=True),
    "jvm_tuned": Arm("kafka", LARGE_FETCHES),
    "monedula": Arm("monedula"),
    "monedula_value": Arm("monedula", schema="value binary"),
    "ceiling": Arm("ceiling"),
    "ceiling_value": Arm("ceiling", schema="value binary"),
}
# Both write what the same source reads; Java's producer as it comes, and with batches of the size of ours.
LARGE_BATCHES = {"kafka.batch.size": "262144", "kafka.linger.ms": "5"}
WRITE = {"jvm": Arm("kafka"), "jvm_tuned": Arm("kafka", LARGE_BATCHES), "monedula": Arm("monedula")}
STREAM = {"jvm": Arm("kafka"), "jvm_tuned": Arm("kafka", LARGE_FETCHES), "monedula": Arm("monedula")}


@dataclass(frozen=True)
class Place:
    """Where the records are: in Kafka, and ready-made for the ceiling."""

    bootstrap: str
    dataset: Dataset
    ends: Mapping[int, int]
    ceiling_path: str


def batch_frame(spark: SparkSession, arm: Arm, place: Place, v1_sources: str) -> DataFrame:
    """The whole topic, both ends fixed, as the arm reads it. `v1_sources` is Spark's own list of V1 sources."""
    spark.conf.set(V1_SOURCES, "" if arm.is_v2 else v1_sources)
    reader = spark.read.format(arm.source)
    if arm.source == "ceiling":
        reader = reader.option("path", place.ceiling_path)
    else:
        reader = reader.options(**_from(place), startingOffsets="earliest", endingOffsets=_ends(place))
    return _load(reader.options(**arm.options), arm)


def into(arm: Arm, place: Place, topic: str, codec: str) -> dict[str, str]:
    """Options that write into a topic, acknowledged by all."""
    servers = {"kafka.bootstrap.servers": place.bootstrap, "topic": topic}
    return {**servers, "kafka.acks": "all", "kafka.compression.type": codec, **arm.options}


def read_back(spark: SparkSession, place: Place, topic: str) -> DataFrame:
    """All that is in a topic."""
    servers = {"kafka.bootstrap.servers": place.bootstrap, "subscribe": topic}
    frame: DataFrame = spark.read.format("monedula").options(**servers).load()
    return frame


def stream_frame(spark: SparkSession, arm: Arm, place: Place, offsets_per_trigger: int) -> DataFrame:
    """The whole topic, in limited micro-batches."""
    reader = spark.readStream.format(arm.source).options(**_from(place), startingOffsets="earliest")
    return _load(reader.option("maxOffsetsPerTrigger", str(offsets_per_trigger)).options(**arm.options), arm)


def _load(reader: Any, arm: Arm) -> DataFrame:
    frame: DataFrame = (reader.schema(arm.schema) if arm.schema else reader).load()
    return frame


def _from(place: Place) -> dict[str, str]:
    return {"kafka.bootstrap.servers": place.bootstrap, "subscribe": place.dataset.topic}


def _ends(place: Place) -> str:
    return json.dumps({place.dataset.topic: {str(number): end for number, end in sorted(place.ends.items())}})
