"""docs/spark.md: its examples, and the README's for Spark, run as they stand; its tables say what the code does."""

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from monedula import ConfigError, OffsetAndMetadata, Producer
from monedula.spark.options.kafka_settings import kafka_settings, producer_settings
from monedula.spark.sink import sink
from monedula.spark.sink.options import OPTIONS as SINK_OPTIONS
from monedula.spark.sink.options import SinkOptions
from monedula.spark.source.options import OPTIONS, SourceOptions
from monedula.spark.source.typed import OPTIONS as TYPED_OPTIONS
from monedula.testing import Registry
from pyspark.sql import SparkSession

from tests.conftest import TopicFactory
from tests.consumer.avro_values import field, record, written
from tests.kafka import KafkaCluster
from tests.kafka.tools import Record
from tests.real.reading import committed
from tests.spark._support.sinks import rows_in
from tests.spark._support.streams import logged_offsets, run_stream, streaming

ROOT = Path(__file__).resolve().parents[2]
GUIDE, README = ROOT / "docs/spark.md", ROOT / "README.md"
NOVEMBER_MS = 1_793_491_200_000  # 2026-11-01T00:00:00Z, as in the guide
HOUR_MS = 3_600_000
WAIT_SECONDS = 90.0

Example = Callable[..., dict[str, Any]]


@pytest.fixture
def run(spark: SparkSession, kafka: KafkaCluster, tmp_path: Path) -> Example:
    """Runs the example that holds `words`, with a real broker and topic, below a directory of the test's own."""

    def run_example(
        words: str, topic: str, page: Path = GUIDE, into: str = "unused", registry: str = ""
    ) -> dict[str, Any]:
        source = next(each for each in examples(page) if words in each)
        of_test = {
            "localhost:9092": kafka.bootstrap,
            '("subscribe", "orders")': f'("subscribe", "{topic}")',
            '"subscribe": "orders"': f'"subscribe": "{topic}"',
            '("topic", "customers")': f'("topic", "{into}")',
            '("topic", "totals")': f'("topic", "{into}")',
            '("topic", "large-orders")': f'("topic", "{into}")',
            "http://localhost:8081": registry,
            "/data": str(tmp_path),
            "start_http_server(8000)": "start_http_server(0)",
        }
        for old, new in of_test.items():
            source = source.replace(old, new)
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(source, str(page), "exec"), names)
        assert names["spark"] is spark
        return names

    return run_example


def examples(page: Path = GUIDE) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def table(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its first two lines."""
    section = GUIDE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line.replace("\\|", "¦") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("¦", "|") for cell in line.strip("|").split("|")] for line in lines[2:]]


def order(number: int) -> Record:
    value = json.dumps({"customer": f"c{number % 2}", "amount": number + 0.5})
    return {"key": f"k{number}", "value": value, "partition": number % 2}


@pytest.mark.parametrize("page", [GUIDE, README], ids=lambda page: page.stem)
def test_the_first_lines_show_a_topic(
    run: Example, kafka: KafkaCluster, topic: TopicFactory, capsys: pytest.CaptureFixture[str], page: Path
) -> None:
    name = topic(2)
    kafka.helper.produce(name, [order(number) for number in range(4)])
    run(").show()", name, page)
    shown = capsys.readouterr().out
    assert shown.count('{"customer"') == 4


def test_parquet_has_each_order_once_however_often_it_runs(
    run: Example, spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(2)
    kafka.helper.produce(name, [order(number) for number in range(10)])
    run("orders-to-parquet", name)
    run("orders-to-parquet", name)
    kafka.helper.produce(name, [order(number) for number in range(10, 16)])
    run("orders-to-parquet", name)
    rows = spark.read.parquet(str(tmp_path / "orders")).collect()
    assert sorted((row.partition, row.offset) for row in rows) == [(p, o) for p in range(2) for o in range(8)]
    assert sorted(row.key for row in rows) == sorted(f"k{number}" for number in range(16))


def test_the_table_of_revenue_counts_a_batch_once_that_runs_twice(
    run: Example, spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(2)
    kafka.helper.produce(name, [order(number) for number in range(10)])
    run('appName("revenue")', name)
    # As after a crash between the batch's last row and Spark's note that it is done.
    for note in (tmp_path / "checkpoints/revenue/commits").glob("*0*"):
        note.unlink()
    kafka.helper.produce(name, [order(number) for number in range(10, 12)])
    names = run('appName("revenue")', name)
    totals = spark.read.parquet(names["TABLE"]).groupBy("customer").sum("amount", "orders").collect()
    of_customer = {number: [n + 0.5 for n in range(12) if n % 2 == number] for number in range(2)}
    assert {row[0]: (row[1], row[2]) for row in totals} == {
        f"c{number}": (sum(amounts), len(amounts)) for number, amounts in of_customer.items()
    }


def test_a_day_is_read_from_its_first_record_to_before_the_next_day(
    run: Example, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    # The third partition has no record of that day.
    name = topic(3, config={"retention.ms": -1})
    times_ms = [NOVEMBER_MS + hours * HOUR_MS for hours in (-1, 0, 0, 7, 23, 24, 30)]
    for partition in range(2):
        stamped: list[Record] = [{"value": "x", "partition": partition, "timestamp": at_ms} for at_ms in times_ms]
        kafka.helper.produce(name, stamped)
    kafka.helper.produce(name, [{"value": "x", "partition": 2, "timestamp": times_ms[0]}])
    names = run("orders-of-a-day", name)
    assert names["day"].columns == ["value", "timestamp"]
    counted = [(row.hour, row["count"]) for row in names["by_hour"].collect()]
    assert counted == [("2026-11-01 00", 4), ("2026-11-01 07", 2), ("2026-11-01 23", 2)]


def test_the_listener_commits_to_its_group(
    run: Example, spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(2)
    kafka.helper.produce(name, [order(number) for number in range(6)])
    names = run("LagListener", name)
    listener = names["listener"]
    try:
        # Spark notifies the listener of a query's end later.
        while not (offsets := committed(kafka.bootstrap, "orders-pipeline")):
            assert listener.failures == {}
    finally:
        spark.streams.removeListener(listener)
        listener.close(WAIT_SECONDS)
    assert offsets == dict.fromkeys([(name, 0), (name, 1)], OffsetAndMetadata(3))


def test_customers_are_written(run: Example, spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> None:
    into = topic(2)
    run("customers", "unused", into=into)
    rows = {(row.key.decode(), row.value.decode()) for row in rows_in(spark, kafka, into)}
    assert rows == {("1", '{"id":1,"name":"Ada"}'), ("2", '{"id":2,"name":"Grace"}')}


def test_a_frame_is_written_as_json(
    run: Example, spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    into = topic()
    run('"totals"', "unused", into=into)
    assert [bytes(row.value) for row in rows_in(spark, kafka, into)] == [b'{"id":1,"customer":"Ada","amount":3.5}']


def test_a_stream_of_large_orders_goes_on_where_it_ended(
    run: Example, spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name, into = topic(2), topic(2)
    for numbers in (range(8), range(8, 12)):
        kafka.helper.produce(name, [order(number) for number in numbers])
        run("large-orders", name, into=into)
    assert sorted(row.key.decode() for row in rows_in(spark, kafka, into)) == sorted(f"k{n}" for n in range(5, 12))


def test_an_hour_is_counted(
    run: Example, spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topic(2)
    kafka.helper.produce(name, [order(number) for number in range(6)])
    try:
        run("interval 1 hour", name)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    shown = capsys.readouterr().out
    assert "PushedFilters: [" in shown
    assert shown.splitlines()[-1] == "6"


def test_the_example_of_typed_columns(
    kafka: KafkaCluster, topic: TopicFactory, run: Example, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topic(2)
    kafka.helper.produce(name, [order(number) for number in range(8)] + [{"value": "no json"}])
    orders = run("value.format", name)["orders"]
    rows = orders.select("value.*").collect()
    assert len(rows) == 9
    assert [row._corrupt_record for row in rows if row.customer is None] == ["no json"]
    assert "customer" in capsys.readouterr().out


def test_the_example_of_avro_has_the_fields_of_the_subject(
    run: Example, kafka: KafkaCluster, topic: TopicFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topic(1)
    schema = record(field("id", "long"), field("customer", "string"), name="Order")
    with Registry() as registry:
        number = registry.register("orders-value", schema)
        with Producer({"bootstrap.servers": kafka.bootstrap}) as producer:
            framed = b"\x00" + number.to_bytes(4, "big") + written(schema, {"id": 7, "customer": "Grace"})
            producer.send(name, framed)
        names = run('"value.format", "avro"', name, registry=registry.url)
        assert [tuple(row.value) for row in names["orders"].collect()] == [(7, "Grace")]
    assert "Grace" in capsys.readouterr().out


def test_the_lag_is_shown_to_prometheus(
    spark: SparkSession, run: Example, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path
) -> None:
    pytest.importorskip("prometheus_client")
    name = topic(2)
    kafka.helper.produce(name, [order(number) for number in range(3)])
    listener = run("monedula.prometheus.watch(listener)", name)["listener"]
    from monedula.prometheus import Collector, unwatch

    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, "startingOffsets": "earliest"}
    frame = spark.readStream.format("monedula").options(**options, maxOffsetsPerTrigger=1).load()
    try:
        with streaming(frame, checkpoint) as running:
            running.query.processAllAvailable()
            deadline = time.monotonic() + 60
            while not (found := list(Collector(listener).collect())) or found[0].samples[0].value > 0:
                assert time.monotonic() < deadline, found
                time.sleep(0.02)
            assert found[0].samples[0].labels["topic"] == name
    finally:
        spark.streams.removeListener(listener)
        unwatch()


def test_the_format_is_registered_by_a_call(run: Example, topic: TopicFactory) -> None:
    run("from monedula.spark import register\nfrom pyspark", topic())


def test_every_example_is_run_here() -> None:
    assert len(examples()) == 13


def test_the_table_names_the_options_that_there_are() -> None:
    named = [cells[0].strip("`") for cells in table("Options")]
    assert sorted(named) == sorted(OPTIONS)
    assert len(set(named)) == len(named)


MINIMAL = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


@pytest.mark.parametrize("cells", table("Options"), ids=lambda cells: cells[0].strip("`"))
def test_the_table_has_the_true_default(cells: list[str]) -> None:
    name, default = cells[0].strip("`"), cells[1]
    plain = SourceOptions.parse(MINIMAL)
    if name in ("startingOffsets", "endingOffsets"):
        batch, _, stream = default.partition(" in batch, ")
        given = SourceOptions.parse({**MINIMAL, name: batch.strip("`")})
        assert given.batch_bounds() == plain.batch_bounds()
        if stream:
            text = stream.removesuffix(" in streaming").strip("`")
            assert SourceOptions.parse({**MINIMAL, name: text}).stream_start() == plain.stream_start()
        return
    if default == "none":
        field = re.sub(r"[A-Z.]", lambda match: "_" + match[0].lower(), name).replace("_.", "_")
        assert getattr(plain, field, None) is None
        return
    given = SourceOptions.parse({**MINIMAL, name: default.strip("`")})
    assert {**vars(given), "raw": None} == {**vars(plain), "raw": None}
    assert default.startswith("`")


@pytest.mark.parametrize("cells", table("Options"), ids=lambda cells: cells[0].strip("`"))
def test_the_table_says_for_which_queries_an_option_is(cells: list[str], caplog: pytest.LogCaptureFixture) -> None:
    name, queries = cells[0].strip("`"), cells[2]
    samples = {"subscribe": "orders", "subscribePattern": "o.*", "assign": '{"orders":[0]}'}
    chosen = {name: samples[name]} if name in samples else {"subscribe": "orders", name: VALUES.get(name, "7")}
    if name.startswith(("value.", "key.")):
        column, _, option = name.partition(".")
        of = {"message": "protobuf"} | dict.fromkeys(("schema", "schemas", "subject", "version"), "avro")
        chosen = {f"{column}.format": of.get(option, "json"), **chosen}
        if option in ("version", "message"):
            chosen[f"{column}.subject"] = "orders"
    options = SourceOptions.parse({"kafka.bootstrap.servers": "localhost:9092", **chosen})
    options.batch_bounds()
    ignored_in_batch = f"{name} option ignored in batch queries" in caplog.text
    try:
        options.stream_start()
        refused_in_streams = False
    except ConfigError:
        refused_in_streams = True
    said = {(False, False): "both", (True, False): "streaming", (False, True): "batch"}
    assert queries == said[ignored_in_batch, refused_in_streams]


VALUES = {
    **{f"{column}.framing": "confluent" for column in ("key", "value")},
    **{f"{column}.schemas": '{"7": "int"}' for column in ("key", "value")},
    "startingOffsets": "earliest",
    "startingOffsetsByTimestamp": '{"orders":{"0":1}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "endingOffsets": "latest",
    "endingOffsetsByTimestamp": '{"orders":{"0":1}}',
    "failOnDataLoss": "false",
    "includeHeaders": "true",
    "maxLateness": "5m",
    "columns": "value",
    "value.format": "json",
    "value.mode": "FAILFAST",
    "value.flatten": "true",
    "key.format": "json",
    "key.mode": "FAILFAST",
}


def test_the_table_marks_the_options_that_spark_does_not_have() -> None:
    own = {cells[0].strip("`") for cells in table("Options") if cells[3].startswith("*own*")}
    assert own == {"maxBytesPerTrigger", "maxLateness", "maxPartitions", "columns", *TYPED_OPTIONS}


def test_the_table_of_settings_has_the_true_defaults() -> None:
    used = kafka_settings({name.lower(): value for name, value in MINIMAL.items()}, "spark-kafka-source")
    named = {cells[0].strip("`").removeprefix("kafka."): cells[1].strip("`") for cells in table("Settings of Kafka")}
    expected = {**used, "bootstrap.servers": "required", "client.id": "what `groupIdPrefix` says"}
    assert named == expected


def test_the_table_names_the_options_for_writing_and_their_true_defaults() -> None:
    rows = {cells[0].strip("`"): cells[1].strip("`") for cells in table("Options for writing")}
    assert sorted(rows) == sorted(SINK_OPTIONS)
    servers = {"kafka.bootstrap.servers": "localhost:9092"}
    given = SinkOptions.parse({**servers, **{name: value for name, value in rows.items() if value != "none"}})
    assert given == SinkOptions.parse(servers)
    assert given.topic is None


def test_the_table_of_settings_for_writing_has_the_true_defaults() -> None:
    used = producer_settings({"kafka.bootstrap.servers": "localhost:9092"})
    rows = table("Settings for writing")
    named = {cells[0].strip("`").removeprefix("kafka."): cells[1].strip("`") for cells in rows}
    assert named == {**used, "bootstrap.servers": "required"}


def test_the_table_of_columns_has_the_types_that_a_sink_takes() -> None:
    listed = {
        name.strip("`"): type_.strip("`").replace(": ", ":").replace(", ", ",") for name, type_, _ in table("Writing")
    }
    taken = {name: " or ".join(each.simpleString() for each in types) for name, types in sink.TYPES.items()}
    assert listed == taken


def test_a_checkpoint_goes_back_to_sparks_own_source_after_one_batch_more(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, checkpoint: Path, tmp_path: Path
) -> None:
    name = topic(2)
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, "startingOffsets": "earliest"}

    def run_with(source: str) -> list[tuple[int, int]]:
        kafka.helper.produce(name, [order(number) for number in range(4)])
        batches = run_stream(spark.readStream.format(source).options(**options).load(), checkpoint)
        return sorted((row.partition, row.offset) for batch in batches for row in batch.rows)

    assert run_with("monedula") == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert "$start" in logged_offsets(checkpoint)[0]
    too_early = shutil.copytree(checkpoint, tmp_path / "too-early")
    with pytest.raises(Exception, match=r"Expected e\.g\."):
        run_stream(spark.readStream.format("kafka").options(**options).load(), too_early)
    assert run_with("monedula") == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert "$start" not in logged_offsets(checkpoint)[1]
    assert run_with("kafka") == [(0, 4), (0, 5), (1, 4), (1, 5)]
    assert run_with("monedula") == [(0, 6), (0, 7), (1, 6), (1, 7)]
