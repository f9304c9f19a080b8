"""`monedula bench`: measures the rates of producing and consuming, and the latency of single records."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Annotated, Any

from typer import Option

import monedula
from monedula.admin import Admin
from monedula.cli.failures import Failure, UsageError
from monedula.cli.progress import Bar
from monedula.cli.running import command
from monedula.cli.settings import BootstrapServers, Setting, SettingsFile, overruled, settings_of
from monedula.cli.tables import AsJson, Headings, headings, show
from monedula.producer.sync import Producer
from monedula.testing import Broker

# The number of different values: with a single one records would compress too well, without repetition too badly.
_VARIANTS = 1024

# Rows per Arrow batch, and records sent between two updates of the progress bar.
_CHUNK = 1 << 16

_COLUMNS = ("what", "records", "seconds", "records_per_second", "mb_per_second", "p50_ms", "p99_ms")

Row = tuple[str, int, float, float, float, float | None, float | None]


@command("bench")
def bench(
    bootstrap_servers: BootstrapServers = None,
    embedded: Annotated[bool, Option("--embedded", help="On an embedded broker of its own.")] = False,
    records: Annotated[int, Option("-n", "--records", min=1, help="How many.")] = 1_000_000,
    size: Annotated[int, Option(min=1, max=1_000_000, help="Bytes of a value.")] = 100,
    partitions: Annotated[int, Option("-p", "--partitions", min=1, help="Of the topic.")] = 3,
    replication_factor: Annotated[int | None, Option("-r", "--replication-factor", min=1, help="Of the topic.")] = None,
    compression: Annotated[str, Option("-z", "--compression", help="none, gzip, snappy, lz4 or zstd.")] = "none",
    singles: Annotated[int, Option(min=0, help="Records that are sent one after the other, for latency.")] = 200,
    as_json: AsJson = False,
    shows_names: Headings = False,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    """Measure rates of producing and consuming.

    And the latency of single records, on a topic that is made for it and deleted again.

    Examples:
        monedula bench --embedded --records 20000
        monedula bench --records 20000 --size 200 -z lz4 --partitions 2
        monedula bench --records 20000 --json
    """
    settings = settings_of(bootstrap_servers, setting, settings_file)
    if embedded and bootstrap_servers is not None:
        raise UsageError("--embedded and --bootstrap-servers contradict each other")
    with ExitStack() as stack:
        if embedded:
            settings = overruled(settings, {"bootstrap.servers": stack.enter_context(Broker()).bootstrap_servers})
        admin = stack.enter_context(Admin(settings))
        topic = stack.enter_context(_topic(admin, partitions, replication_factor))
        values = [os.urandom(size // 2).hex().encode().ljust(size, b".") for _ in range(_VARIANTS)]
        sending = overruled(settings, {"compression.type": compression})

        def one_by_one(producer: Producer, count: int) -> list[Any]:
            return [producer.send(topic, values[number % _VARIANTS]) for number in range(count)]

        rows = [_measure("send", records, size, lambda bar: _send(sending, records, size, bar, one_by_one))]
        if find_spec("pyarrow") is not None:
            import pyarrow

            pool = pyarrow.array(values * (_CHUNK // _VARIANTS), pyarrow.binary())
            batch = pyarrow.record_batch([pool], names=["value"])

            def batched(producer: Producer, count: int) -> list[Any]:
                return [producer.send_batch(batch.slice(0, count), topic)]

            rows.append(_measure("send_batch", records, size, lambda bar: _send(sending, records, size, bar, batched)))
        if singles:
            rows.append(_latency(sending, topic, singles, values))
        there = sum(at.offset or 0 for at in admin.list_offsets(topic, "latest").values())
        rows.append(_measure("consume", there, size, lambda bar: _consume(settings, topic, there, bar)))
    with headings(shows_names):
        show(_COLUMNS, rows, as_json)


@contextmanager
def _topic(admin: Admin, partitions: int, replication_factor: int | None) -> Iterator[str]:
    name = f"monedula-bench-{os.urandom(4).hex()}"
    admin.create_topics(name, partitions=partitions, replication_factor=replication_factor)
    try:
        yield name
    finally:
        admin.delete_topics(name)


def _measure(what: str, records: int, size: int, run: Callable[[Bar], None]) -> Row:
    with Bar(what, records) as bar:
        begun = time.perf_counter()
        run(bar)
        seconds = time.perf_counter() - begun
    return _row(what, records, size, seconds)


def _row(
    what: str, records: int, size: int, seconds: float, median: float | None = None, high: float | None = None
) -> Row:
    rates = round(records / seconds), round(records * size / seconds / 1e6, 1)
    return (what, records, round(seconds, 3), *rates, median, high)


def _send(settings: dict[str, str], records: int, size: int, bar: Bar, send: Callable[[Producer, int], Any]) -> None:
    with Producer(settings) as producer:
        sent: list[Any] = []
        for begin in range(0, records, _CHUNK):
            count = min(_CHUNK, records - begin)
            sent += send(producer, count)
            bar.count(count, count * size)
            bar.at(begin + count)
        for future in sent:
            future.result()


def _latency(settings: dict[str, str], topic: str, singles: int, values: list[bytes]) -> Row:
    """Measure the time until a single record is acknowledged, with no other record in flight."""
    took: list[float] = []
    with Producer(overruled({"linger.ms": "0"}, settings)) as producer:
        producer.send(topic, values[0]).result()
        begun = time.perf_counter()
        for number in range(singles):
            at = time.perf_counter()
            producer.send(topic, values[number % _VARIANTS]).result()
            took.append((time.perf_counter() - at) * 1000)
        seconds = time.perf_counter() - begun
    took.sort()
    median, high = (round(took[min(int(share * singles), singles - 1)], 2) for share in (0.5, 0.99))
    return _row("send, one at a time", singles, len(values[0]), seconds, median, high)


def _consume(settings: dict[str, str], topic: str, there: int, bar: Bar) -> None:
    read = 0
    with monedula.read(settings, topic, columns=["key", "value"]) as stream:
        for batch in stream:
            read += batch.num_rows
            bar.count(batch.num_rows, batch.nbytes)
            bar.at(read)
    if read != there:
        raise Failure(f"{there} records were written, and {read} read")
