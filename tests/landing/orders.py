"""`Orders`: a topic of orders as JSON, and what a table must have of it."""

import json
from pathlib import Path
from typing import Any

import monedula
import polars
from monedula.landing import Delta, Iceberg, LandingJob, LandingResult

ORDER = "id bigint, amount double"


def iceberg(folder: Path | str, **options: Any) -> Iceberg:
    """A table of Iceberg whose catalog and files are in a folder."""
    Path(folder).mkdir(exist_ok=True)
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    return Iceberg("lake.orders", catalog=catalog, **options)


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
        """A job that lands what is there now: in a table of Iceberg if the folder is called `ice`."""
        given = {name: options.pop(name) for name in ("partition_by", "upsert") if name in options}
        target = (iceberg if Path(path).name == "ice" else Delta)(path, **given)
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
    origins = rows(path).select(polars.col("_kafka").struct.unnest())
    return _by_partition(origins.select("partition", "offset"))


def rows(path: Path | str) -> polars.DataFrame:
    """All rows of a table as polars reads it."""
    if Path(path).name != "ice":
        return polars.read_delta(str(path))
    return polars.scan_iceberg(iceberg_table(path)).collect()


def iceberg_table(path: Path | str) -> Any:
    """The table of Iceberg in a folder."""
    from pyiceberg.catalog import load_catalog

    catalog: Any = iceberg(path).catalog
    return load_catalog("default", **catalog).load_table("lake.orders")


def _by_partition(table: polars.DataFrame) -> dict[int, list[int]]:
    return {
        number: table.filter(polars.col("partition") == number)["offset"].sort().to_list()
        for number in table["partition"].unique().sort()
    }
