"""`Orders`: a topic of orders as JSON, and what a table must have of it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import monedula
import polars
from monedula.landing import Delta, Iceberg, LandingJob, LandingResult

ORDER = "id bigint, amount double"

Target = Delta | Iceberg


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

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send more all the time."""
        stop = threading.Event()

        def send() -> None:
            while not stop.is_set():
                self.send(20)
                stop.wait(0.2)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            stop.set()
            sender.join()

    def send_bad(self, partition: int = 0) -> None:
        """Send a record that is no JSON."""
        with monedula.Producer(self.settings) as producer:
            producer.send(self.topic, b"{broken", key=b"bad", partition=partition)

    def transact(self, count: int, *, is_committed: bool) -> None:
        """Send more orders in a transaction, in turn to each partition; those of one that is aborted do not count."""
        settings = {**self.settings, "transactional.id": self.topic, "transaction.timeout.ms": 60_000}
        with monedula.Producer(settings) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            partitions = len(producer.partitions_for(self.topic))
            for number in range(self.count, self.count + count):
                producer.send(self.topic, json.dumps({"id": number}), partition=number % partitions)
            if is_committed:
                producer.commit_transaction()
                self.count += count
            else:
                producer.abort_transaction()

    def job(self, path: Path | str | Target, **options: Any) -> LandingJob:
        """A job that lands what is there now: in a table of Iceberg if the folder is called `ice`."""
        given = {name: options.pop(name) for name in ("partition_by", "upsert") if name in options}
        table = table_of(path, **given)
        options = {"value": monedula.Json(ORDER), "until": "latest", "job": "lake", **options}
        return LandingJob({**self.settings, **options.pop("settings", {})}, self.topic, table, **options)

    def land(self, path: Path | str | Target, **options: Any) -> LandingResult:
        """Land what is there now."""
        return self.job(path, **options).run()

    def offsets(self) -> dict[int, list[int]]:
        """The offsets of all records in the log, by partition."""
        settings = {**self.settings, "isolation.level": "read_committed"}
        table = monedula.read(settings, self.topic, columns=["partition", "offset"]).to_polars()
        return _by_partition(table)

    def ends(self) -> dict[int, int]:
        """The ends of the log, by partition."""
        with monedula.read(self.settings, self.topic, columns=["offset"]) as stream:
            return {partition: end for (_, partition), (_, end) in dict(stream.ranges).items()}


def table_of(path: Path | str | Target, **options: Any) -> Target:
    """The table itself, or the one in a folder."""
    if isinstance(path, Delta | Iceberg):
        return path
    return (iceberg if Path(path).name == "ice" else Delta)(path, **options)


def described(table: Target) -> dict[str, Any]:
    """A table as JSON, for a worker in a process of its own, which makes it by `made`."""
    if isinstance(table, Delta):
        return {"path": table.path, "storage_options": table.storage_options, "upsert": table.upsert}
    return {"table": table.table, "catalog": table.catalog}


def made(told: dict[str, Any]) -> Target:
    """The table that `described` describes."""
    return Delta(**told) if "path" in told else Iceberg(**told)


def landed(path: Path | str | Target) -> dict[int, list[int]]:
    """The offsets of all rows of a table as polars reads it, by partition."""
    origins = rows(path).select(polars.col("_kafka").struct.unnest())
    return _by_partition(origins.select("partition", "offset"))


def rows(path: Path | str | Target) -> polars.DataFrame:
    """All rows of a table as polars reads it; of one in a catalog as pyiceberg does, which has what opens the store."""
    table = table_of(path)
    if isinstance(table, Delta):
        # polars has other names for how often it tries.
        options = {name: value for name, value in table.storage_options.items() if "retr" not in name}
        return polars.read_delta(table.path, storage_options=options or None)
    if table is path:
        return polars.DataFrame(iceberg_table(table).scan().to_arrow())
    return polars.scan_iceberg(iceberg_table(table)).collect()


def iceberg_table(path: Path | str | Target) -> Any:
    """The table of Iceberg in a folder, or in a catalog."""
    from pyiceberg.catalog import load_catalog

    table: Any = table_of(path)
    return load_catalog("default", **table.catalog).load_table(table.table)


def _by_partition(table: polars.DataFrame) -> dict[int, list[int]]:
    return {
        number: table.filter(polars.col("partition") == number)["offset"].sort().to_list()
        for number in table["partition"].unique().sort()
    }
