"""`Orders`: a topic of orders as JSON, and what a table must have of it."""

import json
from pathlib import Path
from typing import Any

import monedula
import polars
from monedula.landing import Delta, LandingJob, LandingResult

ORDER = "id bigint, amount double"


class Orders:
    """A topic of JSON, whose orders have consecutive ids."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.settings = {
            "bootstrap.servers": bootstrap,
        }
        self.topic = topic
        self.count = 0

    def send(self, count: int, **fields: Any) -> None:
        """Send more orders, in turn to each partition."""
        with monedula.Producer(self.settings) as producer:
            partitions = len(producer.partitions_for(self.topic))
            for number in range(self.count, self.count + count):
                order = json.dumps({"id": number, "amount": number / 2, **fields})
                producer.send(self.topic, order, key=f"key-{number}", partition=number % partitions)
        self.count += count

    def send_bad(self, partition: int = 0) -> None:
        """Send a record that is no JSON."""
        with monedula.Producer(self.settings) as producer:
            producer.send(self.topic, b"{broken", key=b"bad", partition=partition)

    def job(self, path: Path | str, **options: Any) -> LandingJob:
        """A job that lands what is there now."""
        target = Delta(path, partition_by=options.pop("partition_by", None))
        options = {"value": monedula.Json(ORDER), "until": "latest", "job": "lake", **options}
        return LandingJob({**self.settings, **options.pop("settings", {})}, self.topic, target, **options)

    def land(self, path: Path | str, **options: Any) -> LandingResult:
        """Land what is there now."""
        return self.job(path, **options).run()

    def offsets(self) -> dict[int, list[int]]:
        """The offsets of all records in the log, by partition."""
        table = monedula.read(self.settings, self.topic, columns=["partition", "offset"]).to_polars()
        return _by_partition(table)

    def ends(self) -> dict[int, int]:
        """The ends of the log, by partition."""
        with monedula.read(self.settings, self.topic, columns=["offset"]) as stream:
            return {partition: end for (_, partition), (_, end) in dict(stream.ranges).items()}


def landed(path: Path | str) -> dict[int, list[int]]:
    """The offsets of all rows of a table as polars reads it, by partition."""
    origins = polars.read_delta(str(path)).select(polars.col("_kafka").struct.unnest())
    return _by_partition(origins.select("partition", "offset"))


def _by_partition(table: polars.DataFrame) -> dict[int, list[int]]:
    return {
        number: table.filter(polars.col("partition") == number)["offset"].sort().to_list()
        for number in table["partition"].unique().sort()
    }
